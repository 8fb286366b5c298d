"""Photos of the library ``datasets`` of Hugging Face: its objects, and folders that ``save_to_disk`` made.

A folder is a table of Arrow with a description beside it; it is read without the library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from bgbias.errors import UserError

DESCRIPTION, STATE, SPLITS = "dataset_info.json", "state.json", "dataset_dict.json"


def is_saved(place: Path) -> bool:
    """Whether ``save_to_disk`` made a folder."""
    return (place / SPLITS).is_file() or ((place / STATE).is_file() and (place / DESCRIPTION).is_file())


def is_dataset(source: object) -> bool:
    """Whether an object is a ``Dataset``, or a ``DatasetDict`` of some."""
    one = next(iter(source.values()), None) if isinstance(source, Mapping) else source
    return hasattr(one, "features") and hasattr(one, "cast_column")


def frame_of(source: Any) -> tuple[pd.DataFrame, str]:
    """A dataset's table, and its column of pictures; these are functions that give one, so that nothing is read yet.

    Of several splits ``test`` is taken, or the only one.
    """
    if isinstance(source, Mapping):
        source = source[_split(source, "the dataset")]
    kinds = {name: type(feature).__name__ for name, feature in source.features.items()}
    image = _image_column(kinds, "the dataset")
    undecoded = source.cast_column(image, type(source.features[image])(decode=False))
    columns: dict[str, Any] = {
        name: _named(source[name], getattr(source.features[name], "names", None))
        for name, kind in kinds.items()
        if kind in ("ClassLabel", "Value")
    }
    columns[image] = [partial(_picture, undecoded, row, image) for row in range(len(source))]
    return pd.DataFrame(columns), image


def read_saved(place: Path) -> tuple[pd.DataFrame, str]:
    """The same of a folder; what it lacks is an error."""
    import pyarrow as pa

    if (place / SPLITS).is_file():
        place /= _split(_json(place / SPLITS)["splits"], str(place))
    features = _json(place / DESCRIPTION).get("features") or {}
    kinds = {
        name: str(feature.get("_type")) for name, feature in features.items() if isinstance(feature, dict)
    }
    image = _image_column(kinds, str(place))
    try:
        files = [place / str(file["filename"]) for file in _json(place / STATE)["_data_files"]]
        # Mapped, so that only what is asked for is read.
        parts = [pa.ipc.open_stream(pa.memory_map(str(file))).read_all() for file in files]
    except (OSError, KeyError, pa.ArrowInvalid) as error:
        raise UserError(
            f"{place} cannot be read ({error}); save the dataset anew by save_to_disk."
        ) from error
    table = pa.concat_tables(parts)
    columns: dict[str, Any] = {
        name: _named(table.column(name).to_pylist(), features[name].get("names"))
        for name, kind in kinds.items()
        if kind in ("ClassLabel", "Value")
    }
    pictures = table.column(image)
    columns[image] = [partial(_cell, pictures, row) for row in range(len(pictures))]
    return pd.DataFrame(columns), image


def _picture(dataset: Any, row: int, column: str) -> Any:
    return _bytes(dataset[row][column])


def _cell(column: Any, row: int) -> Any:
    return _bytes(column[row].as_py())


def _bytes(cell: Mapping[str, Any]) -> bytes:
    """The picture of a cell ``{bytes, path}``; that of its file where it has no bytes."""
    return cell["bytes"] or Path(cell["path"] or "").read_bytes()


def _named(values: Iterable[Any], names: list[str] | None) -> list[Any]:
    """Numbers of classes by their names; there is none for a negative one, as the library has it."""
    if not names:
        return list(values)
    return [None if value is None or value < 0 else names[value] for value in values]


def _image_column(kinds: Mapping[str, str], place: str) -> str:
    images = [name for name, kind in kinds.items() if kind == "Image"]
    if not images:
        raise UserError(
            f"{place} has no column of pictures (an Image feature); its columns are: {', '.join(kinds)}."
        )
    return images[0]


def _split(splits: Iterable[str], place: str) -> str:
    names = list(splits)
    if "test" not in names and len(names) != 1:
        raise UserError(
            f"{place} has the splits {', '.join(names)}, and none is called test; name one of them."
        )
    return "test" if "test" in names else names[0]


def _json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{path} cannot be read ({error}); save the dataset anew by save_to_disk.") from error
