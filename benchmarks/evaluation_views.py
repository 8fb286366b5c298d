"""A test photo as it is and before five other backgrounds, without a model, against the published data path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import Contender, Figure, Measured

TITLE = "1 clean and 5 corrupted views of a photo, BN-Inception at 227, one thread, no model"
DEVICES = ("cpu",)
THREADS = 1
OURS, PEER = "bgbias", "published path"
DRAWS = 5


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from benchmarks import _album
    from benchmarks._published import PublishedPhotos
    from bgbias.models.backbones.bn_inception import FACTS

    made = _album.album(1 if tiny else 16, 2 if tiny else 60)
    photos = _album.evaluation(made, FACTS.input_size)
    published = PublishedPhotos(made, FACTS.input_size, FACTS.preprocess)
    judged = _equal_bytes(photos, made), _pixel_difference(photos, published)

    def ours() -> tuple[int, float, float]:
        return len(_shown(list(photos.views(_album.views(DRAWS))))), *judged

    yield Contender(OURS, "ours", ours)
    yield Contender(PEER, "peer", lambda: published.evaluation(list(range(len(made.photos))), DRAWS))


def judge(measured: Measured) -> list[Figure]:
    views, equal, difference = measured.results[OURS]
    return [
        measured.ratio("times as fast as the published path", PEER, OURS, at_least=10),
        Figure("share of bytes as when each view is made by itself, in whole numbers", [equal], at_least=1),
        Figure("mean difference of pixels from the published path, grey levels", [difference], at_most=0.3),
        measured.rate("photos/s, six views each", OURS, views // (1 + DRAWS), "/s"),
    ]


def _shown(views: list[np.ndarray]) -> Any:
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

    def opened(path: Any, mode: str = "RGB") -> np.ndarray:
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
    return float(np.mean([found == expected for found, expected in pairs]))


def _pixel_difference(photos: Any, published: Any) -> float:
    """Of corrupted views from the published ones with the same backgrounds, in grey levels, which this network's numbers are."""
    import torch

    from benchmarks._published import mixed, part_of
    from bgbias.backgrounds.draws import Draw

    found, expected = [], []
    for row in range(len(photos.table)):
        index = row % len(published.files.backgrounds)
        background = published.files.backgrounds[index]
        part = part_of(background)
        behind = photos.backgrounds.picture(Draw(index, *part.relative), photos.size)
        found.append(photos.photo(row).foreground.before(behind))
        photo, mask = published.middle(row)
        expected.append(mixed(photo, mask, published.background(background, part)))
    return float((_shown(found) - torch.stack(expected)).abs().mean())
