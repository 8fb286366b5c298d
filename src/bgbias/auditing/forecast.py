"""What is left of an audit, before it starts: a few photos go all the way, the rest is multiplication."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from timeit import timeit
from typing import Literal

import numpy as np

from bgbias import progress
from bgbias.auditing import prepared_photos
from bgbias.auditing.config import Question
from bgbias.compute.device import threads
from bgbias.images import pixels
from bgbias.images.inpainting import remove_object
from bgbias.models.adapters import Adapted

TRIED = 8  # photos, after one batch to warm up
DECODED = 2  # times what is measured of a decoded photo, for decoding it
PATIENCE = 10.0  # seconds in which a thing is done again, and timed when it is warm
WARM = 2  # times at most
CONCLUDING = 50e6  # bytes of libraries and pictures for the last step, whatever the photos
PER_VALUE = 100  # bytes of tables, of every query in every view and setting
FLOAT = 4  # bytes
# Embed views, write them for another model, or read what that one made of them.
Work = Literal["embed", "write", "read"]


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
    question: Question,
    model: Adapted,
    task: Work,
    photos: Sequence[np.ndarray],
    todo: Mapping[str, int],
    seconds_a_mask: float = 0.0,
) -> Forecast:
    """From a few ``photos`` (uint8 [H, W, 3]); ``todo``: how many photos each step lacks, the crossing
    how many objects. Memory is what this took and what grows with the photos.
    """
    import psutil

    from bgbias.attribution.any_model import choose_maps

    look, config, table = model.look, question.asked, question.collection.table
    side, count, views = look.size, len(table), len(question.views)
    backgrounds = min(config.backgrounds, len(question.backgrounds.photos))

    def prepare() -> None:
        for photo in photos:
            height, width = photo.shape[:2]
            mask = np.zeros((height, width), np.uint8)
            mask[height // 4 : -(height // 4) or None, width // 4 : -(width // 4) or None] = 255
            remove_object(look.resized(photo), look.resized(mask))

    each = {"masks": seconds_a_mask, "photos": DECODED * timeit(prepare, number=1) / len(photos) / threads()}
    inputs = np.stack([np.asarray(look(photo)) for photo in photos])
    mapped, written, dim = count * side**2 * (prepared_photos.PIXEL + bool(question.second)), 0, 0
    if task == "write":
        encoded: list[bytes] = []
        # Most views show as much as the photo does; some are grey in part, and smaller.
        each["pictures"] = (
            views * timeit(lambda: encoded.extend(map(pixels.encode_png, inputs)), number=1) / len(inputs)
        )
        written = sum(map(len, encoded)) // len(inputs) * views * count
    if task == "embed":
        dim = model.dim
        batch = np.resize(inputs, (model.batch.size, side, side, 3))
        embeds = todo["embeddings"] or todo["crossing"]
        per_view = _time_warm(lambda: model.embed(batch)) / len(batch) if embeds else 0.0
        _, make_maps = choose_maps(model)
        per_map = _time_warm(lambda: make_maps(inputs[0], ("forecast", ""))) if todo["attribution"] else 0.0
        each |= {"embeddings": per_view * views, "crossing": per_view * backgrounds, "attribution": per_map}
        objects, maps = min(config.objects, count), min(config.attribution, count)
        mapped += (count * views + objects * backgrounds) * dim * FLOAT + maps * side**2 * 2 * FLOAT
    largest = int(table.frame["label"].value_counts().max())
    neighbours = count * max(2 * largest, 8) * 16
    tables = 2 * views * count * PER_VALUE
    memory = psutil.Process().memory_info().rss + CONCLUDING + 4 * count * dim * FLOAT + neighbours + tables
    seconds = {step: per_thing * todo[step] for step, per_thing in each.items()}
    return Forecast(seconds, mapped + written, int(memory) + mapped, mapped)


def _time_warm(work: Callable[[], object]) -> float:
    """Seconds of a thing that may be many times slower the first time; of that alone where it takes long."""
    seconds = [timeit(work, number=1)]
    while len(seconds) <= WARM and sum(seconds) < PATIENCE:
        seconds.append(timeit(work, number=1))
    return float(np.mean(seconds[1:] or seconds))
