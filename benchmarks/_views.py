"""Photos on their way to a network: kept, cropped, on other backgrounds, in training and in the test, and embedded."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import Contender, Figure, Measured
from benchmarks._project import random_model
from bgbias import plugins

DRAWS = 5
OURS, PEER = "bgbias", "published path"


def _network(device: str) -> Any:
    from bgbias.models.inference import for_inference

    return for_inference(random_model("mobilenet_v2", device).eval())


# Training batches whose backgrounds are replaced, and test photos on other ones, against the published data path.

DECODING = "decoding the photos alone"
BATCH = 32


def batches_contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from benchmarks import _album
    from bgbias import seeds
    from bgbias.images import pixels
    from bgbias.models.backbones.bn_inception import FACTS

    made = _album.album(2 if tiny else 64, 2 if tiny else 60)
    published = _album.PublishedPhotos(made, FACTS.input_size, FACTS.preprocess)
    photos = _album.training(made, FACTS.input_size)
    rows = [n % len(made.photos) for n in range(2 if tiny else BATCH)]
    difference = _difference_of_batches(photos, published, rows)
    encoded = [(p.read_bytes(), p.name) for p in made.photos]

    def ours() -> float:
        crops, behind = seeds.generator("crop", "bench"), seeds.generator("background", "bench")
        _shown_batch(photos.batch(np.array(rows), crops, behind, _album.SCALE, _album.RATIO))
        return difference

    yield Contender(OURS, "ours", ours)
    yield Contender(PEER, "peer", lambda: published.training(rows))
    yield Contender(DECODING, "limit", lambda: [pixels.decode(*encoded[row]) for row in rows])


def judge_batches(measured: Measured) -> list[Figure]:
    rows = 2 if measured.tiny else BATCH
    return [
        measured.ratio("times as fast as the published path", PEER, OURS, at_least=6),
        Figure("mean difference of pixels, grey levels", [measured.results[OURS]], at_most=0.05),
        measured.ratio("by the time that decoding the photos alone takes", OURS, DECODING),
        measured.rate("images/s", OURS, rows),
    ]


def _shown_batch(batch: Any) -> Any:
    """What a network gets to see of a batch in training."""
    from bgbias.images.composite import blend_batch
    from bgbias.models.backbones.bn_inception import FACTS

    return FACTS.preprocess(blend_batch(batch.images, batch.masks, batch.backgrounds))


def _difference_of_batches(photos: Any, published: Any, rows: list[int]) -> float:
    """Of a batch from the published one with the same crops and backgrounds, in grey levels, which this network's numbers are."""
    import torch

    from benchmarks._album import mixed, part_of
    from bgbias.backgrounds.draws import Draw

    parts, behind, expected = [], [], []
    for place, row in enumerate(rows):
        index = place % len(published.files.backgrounds)
        background = published.files.backgrounds[index]
        part, other = part_of(published.files.photos[row]), part_of(background)
        photo, mask = published.cropped(row, part)
        expected.append(mixed(photo, mask, published.background(background, other)))
        parts.append(part.relative)
        behind.append(Draw(index, *other.relative))
    ours = _shown_batch(photos.crop(np.array(rows), parts, behind))
    return float((ours - torch.stack(expected)).abs().mean())


def evaluation_contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from benchmarks import _album
    from bgbias.models.backbones.bn_inception import FACTS

    made = _album.album(1 if tiny else 16, 2 if tiny else 60)
    photos = _album.evaluation(made, FACTS.input_size)
    published = _album.PublishedPhotos(made, FACTS.input_size, FACTS.preprocess)
    judged = _equal_bytes(photos, made), _difference_of_views(photos, published)

    def ours() -> tuple[int, float, float]:
        return len(_shown_views(list(photos.views(_album.views(DRAWS))))), *judged

    yield Contender(OURS, "ours", ours)
    yield Contender(PEER, "peer", lambda: published.evaluation(list(range(len(made.photos))), DRAWS))


def judge_evaluation(measured: Measured) -> list[Figure]:
    views, equal, difference = measured.results[OURS]
    return [
        measured.ratio("times as fast as the published path", PEER, OURS, at_least=10),
        Figure("share of bytes as when each view is made by itself, in whole numbers", [equal], at_least=1),
        Figure("mean difference of pixels from the published path, grey levels", [difference], at_most=0.3),
        measured.rate("photos/s, six views each", OURS, views // (1 + DRAWS)),
    ]


def _shown_views(views: list[np.ndarray]) -> Any:
    """What a network gets to see of views."""
    import torch

    from bgbias.models.backbones.bn_inception import FACTS

    return FACTS.preprocess(torch.from_numpy(np.stack(views)).permute(0, 3, 1, 2))


def _equal_bytes(photos: Any, made: Any) -> float:
    """The share of all views' bytes that are those of views made from the files one by one, by the definition."""
    from PIL import Image

    from benchmarks import _album
    from bgbias.backgrounds.draws import draw
    from bgbias.images import pixels
    from bgbias.models.backbones.bn_inception import FACTS

    def opened(path: Path, mode: str = "RGB") -> np.ndarray:
        return pixels.resize_short(pixels.decode(path.read_bytes(), path.name, mode), _album.SIDE)

    def by_definition() -> Iterator[np.ndarray]:
        size = FACTS.input_size
        originals = [Image.open(path) for path in made.backgrounds]
        for photo, shape, key in zip(made.photos, made.masks, photos.table.keys, strict=True):
            clean = pixels.centre_crop(opened(photo), size)
            mask = pixels.centre_crop(opened(shape, "L"), size)[..., None].astype(int)
            yield clean
            for repeat in range(DRAWS):
                d = draw(key[0], repeat, key[1], [(o.height, o.width) for o in originals])
                behind = pixels.crop(opened(made.backgrounds[d.index]), d.box, size, d.flip)
                yield np.rint((mask * clean + (255 - mask) * behind) / 255).astype(np.uint8)

    pairs = zip(photos.views(_album.views(DRAWS)), by_definition(), strict=True)
    return float(np.mean([view == expected for view, expected in pairs]))


def _difference_of_views(photos: Any, published: Any) -> float:
    """Of corrupted views from the published ones with the same backgrounds, in grey levels, which this network's numbers are."""
    import torch

    from benchmarks._album import mixed, part_of
    from bgbias.backgrounds.draws import Draw

    ours, expected = [], []
    for row in range(len(photos.table)):
        index = row % len(published.files.backgrounds)
        background = published.files.backgrounds[index]
        part = part_of(background)
        behind = photos.backgrounds.picture(Draw(index, *part.relative), photos.size)
        ours.append(photos.photo(row).foreground.before(behind))
        photo, mask = published.middle(row)
        expected.append(mixed(photo, mask, published.background(background, part)))
    return float((_shown_views(ours) - torch.stack(expected)).abs().mean())


# A test set embedded, against the passes through the network that this takes.

ALONE = "six forward passes over tensors in memory"
AT_ONCE = 64
# How many times each of 64 photos is seen: a GPU is done with all their views before the processes that make them have begun.
HELDOUT_TIMES = {"cpu": 1, "cuda": 40}


def heldout_contenders(device: str, tiny: bool) -> Iterator[Contender]:
    import torch

    from benchmarks import _album
    from bgbias.evaluation import embedding
    from bgbias.models.backbones.mobilenet_v2 import FACTS
    from bgbias.models.settings import How

    times = 1 if tiny else HELDOUT_TIMES[torch.device(device).type]
    made = _album.album(2 if tiny else 64, 2 if tiny else 60, times)
    photos = _album.evaluation(made, FACTS.input_size)
    network, how = _network(device), How(device, batch_size=AT_ONCE)
    stream = photos.views(_album.views(DRAWS))  # by one process, whatever ours does
    batches = []
    while some := list(itertools.islice(stream, AT_ONCE)):
        x = FACTS.preprocess(torch.from_numpy(np.stack(some)).to(device).permute(0, 3, 1, 2).float())
        batches.append(x.contiguous(memory_format=torch.channels_last))

    @torch.inference_mode()
    def alone() -> Any:
        return torch.cat([network(batch) for batch in batches]).cpu().numpy()

    yield Contender(ALONE, "limit", alone)
    yield Contender(OURS, "ours", lambda: embedding.embed(network, photos, _album.views(DRAWS), how))


def judge_heldout(measured: Measured) -> list[Figure]:
    ours, alone = measured.results[OURS], measured.results[ALONE]
    shaped = np.stack(list(ours.views.values()), axis=1).reshape(alone.shape)
    return [
        measured.ratio("by six forward passes", OURS, ALONE, at_most=1.2),
        Figure("largest difference of an embedding", [float(np.abs(shaped - alone).max())], at_most=1e-5),
        measured.rate("photos/s, six views each", OURS, len(ours.ids)),
    ]


PASSES = "passes alone"
# This one quilts a texture for each of its views.
QUILTED, CUE_CONFLICT = "cue_conflict", "views of cue_conflict alone"
# How many times each of 32 photos is seen: enough for several processes.
CONDITIONS_TIMES = {"cpu": 1, "cuda": 8}


def conditions_contenders(device: str, tiny: bool) -> Iterator[Contender]:
    import torch

    from benchmarks import _album
    from bgbias.evaluation import conditions, embedding
    from bgbias.models.inference import embed_views
    from bgbias.models.settings import How

    model = _network(device)
    times = 1 if tiny else CONDITIONS_TIMES[torch.device(device).type]
    photos = _album.evaluation(_album.album(8 if tiny else 32, 2 if tiny else 20, times), model.input_size)
    draws = 1 if tiny else DRAWS
    of_audits = {name for name in plugins.names("conditions") if "second_masks" in conditions.needs([name])}
    asked = conditions.views(sorted(set(plugins.names("conditions")) - {QUILTED} - of_audits), draws)
    views = np.stack(list(photos.views(asked)))  # by one process, whatever ours does
    yield Contender(OURS, "ours", lambda: (embedding.embed(model, photos, asked, How(device)), len(views)))
    yield Contender(PASSES, "limit", lambda: embed_views(model, itertools.chain(views), How(device)))
    quilted, some = conditions.views([QUILTED], draws), range(2 if tiny else 16)
    yield Contender(CUE_CONFLICT, "ours", lambda: len(list(photos.views(quilted, rows=some))))


def judge_conditions(measured: Measured) -> list[Figure]:
    ours, views = measured.results[OURS]
    by_view = np.stack(list(ours.views.values()), axis=1).reshape(views, -1)
    difference = float(np.abs(by_view - measured.results[PASSES]).max())
    quilted = measured.results[CUE_CONFLICT]
    return [
        measured.ratio("times as long as the passes alone", OURS, PASSES, at_most=1.1),
        Figure("greatest difference of an embedding's numbers", [difference], at_most=1e-6),
        measured.rate("views/s", OURS, views),
        measured.rate("views/s of cue_conflict, without a network", CUE_CONFLICT, quilted),
    ]


# How decoded pictures are kept: raw pixels in a mapped file, small JPEGs, or not at all.

RAW, SMALL, DECODED = "raw pixels, mapped", "JPEG of 256 pixels, quality 95", "decoded and resized each time"
SOP_PHOTOS = 120_053


def kept_contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from PIL import Image

    from benchmarks import _album
    from bgbias.images import pixels
    from bgbias.photos import picture_cache

    made = _album.album(2 if tiny else 64, 1)
    kept = picture_cache.pictures(made.folder / "photos.zip", _album.SIDE, made.folder)
    encoded = [(p.read_bytes(), p.name) for p in made.photos]
    small = []
    for picture in kept:
        buffer = io.BytesIO()
        Image.fromarray(picture).save(buffer, "JPEG", quality=95)
        small.append((buffer.getvalue(), "small"))
    shown = [pixels.decode(*one).astype(int) for one in small]
    apart = float(np.mean([np.abs(a - b).mean() for a, b in zip(shown, kept, strict=True)]))

    def raw() -> tuple[float, float]:
        # Every pixel is read once: a mapped file is not read before.
        for row in range(len(kept)):
            kept[row].sum(dtype=np.uint32)
        return float(np.mean([p.nbytes for p in kept])), 0.0

    def jpeg() -> tuple[float, float]:
        for one in small:
            pixels.decode(*one)
        return float(np.mean([len(data) for data, _ in small])), apart

    def decoded() -> tuple[float, float]:
        for one in encoded:
            pixels.resize_short(pixels.decode(*one), _album.SIDE)
        return float(np.mean([len(data) for data, _ in encoded])), 0.0

    yield Contender(RAW, "ours", raw)
    yield Contender(SMALL, "peer", jpeg)
    yield Contender(DECODED, "peer", decoded)


def judge_kept(measured: Measured) -> list[Figure]:
    figures = []
    for name in (RAW, SMALL, DECODED):
        size, apart = measured.results[name]
        figures += [
            measured.rate(f"photos/s, {name}", name, 2 if measured.tiny else 64),
            Figure(f"disk for SOP's {SOP_PHOTOS:,} photos, {name}", [size * SOP_PHOTOS / 1e9], unit="GB"),
            Figure(f"grey levels away, {name}", [apart]),
        ]
    return figures
