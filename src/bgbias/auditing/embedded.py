"""Embeddings of every view of every photo, in files that are mapped: chunk by chunk, so that a killed audit goes on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from bgbias.auditing.mapped import mapped, zeros
from bgbias.errors import UserError
from bgbias.evaluation.conditions import View
from bgbias.evaluation.photos import EvaluationPhotos, workers
from bgbias.models.adapters import Adapted

CHUNKS = "done.npy"
PER_CHUNK = 64  # photos: what a kill costs at most
BATCH = 64  # views that go through the model at once
NAMED = 8  # photos that an error names
UNIT = 1e-6  # vectors whose length differs from 1 by less stay as they are


class Views(Mapping[View, np.ndarray]):
    """Embeddings float32 [N, D] of unit length by view; each is read when it is asked for."""

    def __init__(self, folder: Path, asked: Sequence[View], photos: int, dim: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._asked, self._folder, self._shape = tuple(asked), folder, (photos, dim)
        self._done = mapped(folder / CHUNKS, np.uint8, (-(-photos // PER_CHUNK),))

    def __getitem__(self, view: View) -> np.ndarray:
        if view not in self._asked:
            raise KeyError(view)
        return mapped(self._folder / f"{view[0]}-{view[1]}.npy", np.float32, self._shape)

    def __iter__(self) -> Iterator[View]:
        return iter(self._asked)

    def __len__(self) -> int:
        return len(self._asked)

    @staticmethod
    def left(folder: Path, photos: int) -> int:
        """Of how many of the photos views are missing; makes no file."""
        chunks = zeros(folder / CHUNKS, -(-photos // PER_CHUNK))
        return sum(min(PER_CHUNK, photos - PER_CHUNK * chunk) for chunk in chunks)

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
        chunks = self.missing
        missing = list(itertools.chain.from_iterable(chunks))
        with closing(photos.views(self._asked, workers(model.device, len(missing)), missing)) as views:
            for rows in chunks:
                whose = (photos.table.ids[row] for row in rows for _ in self._asked)
                flat = vectors(model, itertools.islice(views, len(rows) * len(self._asked)), whose)
                of_views = flat.reshape(len(rows), len(self._asked), -1)
                for number, view in enumerate(self._asked):
                    arrays[view][rows.start : rows.stop] = of_views[:, number]
                self._done[rows.start // PER_CHUNK] = 1
                done(len(rows))


def vectors(model: Adapted, views: Iterator[np.ndarray], whose: Iterable[str] = ()) -> np.ndarray:
    """Embeddings float32 [N, D] of unit length, of N views uint8 [S, S, 3]; ``whose``: the photo of each, for errors. A vector of
    zeros is an error.
    """
    found, names = [], iter(whose)
    while some := list(itertools.islice(views, BATCH)):
        with shown(itertools.islice(names, len(some))):
            batch = model.embed(np.stack(some))
            lengths = np.linalg.norm(batch.astype(np.float64), axis=1, keepdims=True)
            if not lengths.all():
                raise UserError(
                    f"{model.name} gave a vector of zeros, which has no direction; check its weights."
                )
        apart = np.abs(lengths - 1) > UNIT
        found.append(np.where(apart, batch / lengths, batch).astype(np.float32))
    return np.concatenate(found)


@contextmanager
def shown(photos: Iterable[str]) -> Iterator[None]:
    """An error of a model names the photos that it was shown."""
    try:
        yield
    except UserError as error:
        names = list(dict.fromkeys(photos))
        if not names:
            raise
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        raise UserError(
            f"{error} It was shown views of {', '.join(names[:NAMED])}{more}. What is finished is kept: with the same --out it"
            " goes on from here."
        ) from error


def room(photos: int, views: int, dim: int) -> int:
    """Bytes on the disk."""
    return photos * views * dim * 4
