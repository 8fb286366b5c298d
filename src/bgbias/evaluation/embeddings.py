"""A model's embeddings of a test split, and the file that keeps them: all that retrieval needs of a model."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bgbias.errors import UserError
from bgbias.files.atomic import replacing


@dataclass(frozen=True)
class Embeddings:
    """A split's photos, clean and before every draw of backgrounds.

    ids [N]; labels int64 [N]; usable bool [N]: the photo's mask is trusted, so its background was replaced in every draw;
    clean float32 [N, D] and corrupted float32 [draws, N, D], all of unit length.
    """

    ids: list[str]
    labels: np.ndarray
    usable: np.ndarray
    clean: np.ndarray
    corrupted: np.ndarray

    def write(self, path: Path) -> None:
        """As npz, atomically."""
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(
                file,
                ids=np.array(self.ids),
                labels=self.labels,
                usable=self.usable,
                clean=self.clean,
                corrupted=self.corrupted,
            )


def read(path: Path) -> Embeddings:
    """The embeddings that ``Embeddings.write`` wrote; a missing or damaged file is an error that names it."""
    if not path.exists():
        raise UserError(f"{path} is missing; `snakemake --cores all` makes it.")
    try:
        with np.load(path, allow_pickle=False) as file:
            return Embeddings(
                file["ids"].tolist(), file["labels"], file["usable"], file["clean"], file["corrupted"]
            )
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path} is damaged ({error}); delete it and run `snakemake --cores all` again."
        ) from error


def side_by_side(parts: Sequence[Embeddings]) -> Embeddings:
    """Several models' embeddings of the same photos as one model's: each at unit length, one behind the other, at unit length
    again (METHODS section 5; the released code of DCML normalises at the end alone). Other photos are an error.
    """
    first = parts[0]
    for part in parts[1:]:
        if part.ids != first.ids or not np.array_equal(part.usable, first.usable):
            raise UserError("These models embedded different photos; run `snakemake --cores all` again.")
    clean = _joined([part.clean for part in parts])
    corrupted = _joined([part.corrupted for part in parts])
    return Embeddings(first.ids, first.labels, first.usable, clean, corrupted)


def _joined(vectors: Sequence[np.ndarray]) -> np.ndarray:
    return _at_unit_length(np.concatenate([_at_unit_length(v) for v in vectors], axis=-1))


def _at_unit_length(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
