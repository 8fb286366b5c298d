"""A model's embeddings of a test split, and the file that keeps them: all that retrieval needs of a model."""

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bgbias.errors import UserError
from bgbias.evaluation.conditions import RANDOM_BACKGROUND, View
from bgbias.files.atomic import replacing
from bgbias.photos.places import Places
from bgbias.photos.query_gallery import QueryGallerySplit

# In the file this condition has the paper's name, so that files of every version are read, and equal, byte for byte.
IN_FILE = {RANDOM_BACKGROUND: "corrupted"}
DONORS = "donors of "
OF_GIVEN = "given "
OF_PLACES = "places "
ORIGINALS = "originals"
IN_MEMORY = {name: condition for condition, name in IN_FILE.items()}


@dataclass(frozen=True)
class Embeddings:
    """A split's photos, each in several views.

    ids [N]; labels int64 [N]; usable bool [N]: every view is what its condition says, for the photo's mask is trusted or none is
    needed; views: by condition and draw float32 [N, D], of unit length; donors: of views with other photos' backgrounds the
    rows of these, int64 [N]; given: who is asked among whom, where the dataset says so; originals: the row of the first photo
    with the same pixels, int64 [N], where there are copies; places: where photos were taken, if a class was seen in two places.
    """

    ids: list[str]
    labels: np.ndarray
    usable: np.ndarray
    views: Mapping[View, np.ndarray]
    donors: Mapping[View, np.ndarray] = field(default_factory=dict)
    given: QueryGallerySplit | None = None
    originals: np.ndarray | None = None
    places: Places | None = None

    @property
    def first_copies(self) -> np.ndarray:
        """``originals``; each photo's own row where there are no copies."""
        return np.arange(len(self.ids)) if self.originals is None else self.originals

    @property
    def is_query(self) -> np.ndarray:
        """Which photos are queries, bool [N]: usable ones, of those that the dataset asks."""
        return self.usable if self.given is None else self.usable & self.given.query

    def write(self, path: Path) -> None:
        """As npz, atomically: one array a condition, [N, D], or [draws, N, D] of one with several draws."""
        arrays = {"ids": np.array(self.ids), "labels": self.labels, "usable": self.usable}
        for condition in dict.fromkeys(name for name, _ in self.views):
            draws = [vectors for (name, _), vectors in self.views.items() if name == condition]
            arrays[IN_FILE.get(condition, condition)] = np.stack(draws) if len(draws) > 1 else draws[0]
        for condition in dict.fromkeys(name for name, _ in self.donors):
            arrays[DONORS + condition] = np.stack(
                [d for (name, _), d in self.donors.items() if name == condition]
            )
        if self.given is not None:
            arrays |= {OF_GIVEN + name: array for name, array in vars(self.given).items()}
        if self.places is not None:
            arrays |= {OF_PLACES + name: array for name, array in vars(self.places).items()}
        if self.originals is not None and (self.originals != np.arange(len(self.ids))).any():
            arrays[ORIGINALS] = self.originals
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # the stubs see an option


def read(path: Path) -> Embeddings:
    """The embeddings that ``Embeddings.write`` wrote; a missing or damaged file is an error that names it."""
    if not path.exists():
        raise UserError(f"{path} is missing; `snakemake --cores all` makes it.")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        ids, labels, usable = (arrays.pop(name) for name in ("ids", "labels", "usable"))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path} is damaged ({error}); delete it and run `snakemake --cores all` again."
        ) from error
    originals = arrays.pop(ORIGINALS, None)
    of_split, of_places, of_donors = (
        {name.removeprefix(part): arrays.pop(name) for name in list(arrays) if name.startswith(part)}
        for part in (OF_GIVEN, OF_PLACES, DONORS)
    )
    donors = {(name, draw): rows for name, array in of_donors.items() for draw, rows in enumerate(array)}
    views = {
        (IN_MEMORY.get(name, name), draw): vectors
        for name, array in arrays.items()
        for draw, vectors in enumerate(array.reshape(-1, *array.shape[-2:]))
    }
    split = QueryGallerySplit(**of_split) if of_split else None
    places = Places(**of_places) if of_places else None
    return Embeddings(ids.tolist(), labels, usable, views, donors, split, originals, places)


def side_by_side(parts: Sequence[Embeddings]) -> Embeddings:
    """Several models' embeddings of the same photos as one model's: each at unit length, one behind the other, at unit length
    again (docs/methods.md, section 5; the released code of DCML normalises at the end alone). Other photos or views are an error.
    """
    first = parts[0]
    for part in parts[1:]:
        alike = part.ids == first.ids and np.array_equal(part.usable, first.usable)
        if not alike or part.views.keys() != first.views.keys():
            raise UserError("These models embedded different photos; run `snakemake --cores all` again.")
    joined = {}
    for view in first.views:
        each = [normalise(part.views[view]) for part in parts]
        joined[view] = normalise(np.concatenate(each, axis=-1))
    return replace(first, views=joined)


def normalise(vectors: np.ndarray) -> np.ndarray:
    """Vectors [..., d] at unit length."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
