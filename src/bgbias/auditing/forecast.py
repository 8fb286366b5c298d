"""What an audit will take, before it starts: a few photos go all the way, the rest is multiplication."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bgbias.attribution.occlusion import CELLS
from bgbias.attribution.settings import Attribution
from bgbias.auditing import embedded, prepared
from bgbias.auditing.asked import Asked
from bgbias.compute.device import threads
from bgbias.evaluation.conditions import View
from bgbias.images.inpainting import without_object
from bgbias.models.adapters import Adapted
from bgbias.models.look import Look

TRIED = 8  # photos, after one batch to warm up
DECODED = 2  # times what is measured of a decoded photo, for decoding it
GRADIENT = 3  # passes that a pass with its gradient takes
MB = 1e6


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
    model: Adapted | None,
    look: Look,
    photos: Sequence[np.ndarray],
    to_mask: int,
    make_masks: Callable[[Sequence[np.ndarray]], list[Any]] | None,
    counts: Mapping[str, int],
    views: Sequence[View],
    asked: Asked,
) -> Forecast:
    """From ``photos`` (uint8 [H, W, 3], a few of them), tried by masker and model; ``counts``: photos, classes' largest size.

    ``to_mask``: photos whose masks are not kept yet. ``model`` None: embeddings come from elsewhere.
    """
    import psutil

    side, count = look.size, counts["photos"]
    per_mask = 0.0
    if make_masks is not None and to_mask:
        make_masks(photos[:2])
        per_mask = _timed(lambda: make_masks(photos)) / len(photos)

    def prepare() -> None:
        for photo in photos:
            height, width = photo.shape[:2]
            mask = np.zeros((height, width), np.uint8)
            mask[height // 4 : -(height // 4) or None, width // 4 : -(width // 4) or None] = 255
            without_object(look.resized(photo), look.resized(mask))

    seconds = {
        "masks": per_mask * to_mask,
        "photos": DECODED * _timed(prepare) / len(photos) / threads() * count,
    }
    dim = 0
    if model is not None:
        dim = model.dim
        shown = np.stack([np.asarray(look(photo)) for photo in photos])
        batch = np.resize(shown, (embedded.BATCH, side, side, 3))
        model.embed(batch)
        per_view = _timed(lambda: model.embed(batch)) / embedded.BATCH
        passes = GRADIENT * Attribution().samples if model.network else 1 + CELLS**2
        seconds |= {
            "embeddings": per_view * len(views) * count,
            "crossing": per_view * min(asked.objects, count) * asked.backgrounds,
            "attribution": per_view * min(asked.attribution, count) * passes,
        }
    disk = prepared.room(count, side) + embedded.room(count, len(views), dim)
    gallery = count * dim * 4
    neighbours = count * max(2 * counts["largest"], 8) * 16
    memory = psutil.Process().memory_info().rss + 4 * gallery + neighbours
    return Forecast(seconds, disk, memory)


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
