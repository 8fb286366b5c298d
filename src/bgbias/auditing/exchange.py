"""Pictures for a model that runs elsewhere, and embeddings that come back or are kept for later."""

import json
import shlex
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile

from bgbias.auditing import workdir
from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN, View
from bgbias.files.atomic import replacing, write_json
from bgbias.models.adapters import Adapted, Options
from bgbias.models.adapters._preparation import usual
from bgbias.models.look import Look

NAME = "a model that runs elsewhere"
MODEL = "model.json"  # beside saved embeddings


def make_stand_in(options: Options, clean: Path | None = None) -> Adapted:
    """A model of which only is known how it looks at photos: as stands beside the embeddings
    ``clean`` that ``write`` saved, else as ``options`` say, else 224 pixels out of 256.
    """
    preparation = usual(options, normalises_itself=True)
    name, look, guesses = NAME, preparation.look, preparation.guesses()
    saved = clean and clean.with_name(MODEL)
    if saved and saved.is_file():
        options.only(frozenset(), f"{saved}, which says how photos were looked at")
        described = json.loads(saved.read_text(encoding="utf-8"))
        name, look = described["name"], Look(**described["look"])
        guesses = tuple(described.get("guesses", ()))
    return Adapted(name, look, 1, (), lambda views: np.zeros((len(views), 1), np.float32), guesses=guesses)


def write(folder: Path, vectors: Mapping[View, np.ndarray], model: Adapted, digest: str) -> None:
    """Embeddings float32 [N, D] by view as ``clean.npy`` and ``views.npz``, which ``read`` reads, and
    the model's name, look and guesses. ``digest``: the question, which these embeddings may answer from now on.
    """
    others = {f"{name}-{draw}": array for (name, draw), array in vectors.items() if name != CLEAN}
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / "clean.npy") as temporary, temporary.open("wb") as file:
        np.save(file, vectors[CLEAN, 0])
    with replacing(folder / "views.npz") as temporary, temporary.open("wb") as file:
        np.savez(file, **others)  # type: ignore[arg-type]
    described = {"name": model.name, "look": asdict(model.look), "guesses": model.guesses}
    write_json(folder / MODEL, described)
    workdir.end_export(digest)


def next_step(photos: str, views: Sequence[View]) -> str:
    """What a person does with the pictures."""
    keys = ", ".join(f"{name}-{draw}" for name, draw in views if name != CLEAN)
    return (
        "a folder of pictures for each view, in the order of photos.csv. Embed each folder to an array [photos, numbers]; save"
        f" clean-0 as clean.npy and the others in views.npz under their folders' names ({keys}); then:"
        f" bgbias audit {shlex.quote(photos)} --embeddings clean.npy views.npz (and the options of this command)"
    )


def read(clean: Path, others: Path, views: Sequence[View], photos: int) -> dict[View, np.ndarray]:
    """Embeddings float32 [N, D] of unit length by view; what is missing, of another shape or no number is an error."""
    names = {view: f"{view[0]}-{view[1]}" for view in views}
    with _load(clean, np.ndarray, "numpy.save") as array:
        arrays = {f"{CLEAN}-0": array}
    with _load(others, NpzFile, "numpy.savez") as file:
        arrays = {name: file[name] for name in file.files if name in names.values()} | arrays
    if missing := [name for name in names.values() if name not in arrays]:
        there = ", ".join(sorted(file.files)) or "nothing"
        raise UserError(f"{others} lacks {', '.join(missing)}; it has {there}.")
    embeddings = {}
    clean_shape = arrays[f"{CLEAN}-0"].shape
    dim = clean_shape[1] if len(clean_shape) == 2 else "D"
    for view, name in names.items():
        array, what = arrays[name], f"The embeddings of {name} are"
        if array.dtype.kind not in "fiu":
            raise UserError(f"{what} no numbers but {array.dtype}; save them as float32.")
        if array.ndim != 2 or array.shape != (photos, dim):
            raise UserError(
                f"{what} {list(array.shape)}, where [{photos}, {dim}] is expected: a row for each line of photos.csv."
            )
        lengths = np.linalg.norm(array.astype(np.float64), axis=1, keepdims=True)
        wrong = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
        if len(wrong):
            raise UserError(
                f"{what} zero or not finite in row {wrong[0]} of photos.csv, which has no direction ({len(wrong)} such rows)."
            )
        embeddings[view] = (array / lengths).astype(np.float32)
    return embeddings


@contextmanager
def _load(path: Path, kind: type, by: str) -> Iterator[Any]:
    """What a file of numpy's holds; one that cannot be read, or holds another kind of thing, is an error that names it."""
    try:
        content = np.load(path, allow_pickle=False)
        if not isinstance(content, kind):
            raise ValueError(f"it holds {'one array' if kind is NpzFile else 'several arrays'}")
        yield content
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path} cannot be read as embeddings ({error}); save them by {by}. --embeddings takes clean.npy, then views.npz."
        ) from error
