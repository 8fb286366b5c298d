"""Pictures of no class: what a photo is made of, and nothing of what it shows (docs/methods.md, section 6).

Lengths are told for photos of 224 pixels, and are in proportion for others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from bgbias.compute.lazy import F, Tensor, torch
from bgbias.settings import Strict

if TYPE_CHECKING:
    from bgbias.training.methods import Batch

# The kinds, and what batches carry beside photos for each.
NEEDS: dict[str, frozenset[str]] = {
    "patches": frozenset(),
    "textures": frozenset({"textures"}),
    "surroundings": frozenset({"masks"}),
    "boxes": frozenset({"masks"}),
}
SIDE = 224
SMALLEST, LARGEST = 16, 48  # sides of the windows that cover an object
# Of background alone: the object is grown by so much, its rim is blurred with this standard deviation, windows may be made so
# much smaller until they fit beside it, and may show this share of it.
GROWN, BLUR, LEAST, SHARE = 7, 2.0, 8, 0.05


class Sides(Strict):
    """From and to which side windows of a photo are drawn, as published."""

    smallest: int = Field(16, ge=1, le=SIDE, description="least side of a patch, in a photo of 224 pixels")
    largest: int = Field(72, ge=1, le=SIDE, description="greatest side of a patch")

    @model_validator(mode="after")
    def _in_order(self) -> Sides:
        if self.smallest > self.largest:
            raise ValueError(f"smallest is {self.smallest}, largest {self.largest}: exchange them")
        return self


def make(
    kind: str,
    photos: Tensor,
    batch: Batch,
    show: Callable[[Tensor], Tensor],
    params: Any,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """A picture of a kind for each photo [B, C, S, S], and which of them count, bool [B].

    ``photos``: the first B of ``batch`` as the model sees them; ``show``: what makes them such of uint8; ``params``: ``Sides``,
    for patches; ``generator``: of the processor, so that every device draws the same.
    """
    if kind in ("surroundings", "boxes"):
        assert batch.masks is not None  # NEEDS asks for them
        masks = batch.masks[: len(photos)]
        return cover_objects(photos, masks, SMALLEST, LARGEST, kind == "boxes", generator)
    if kind == "textures":
        assert batch.textures is not None
        pictures = show(batch.textures)[: len(photos)]
    else:
        pictures = patches(photos, params.smallest, params.largest, generator)
    return pictures, torch.ones(len(photos), dtype=torch.bool, device=photos.device)


def pixels(length: float, side: int) -> int:
    """A length that is told for photos of 224 pixels, in one of ``side`` pixels; 1 at least."""
    return max(1, round(length * side / SIDE))


def per_side(window: int, side: int) -> int:
    """How many windows lie beside one another, as in the released code of non-semantic negatives: one more than fit whole."""
    return side // window + 1


def tile(photos: Tensor, windows: Sequence[int], tops: Sequence[Tensor], lefts: Sequence[Tensor]) -> Tensor:
    """Photos [B, C, S, S] of which each is tiled with square windows of its own, from left to right and down, cut at its rim.

    ``windows``: a photo's side of a window; ``tops``, ``lefts``: the rows and columns that its windows begin at, int64 [n, n].
    """
    side = photos.shape[-1]
    position = torch.arange(side)
    rows, columns = [], []
    for window, top, left in zip(windows, tops, lefts, strict=True):
        number, within = position // window, position % window
        rows.append(top[number[:, None], number] + within[:, None])
        columns.append(left[number[:, None], number] + within)
    y, x = (torch.stack(indices).to(photos.device) for indices in (rows, columns))
    flat = photos.flatten(2).gather(2, (y * side + x).flatten(1)[:, None].expand(-1, photos.shape[1], -1))
    return flat.view_as(photos)


def patches(photos: Tensor, smallest: int, largest: int, generator: torch.Generator) -> Tensor:
    """Each photo [B, C, S, S] as windows of its own, which may overlap; a side from ``smallest`` to ``largest``, one a photo.

    ``generator``: of the processor, so that every device draws the same.
    """
    side = photos.shape[-1]
    low, high = pixels(smallest, side), min(pixels(largest, side), side)
    windows = [int(torch.randint(low, high + 1, (), generator=generator)) for _ in photos]

    def anywhere(window: int) -> Tensor:
        count = per_side(window, side)
        return torch.randint(side - window + 1, (count, count), generator=generator)

    return tile(photos, windows, [anywhere(w) for w in windows], [anywhere(w) for w in windows])


def dilate(masks: Tensor) -> Tensor:
    """What is more object than not in masks [B, 1, S, S] of 0..1, and all around it that is near, float of 0 and 1."""
    reach = pixels(GROWN, masks.shape[-1])
    offsets = torch.arange(-reach, reach + 1, device=masks.device)
    disc = (offsets[:, None].square() + offsets.square() <= reach * reach).to(masks.dtype)
    return (F.conv2d((masks > 0.5).to(masks.dtype), disc[None, None], padding=reach) > 0.5).to(masks.dtype)


def boxes(masks: Tensor) -> Tensor:
    """The boxes around what is not 0 in masks [B, 1, S, S], float of 0 and 1."""
    inside = masks > 0
    rows, columns = inside.any(3, keepdim=True), inside.any(2, keepdim=True)
    spans = [
        line.cummax(axis).values & line.flip(axis).cummax(axis).values.flip(axis)
        for line, axis in ((rows, 2), (columns, 3))
    ]
    return (spans[0] & spans[1]).to(masks.dtype)


def blur(masks: Tensor) -> Tensor:
    """Masks [B, 1, S, S] with soft rims; what lies outside of a picture is like its rim."""
    sigma = BLUR * masks.shape[-1] / SIDE
    reach = max(1, round(3 * sigma))
    offsets = torch.arange(-reach, reach + 1, device=masks.device, dtype=masks.dtype)
    weights = (-offsets.square() / (2 * sigma * sigma)).exp()
    weights /= weights.sum()
    wide = F.pad(masks, (reach,) * 4, mode="replicate")
    return F.conv2d(F.conv2d(wide, weights.view(1, 1, 1, -1)), weights.view(1, 1, -1, 1))


def cover_objects(
    photos: Tensor, masks: Tensor, smallest: int, largest: int, box: bool, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Photos [B, C, S, S] whose objects are covered by windows of their surroundings, and whether there are any, bool [B]: of a
    photo that shows no object, what is made is the photo.

    ``masks``: float [B, 1, S, S] in 0..1; ``box``: cover the box around the object, which hides its outline too.
    ``generator``: of the processor.
    """
    side = photos.shape[-1]
    objects = dilate(masks)
    cover = boxes(objects) if box else blur(objects)
    # Sums over all windows from the corner, in float64: on whole numbers they are exact.
    corners = F.pad(objects[:, 0].cpu().double().cumsum(1).cumsum(2), (1, 0, 1, 0))
    low, high, least = (min(pixels(length, side), side) for length in (smallest, largest, LEAST))
    windows, tops, lefts, has_windows = [], [], [], []
    for sums in corners:
        window = int(torch.randint(low, high + 1, (), generator=generator))
        while not len(places := _find_windows(sums, window)) and window > least:
            window = max(window // 2, least)
        has_windows.append(len(places) > 0 and bool(sums[-1, -1] > 0))
        if not len(places):
            places = places.new_zeros(1, 2)  # what is made of it counts for nothing
        numbers = torch.rand((per_side(window, side),) * 2, generator=generator, dtype=torch.float64)
        chosen = places[(numbers * len(places)).long()]
        windows.append(window)
        tops.append(chosen[..., 0])
        lefts.append(chosen[..., 1])
    texture = tile(photos, windows, tops, lefts)
    return photos + cover * (texture - photos), torch.tensor(has_windows, device=photos.device)


def _find_windows(sums: Tensor, window: int) -> Tensor:
    """Rows and columns, int64 [K, 2], at which windows begin that hardly show the object, by its sums [S + 1, S + 1]."""
    inside = (
        sums[window:, window:] - sums[:-window, window:] - sums[window:, :-window] + sums[:-window, :-window]
    )
    return (inside < SHARE * window * window).nonzero()
