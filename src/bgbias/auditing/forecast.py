"""What is left of an audit, before it starts: a few photos go all the way, the rest is multiplication."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bgbias import progress
from bgbias.auditing import looks, prepared
from bgbias.auditing.question import Asked
from bgbias.compute.device import threads
from bgbias.images import pixels
from bgbias.images.inpainting import without_object
from bgbias.models.adapters import Adapted

TRIED = 8  # photos, after one batch to warm up
DECODED = 2  # times what is measured of a decoded photo, for decoding it
PATIENCE = 10.0  # seconds in which a thing is done again, and timed when it is warm
WARM = 2  # times at most
CONCLUDING = 50e6  # bytes of libraries and pictures for the last step, whatever the photos
PER_VALUE = 100  # bytes of tables, of every query in every view and setting
FLOAT = 4  # bytes
Work = Literal[
    "embed", "write", "read"
]  # views for the model, write them for another one, or read what that one made


@dataclass(frozen=True)
class Size:
    """Photos, those of the ``largest`` class, views of each, and backgrounds that objects are crossed with."""

    photos: int
    largest: int
    views: int
    backgrounds: int


@dataclass(frozen=True)
class Left:
    """What is not finished: ``masking``, seconds; of the others how many photos or, of ``crossing``, objects."""

    masking: float
    photos: int
    pictures: int
    embeddings: int
    crossing: int
    attribution: int


@dataclass(frozen=True)
class Forecast:
    """Seconds by step, and bytes: ``mapped`` of the peak ``memory`` are pages of files, which the system can take back."""

    seconds: Mapping[str, float]
    disk: int
    memory: int
    mapped: int

    def __str__(self) -> str:
        minutes, size = progress.minutes, progress.size
        steps = [f"{name} {minutes(value)}" for name, value in self.seconds.items() if value >= 1]
        of_steps = f" ({', '.join(steps)})" if steps else ""
        return (
            f"about {minutes(sum(self.seconds.values()))}{of_steps}, {size(self.disk)} of disk while it runs,"
            f" {size(self.memory)} of memory ({size(self.mapped)} of these may go if others need it)"
        )


def measure(
    model: Adapted, does: Work, photos: Sequence[np.ndarray], size: Size, left: Left, asked: Asked
) -> Forecast:
    """From a few ``photos`` (uint8 [H, W, 3]) tried by the model; memory is what this took and what grows with the photos."""
    import psutil

    look = model.look
    side, count = look.size, size.photos

    def prepare() -> None:
        for photo in photos:
            height, width = photo.shape[:2]
            mask = np.zeros((height, width), np.uint8)
            mask[height // 4 : -(height // 4) or None, width // 4 : -(width // 4) or None] = 255
            without_object(look.resized(photo), look.resized(mask))

    seconds = {
        "masks": left.masking,
        "photos": DECODED * _timed(prepare) / len(photos) / threads() * left.photos,
    }
    shown = np.stack([np.asarray(look(photo)) for photo in photos])
    mapped, written, dim = count * side**2 * prepared.PIXEL, 0, 0
    if does == "write":
        encoded: list[bytes] = []
        per_view = _timed(lambda: encoded.extend(map(pixels.encode_png, shown))) / len(shown)
        # Most views show as much as the photo does; some are grey in part, and smaller.
        seconds["pictures"] = per_view * size.views * left.pictures
        written = sum(map(len, encoded)) // len(shown) * size.views * count
    if does == "embed":
        dim = model.dim
        batch = np.resize(shown, (model.batch.size, side, side, 3))
        of_views = left.embeddings * size.views + left.crossing * size.backgrounds
        per_view = _settled(lambda: model.embed(batch)) / len(batch) if of_views else 0.0
        _, look_at = looks.looking(model)
        per_map = _settled(lambda: look_at(shown[0], ("forecast", ""))) if left.attribution else 0.0
        seconds |= {
            "embeddings": per_view * left.embeddings * size.views,
            "crossing": per_view * left.crossing * size.backgrounds,
            "attribution": per_map * left.attribution,
        }
        objects, maps = min(asked.objects, count), min(asked.attribution, count)
        mapped += (count * size.views + objects * size.backgrounds) * dim * FLOAT + maps * side**2 * 2 * FLOAT
    gallery = count * dim * FLOAT
    neighbours = count * max(2 * size.largest, 8) * 16
    tables = 2 * size.views * count * PER_VALUE
    held = psutil.Process().memory_info().rss + CONCLUDING + 4 * gallery + neighbours + tables
    return Forecast(seconds, mapped + written, int(held) + mapped, mapped)


def _settled(work: Callable[[], object]) -> float:
    """Seconds of a thing that may be many times slower the first time; of that alone where it takes long."""
    taken = [_timed(work)]
    while len(taken) <= WARM and sum(taken) < PATIENCE:
        taken.append(_timed(work))
    return float(np.mean(taken[1:] or taken))


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
