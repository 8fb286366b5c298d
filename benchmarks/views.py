"""Photos on their way to a network: kept, cropped, on other backgrounds, in training and in the test, and embedded."""

import io
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision import transforms
from torchvision.transforms import functional as F

from benchmarks import Case, Figure, difference, rate, ratio
from benchmarks._album import SIDE, Album, encode, views
from benchmarks._models import frozen_model, normalise
from bgbias import plugins, seeds
from bgbias.backgrounds.draws import Draw, Pool
from bgbias.evaluation import conditions as of_evaluation
from bgbias.evaluation.embedding import embed
from bgbias.evaluation.embeddings import Embeddings
from bgbias.images import pixels
from bgbias.images.composite import blend_batch
from bgbias.images.pixels import RelativeBox
from bgbias.models.backbones.bn_inception import FACTS
from bgbias.models.inference import embed_views
from bgbias.models.settings import How
from bgbias.training.methods import Batch

OURS, PEER = "bgbias", "published path"
DRAWS = 5

# Training batches whose backgrounds are replaced, and test photos on other ones, against the data path of the published code
# (docs/methods.md, sections 1 and 2). There every picture is decoded and resized each time it is shown, on the main process.

DECODING = "decoding the photos alone"
SCALE, RATIO, SIZE = (0.16, 1.0), (0.75, 1.33), FACTS.input_size


class Part(NamedTuple):
    """A crop of a picture: (top, left, height, width) in pixels of a picture of this (width, height), mirrored or not."""

    box: tuple[int, int, int, int]
    flip: bool
    of: tuple[int, int]

    @property
    def relative(self) -> tuple[RelativeBox, bool]:
        """The same as this project names it."""
        (top, left, height, width), (w, h) = self.box, self.of
        return RelativeBox(left / w, top / h, width / w, height / h), self.flip


class Shown(NamedTuple):
    """Photos [B, 3, S, S] as the published path gives them, the same on random backgrounds, and which parts these are."""

    photos: Tensor
    mixed: Tensor
    parts: list[tuple[RelativeBox, bool]]
    draws: list[Draw]


def random_part(picture: Image.Image) -> Part:
    box = transforms.RandomResizedCrop.get_params(picture, [*SCALE], [*RATIO])
    return Part(box, random.random() < 0.5, picture.size)


def middle_part(picture: Image.Image) -> Part:
    width, height = picture.size
    return Part(((height - SIZE) // 2, (width - SIZE) // 2, SIZE, SIZE), False, picture.size)


def show(album: Album, rows: Iterable[int], choose: Callable[[Image.Image], Part]) -> Shown:
    """A batch of the published path; a background is always cropped at random, also in evaluation."""
    photos, masks, backgrounds, parts, draws = [], [], [], [], []
    for row in rows:
        photo, index = _open(album.photos[row]), random.randrange(len(album.backgrounds))
        background = _open(album.backgrounds[index])
        part, other = choose(photo), random_part(background)
        photos.append(_normalise(_crop(photo, part)))
        masks.append(F.to_tensor(_crop(_open(album.masks[row], "L"), part)))
        backgrounds.append(_normalise(_crop(background, other)))
        parts.append(part.relative)
        draws.append(Draw(index, *other.relative))
    clean, mask = torch.stack(photos), torch.stack(masks)
    return Shown(clean, mask * clean + (1 - mask) * torch.stack(backgrounds), parts, draws)


def _open(data: bytes, mode: str = "RGB") -> Image.Image:
    with Image.open(io.BytesIO(data)) as picture:
        return F.resize(picture.convert(mode), SIDE)


def _crop(picture: Image.Image, part: Part) -> Image.Image:
    crop = F.resized_crop(picture, *part.box, [SIZE, SIZE])
    return F.hflip(crop) if part.flip else crop


def _normalise(picture: Image.Image) -> Tensor:
    blue_first = 255 * F.to_tensor(picture)[[2, 1, 0]]
    return F.normalize(blue_first, [*FACTS.preprocess.mean], [*FACTS.preprocess.std])


def _compare(ours: Tensor, shown: Shown) -> float:
    """In grey levels, which this network's numbers are."""
    return float((ours - shown.mixed).abs().mean())


def training_batches(device: str, photos: int = 64, backgrounds: int = 60, batch: int = 32) -> Case:
    album = Album(photos, backgrounds)
    prepared, rows = album.training(SIZE), np.arange(batch) % photos

    def mix(crops: Batch) -> Tensor:
        assert crops.masks is not None
        assert crops.backgrounds is not None
        return FACTS.preprocess(blend_batch(crops.images, crops.masks, crops.backgrounds))

    def ours() -> Tensor:
        of_crops, of_backgrounds = seeds.generator("crop", "bench"), seeds.generator("background", "bench")
        return mix(prepared.batch(rows, of_crops, of_backgrounds, SCALE, RATIO))

    shown = show(album, rows, random_part)
    apart = _compare(mix(prepared.crop(rows, shown.parts, shown.draws)), shown)
    return Case(
        ours={OURS: ours},
        peers={PEER: lambda: show(album, rows, random_part)},
        limits={DECODING: lambda: [pixels.decode(album.photos[row], "photo") for row in rows]},
        figures=[
            Figure("times as fast as the published path", ratio(PEER, OURS), at_least=6),
            Figure("mean difference of pixels, grey levels", apart, at_most=0.05),
            Figure("by the time that decoding the photos alone takes", ratio(OURS, DECODING)),
            Figure("images/s", rate(OURS, batch), unit="/s"),
        ],
    )


def evaluation_views(device: str, photos: int = 16, backgrounds: int = 60) -> Case:
    album = Album(photos, backgrounds)
    prepared, pool, rows = album.evaluation(SIZE), album.pool(), range(photos)

    def ours() -> Tensor:
        return _stack([*prepared.views(views(DRAWS))])

    shown = show(album, rows, middle_part)
    on_same = [
        prepared.photo(row).foreground.before(pool.picture(drawn, SIZE))
        for row, drawn in enumerate(shown.draws)
    ]
    one_by_one = [view for row in rows for view in _make_views(album, pool, row, prepared.table.keys[row])]
    equal = np.stack([*prepared.views(views(DRAWS))]) == np.stack(one_by_one)
    what = "share of bytes as when each view is made by itself, in whole numbers"
    apart = "mean difference of pixels from the published path, grey levels"
    return Case(
        ours={OURS: ours},
        # Each draw is a pass of its own: original photos, and the same on random backgrounds.
        peers={PEER: lambda: [show(album, rows, middle_part) for _ in range(DRAWS)]},
        figures=[
            Figure("times as fast as the published path", ratio(PEER, OURS), at_least=10),
            Figure(what, float(equal.mean()), at_least=1),
            Figure(apart, _compare(_stack(on_same), shown), at_most=0.3),
            Figure("photos/s, six views each", rate(OURS, photos), unit="/s"),
        ],
    )


def _stack(pictures: Sequence[np.ndarray]) -> Tensor:
    """What a network gets to see of views."""
    return FACTS.preprocess(torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2))


def _make_views(album: Album, pool: Pool, row: int, key: tuple[str, str]) -> Iterator[np.ndarray]:
    """The views of a photo by their definition, from the encoded pictures."""
    clean = pixels.centre_crop(_decode(album.photos[row]), SIZE)
    share = pixels.centre_crop(_decode(album.masks[row], "L"), SIZE)[..., None].astype(int)
    yield clean
    for drawn in (pool.draw(key, repeat) for repeat in range(DRAWS)):
        background = pixels.crop(_decode(album.backgrounds[drawn.index]), drawn.box, SIZE, drawn.flip)
        yield np.rint((share * clean + (255 - share) * background) / 255).astype(np.uint8)


def _decode(data: bytes, mode: str = "RGB") -> np.ndarray:
    return pixels.resize_short(pixels.decode(data, "picture", mode), SIDE)


# A test set embedded, against the passes through the network that this takes.

ALONE = "six forward passes over tensors in memory"
AT_ONCE = 64


def heldout(device: str, photos: int = 64, backgrounds: int = 60, times: int = 1) -> Case:
    """Each photo is seen so many ``times``: a GPU is done with few before the processes that make their views have begun."""
    album = Album(photos, backgrounds, times)
    network, how = frozen_model("mobilenet_v2", device), How(device, batch_size=AT_ONCE)
    prepared = album.evaluation(network.input_size)
    stream = prepared.views(views(DRAWS))  # by one process, whatever ours does
    batches = []
    while some := [*itertools.islice(stream, AT_ONCE)]:
        x = normalise(network, np.stack(some), device)
        batches.append(x.contiguous(memory_format=torch.channels_last))

    @torch.inference_mode()
    def alone() -> np.ndarray:
        return torch.cat([network(batch) for batch in batches]).cpu().numpy()

    return Case(
        ours={OURS: lambda: _by_view(embed(network, prepared, views(DRAWS), how))},
        limits={ALONE: alone},
        figures=[
            Figure("by six forward passes", ratio(OURS, ALONE), at_most=1.2),
            Figure("largest difference of an embedding", difference(OURS, ALONE), at_most=1e-5),
            Figure("photos/s, six views each", rate(OURS, len(album.photos)), unit="/s"),
        ],
    )


def _by_view(embeddings: Embeddings) -> np.ndarray:
    """Photo by photo all its views: [N * views, D]."""
    return np.concatenate(np.stack([*embeddings.views.values()], axis=1))


PASSES = "passes alone"
# This one quilts a texture for each of its views.
QUILTED, CUE_CONFLICT = "cue_conflict", "views of cue_conflict alone"


def conditions(device: str, photos: int = 32, times: int = 1, draws: int = DRAWS, quilted: int = 16) -> Case:
    album = Album(photos, 20, times)
    network = frozen_model("mobilenet_v2", device)
    prepared = album.evaluation(network.input_size)
    names = [name for name in plugins.names("conditions") if name != QUILTED]
    of_studies = [name for name in names if "second_masks" not in of_evaluation.needs([name])]
    fast, slow = of_evaluation.views(of_studies, draws), of_evaluation.views([QUILTED], draws)
    pictures = np.stack([*prepared.views(fast)])  # by one process, whatever ours does
    of_slow = rate(CUE_CONFLICT, quilted * len(slow))
    return Case(
        ours={
            OURS: lambda: _by_view(embed(network, prepared, fast, How(device))),
            CUE_CONFLICT: lambda: [*prepared.views(slow, rows=range(quilted))],
        },
        limits={PASSES: lambda: embed_views(network, iter(pictures), How(device))},
        figures=[
            Figure("times as long as the passes alone", ratio(OURS, PASSES), at_most=1.1),
            Figure("greatest difference of an embedding's numbers", difference(OURS, PASSES), at_most=1e-6),
            Figure("views/s", rate(OURS, len(pictures)), unit="/s"),
            Figure("views/s of cue_conflict, without a network", of_slow, unit="/s"),
        ],
    )


# How decoded pictures are kept: raw pixels in a mapped file, small JPEGs, or not at all.

RAW, SMALL, DECODED = "raw pixels, mapped", "JPEG of 256 pixels, quality 95", "decoded and resized each time"
SOP_PHOTOS = 120_053


def kept_pictures(device: str, photos: int = 64) -> Case:
    album = Album(photos, 1)
    kept = album.pictures("photos")
    small = [encode(picture, format="JPEG", quality=95) for picture in kept]
    pairs = zip(map(_decode, small), kept, strict=True)
    away = float(np.mean([np.abs(np.subtract(a, b, dtype=int)).mean() for a, b in pairs]))

    def decode_all(encoded: Sequence[bytes]) -> None:
        for data in encoded:
            _decode(data)

    def read_all() -> None:
        # Every pixel is read once: a mapped file is not read before.
        for picture in kept:
            picture.sum(dtype=np.uint32)

    raw = [picture.tobytes() for picture in kept]
    figures = []
    for name, stored, levels in ((RAW, raw, 0.0), (SMALL, small, away), (DECODED, album.photos, 0.0)):
        disk = float(np.mean([*map(len, stored)])) * SOP_PHOTOS / 1e9
        figures += [
            Figure(f"photos/s, {name}", rate(name, photos), unit="/s"),
            Figure(f"disk for SOP's {SOP_PHOTOS:,} photos, {name}", disk, unit="GB"),
            Figure(f"grey levels away, {name}", levels),
        ]
    peers = {SMALL: lambda: decode_all(small), DECODED: lambda: decode_all(album.photos)}
    return Case(ours={RAW: read_all}, peers=peers, figures=figures)
