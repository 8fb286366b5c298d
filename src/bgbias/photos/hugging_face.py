"""Photos of Hugging Face's library ``datasets``: its objects, and folders that ``save_to_disk`` made."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from bgbias.errors import UserError

SAVED = ("dataset_dict.json", "dataset_info.json")  # one of them describes a folder of ``save_to_disk``


def is_saved(folder: Path) -> bool:
    """Whether ``save_to_disk`` made a folder."""
    return any((folder / name).is_file() for name in SAVED)


def load(folder: Path) -> Any:
    """The dataset, or the ``DatasetDict``, of a folder; it is mapped, and not read into memory."""
    try:
        from datasets import load_from_disk

        return load_from_disk(str(folder))
    except ModuleNotFoundError as error:
        raise UserError(
            f"{folder} is a dataset of Hugging Face, which needs: pip install 'bgbias[datasets]'"
        ) from error
    except (OSError, ValueError, KeyError) as error:
        raise UserError(
            f"{folder} cannot be read ({error}); save the dataset anew by save_to_disk."
        ) from error


def is_dataset(source: object) -> bool:
    """Whether an object is a ``Dataset``, or a ``DatasetDict`` of some."""
    one = next(iter(source.values()), None) if isinstance(source, Mapping) else source
    return hasattr(one, "features") and hasattr(one, "cast_column")


def read_frame(source: Any, origin: str = "the dataset") -> tuple[pd.DataFrame, str]:
    """A dataset's table, and its column of pictures: functions that give one, so that nothing is read before it is asked for.

    Of several splits ``test`` is taken, or the only one. Numbers of classes have their names.
    """
    if isinstance(source, Mapping):
        if "test" not in source and len(source) > 1:
            raise UserError(
                f"{origin} has the splits {', '.join(source)}, and none is called test; take one of them."
            )
        source = source["test"] if "test" in source else next(iter(source.values()))
    kinds = {name: type(feature).__name__ for name, feature in source.features.items()}
    image = next((name for name, kind in kinds.items() if kind == "Image"), None)
    if image is None:
        raise UserError(
            f"{origin} has no column of pictures (an Image feature); its columns are: {', '.join(kinds)}."
        )
    undecoded = source.cast_column(image, type(source.features[image])(decode=False))
    columns: dict[str, Any] = {n: list(source[n]) for n, k in kinds.items() if k in ("ClassLabel", "Value")}
    for name, values in columns.items():
        if names := getattr(source.features[name], "names", None):  # a negative number, and None, is no class
            columns[name] = [None if v is None or v < 0 else names[v] for v in values]
    columns[image] = [partial(_read_picture, undecoded, row, image) for row in range(len(source))]
    return pd.DataFrame(columns), image


def _read_picture(dataset: Any, row: int, column: str) -> bytes:
    cell = dataset[row][column]
    return cell["bytes"] or Path(cell["path"] or "").read_bytes()
