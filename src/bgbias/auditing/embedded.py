"""Embeddings of every view of every photo, in files that are mapped: chunk by chunk, so that a killed audit goes on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from bgbias.auditing.mapped import mapped
from bgbias.errors import UserError
from bgbias.evaluation.conditions import View
from bgbias.evaluation.photos import EvaluationPhotos, workers
from bgbias.models.adapters import Adapted

PER_CHUNK = 64  # photos: what a kill costs at most
BATCH = 64  # views that go through the model at once
UNIT = 1e-6  # vectors whose length differs from 1 by less stay as they are


class Views(Mapping[View, np.ndarray]):
    """Embeddings float32 [N, D] of unit length by view; each is read when it is asked for."""

    def __init__(self, folder: Path, asked: Sequence[View], photos: int, dim: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._asked, self._folder, self._shape = tuple(asked), folder, (photos, dim)
        self._done = mapped(folder / "done.npy", np.uint8, (-(-photos // PER_CHUNK),))

    def __getitem__(self, view: View) -> np.ndarray:
        if view not in self._asked:
            raise KeyError(view)
        return mapped(self._folder / f"{view[0]}-{view[1]}.npy", np.float32, self._shape)

    def __iter__(self) -> Iterator[View]:
        return iter(self._asked)

    def __len__(self) -> int:
        return len(self._asked)

    @property
    def missing(self) -> list[range]:
        """Rows that are to be embedded, chunk by chunk."""
        count = self._shape[0]
        return [
            range(start, min(start + PER_CHUNK, count))
            for chunk, start in enumerate(range(0, count, PER_CHUNK))
            if not self._done[chunk]
        ]

    def embed(self, model: Adapted, photos: EvaluationPhotos, done: Callable[[int], None]) -> None:
        """Embed what is missing; ``done`` is told how many more photos are there."""
        arrays = {view: self[view] for view in self._asked}
        for rows in self.missing:
            flat = vectors(model, photos.views(self._asked, workers(model.device), rows))
            of_views = flat.reshape(len(rows), len(self._asked), -1)
            for number, view in enumerate(self._asked):
                arrays[view][rows.start : rows.stop] = of_views[:, number]
            self._done[rows.start // PER_CHUNK] = 1
            done(len(rows))


def vectors(model: Adapted, views: Iterator[np.ndarray]) -> np.ndarray:
    """Embeddings float32 [N, D] of unit length, of N views uint8 [S, S, 3]; a vector of zeros is an error."""
    found = []
    while some := list(itertools.islice(views, BATCH)):
        batch = model.embed(np.stack(some))
        lengths = np.linalg.norm(batch.astype(np.float64), axis=1, keepdims=True)
        if not lengths.all():
            raise UserError(
                f"{model.name} gave a vector of zeros, which has no direction; check its weights."
            )
        apart = np.abs(lengths - 1) > UNIT
        found.append(np.where(apart, batch / lengths, batch).astype(np.float32))
    return np.concatenate(found)


def room(photos: int, views: int, dim: int) -> int:
    """Bytes on the disk."""
    return photos * views * dim * 4
