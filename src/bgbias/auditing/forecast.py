"""What an audit will take, before it starts: a few photos go all the way, the rest is multiplication."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bgbias.attribution.occlusion import CELLS
from bgbias.attribution.settings import Attribution
from bgbias.auditing import embedded, prepared
from bgbias.auditing.asked import Asked
from bgbias.compute.device import threads
from bgbias.evaluation.conditions import View
from bgbias.images import pixels
from bgbias.images.inpainting import without_object
from bgbias.models.adapters import Adapted

TRIED = 8  # photos, after one batch to warm up
DECODED = 2  # times what is measured of a decoded photo, for decoding it
GRADIENT = 3  # passes that a pass with its gradient takes
MB = 1e6
Work = Literal[
    "embed", "write", "read"
]  # views for the model, write them for another one, or read what that one made


@dataclass(frozen=True)
class Forecast:
    """Seconds by step, and bytes."""

    seconds: Mapping[str, float]
    disk: int
    memory: int

    def __str__(self) -> str:
        minutes = sum(self.seconds.values()) / 60
        steps = ", ".join(f"{name} {value / 60:.1f}" for name, value in self.seconds.items() if value >= 1)
        return (
            f"about {minutes:.1f} minutes ({steps or 'all in seconds'}), {self.disk / MB:,.0f} MB of disk while it runs,"
            f" {self.memory / MB:,.0f} MB of memory"
        )


def measure(
    model: Adapted,
    does: Work,
    photos: Sequence[np.ndarray],
    masking: float,
    counts: Mapping[str, int],
    views: Sequence[View],
    asked: Asked,
) -> Forecast:
    """From ``photos`` (uint8 [H, W, 3], a few of them), tried by the model; ``masking``: seconds for the masks that are missing;
    ``counts``: ``photos``, and ``largest``, the photos of the largest class.
    """
    import psutil

    look = model.look
    side, count = look.size, counts["photos"]

    def prepare() -> None:
        for photo in photos:
            height, width = photo.shape[:2]
            mask = np.zeros((height, width), np.uint8)
            mask[height // 4 : -(height // 4) or None, width // 4 : -(width // 4) or None] = 255
            without_object(look.resized(photo), look.resized(mask))

    seconds = {
        "masks": masking,
        "photos": DECODED * _timed(prepare) / len(photos) / threads() * count,
    }
    shown = np.stack([np.asarray(look(photo)) for photo in photos])
    disk, dim = prepared.room(count, side), 0
    if does == "write":
        written: list[bytes] = []
        per_view = _timed(lambda: written.extend(map(pixels.encode_png, shown))) / len(shown)
        # Most views show as much as the photo does; some are grey in part, and smaller.
        seconds["pictures"] = per_view * len(views) * count
        disk += sum(map(len, written)) // len(shown) * len(views) * count
    if does == "embed":
        dim = model.dim
        batch = np.resize(shown, (embedded.BATCH, side, side, 3))
        model.embed(batch)
        per_view = _timed(lambda: model.embed(batch)) / embedded.BATCH
        passes = GRADIENT * Attribution().samples if model.network else 1 + CELLS**2
        crossed, looked_at = min(asked.objects, count) * asked.backgrounds, min(asked.attribution, count)
        seconds |= {
            "embeddings": per_view * len(views) * count,
            "crossing": per_view * crossed,
            "attribution": per_view * looked_at * passes,
        }
        disk += embedded.room(count, len(views), dim) + crossed * dim * 4 + looked_at * side**2 * 8
    gallery = count * dim * 4
    neighbours = count * max(2 * counts["largest"], 8) * 16
    memory = psutil.Process().memory_info().rss + 4 * gallery + neighbours
    return Forecast(seconds, disk, memory)


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
