"""Changes of a view's colours and sharpness, each photo's its own: brightness, contrast, saturation and hue in random order,
grey, blur, as in MoCo v2 (docs/methods.md, section 6). Each change is that of torchvision's function for one picture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bgbias.compute.lazy import F, Tensor, torch
from bgbias.training.patch_negatives import SIDE

LUMA = (0.2989, 0.587, 0.114)
BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)


@dataclass(frozen=True)
class Changes:
    """Of each of N photos: factors of brightness, contrast and saturation and the turn of the hue, [N, 4]; the order of these
    four, int64 [N, 4]; whether they are made, whether the photo becomes grey, bool [N]; the blur's standard deviation in pixels,
    0 for none, [N]; ``reach``: how far the widest blur looks, in pixels.
    """

    factors: Tensor
    order: Tensor
    jittered: Tensor
    grey: Tensor
    blur: Tensor
    reach: int


def draw(count: int, params: Any, side: int, generator: torch.Generator) -> Changes:
    """What is drawn for so many photos of ``side`` pixels, by a pretraining's options; ``generator``: of the processor, so that
    all devices draw the same.
    """

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, generator=generator)

    *others, hue = params.jitter
    factors = [uniform(max(0.0, 1 - strength), 1 + strength) for strength in others]
    factors.append(uniform(-hue, hue))
    order = torch.rand(count, 4, generator=generator).argsort(1)
    jittered = uniform(0, 1) < params.jitter_share
    grey = uniform(0, 1) < params.grey_share
    sigma = uniform(*params.blur) * side / SIDE
    blur = torch.where(uniform(0, 1) < params.blur_share, sigma, torch.zeros(()))
    reach = max(1, round(3 * params.blur[1] * side / SIDE))
    return Changes(torch.stack(factors, 1), order, jittered, grey, blur, reach)


def change_colours(photos: Tensor, changes: Changes) -> Tensor:
    """Photos uint8 [N, 3, S, S] with their changes, float32 in 0..255."""
    x = photos.float() / 255
    factors, order = changes.factors.to(x.device), changes.order.to(x.device)
    jittered = changes.jittered.to(x.device)
    for position in range(4):
        for kind, change in CHANGES.items():
            rows = (jittered & (order[:, position] == kind)).nonzero()[:, 0]
            if len(rows):
                x = x.index_copy(0, rows, change(x[rows], factors[rows, kind].view(-1, 1, 1, 1)))
    grey = changes.grey.to(x.device).view(-1, 1, 1, 1)
    x = torch.where(grey, _to_grey(x).expand_as(x), x)
    rows = changes.blur.nonzero()[:, 0]
    if len(rows):
        x = x.index_copy(0, rows.to(x.device), blur(x[rows.to(x.device)], changes.blur[rows], changes.reach))
    return 255 * x


def _to_grey(x: Tensor) -> Tensor:
    red, green, blue = (weight * x[:, channel : channel + 1] for channel, weight in enumerate(LUMA))
    return red + green + blue


def _mix(x: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    return (factor * x + (1 - factor) * other).clamp(0, 1)


def _turn_hue(x: Tensor, turn: Tensor) -> Tensor:
    """Another hue: of hue, saturation and value the first moves by ``turn``, 1 being once around."""
    most, least = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    spread = most - least
    divisor = torch.where(spread > 0, spread, torch.ones_like(spread))
    red, green, blue = ((most - part) / divisor for part in x.split(1, 1))
    r, g, _ = x.split(1, 1)
    hue = torch.where(r == most, blue - green, torch.where(g == most, 2 + red - blue, 4 + green - red))
    hue = (torch.where(spread > 0, hue, torch.zeros_like(hue)) / 6 + turn) % 1
    # Each channel as a function of the hue, all of them the same one a third of the circle apart.
    shifts = torch.tensor([5.0, 3.0, 1.0], device=x.device).view(1, 3, 1, 1)
    k = (shifts + 6 * hue) % 6
    return (most - spread * torch.minimum(k, 4 - k).clamp(0, 1)).clamp(0, 1)


CHANGES: dict[int, Callable[[Tensor, Tensor], Tensor]] = {
    BRIGHTNESS: lambda x, factor: _mix(x, torch.zeros_like(x), factor),
    CONTRAST: lambda x, factor: _mix(x, _to_grey(x).mean((1, 2, 3), keepdim=True), factor),
    SATURATION: lambda x, factor: _mix(x, _to_grey(x), factor),
    HUE: _turn_hue,
}


def blur(x: Tensor, sigma: Tensor, reach: int) -> Tensor:
    """Photos [N, 3, S, S] blurred by deviations [N], by kernels of ``reach``; rims are mirrored."""
    count, channels, *_ = x.shape
    offsets = torch.arange(-reach, reach + 1, device=x.device, dtype=x.dtype)
    weights = (-0.5 * (offsets / sigma.to(x)[:, None]).square()).exp()
    weights = (weights / weights.sum(1, keepdim=True)).repeat_interleave(channels, 0)
    wide = F.pad(x, (reach,) * 4, mode="reflect").flatten(0, 1)[None]
    across = F.conv2d(wide, weights.view(count * channels, 1, 1, -1), groups=count * channels)
    down = F.conv2d(across, weights.view(count * channels, 1, -1, 1), groups=count * channels)
    return down[0].view_as(x)
