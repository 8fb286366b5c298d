"""Every kind of source of photos, told apart by what is there: the one way in, for audits and for the doctor."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from bgbias.errors import UserError
from bgbias.files.archives import Lookup, is_archive
from bgbias.files.pictures import hidden
from bgbias.photos import coco, folders, hugging_face, tables
from bgbias.photos.listing import TABLES, Listing, around, title
from bgbias.photos.tables import BY_NAME, NamedColumns

Source = str | Path | pd.DataFrame | Sequence[str | Path | bytes | np.ndarray | Image.Image]
"""A folder, archive or table, the name of a dataset of params.yaml, a DataFrame, or a list of paths or pictures."""

OWN_TABLES = ("photos.csv", "photos.parquet")  # what a table among its photos is called
COCO = ".json"


def in_memory(source: Any, name: str | None = None, named: NamedColumns = BY_NAME) -> Listing:
    """The photos of a DataFrame, a ``datasets.Dataset``, or a list of paths or pictures."""
    if isinstance(source, pd.DataFrame):
        return tables.in_frame(source, name or "photos", named=named)
    if hugging_face.is_dataset(source):
        return _of_dataset(source, name or "photos", "the dataset", named)
    # Cell by cell: pandas would take a list of pictures for a picture with one more axis.
    column = pd.Series(list(source), dtype=object)
    return tables.in_frame(pd.DataFrame({"path": column}), name or "photos", place="the list")


def is_folder(place: Path) -> bool:
    """Whether a place is a folder of photos, or an archive of one."""
    return is_archive(place) or (place.is_dir() and not hugging_face.is_saved(place))


def at(
    place: Path, name: str | None = None, class_level: int | None = None, named: NamedColumns = BY_NAME
) -> Listing:
    """The photos of a folder, archive, table, COCO file, or folder of ``save_to_disk``; another place is an error.

    In a folder or archive a table of a name of ``OWN_TABLES`` says what photos are, or else what
    ``by_labels`` finds, unless a ``class_level`` does.
    """
    if is_folder(place):
        files = Lookup(place, lambda name: True)
        own_tables = [n for n in _outermost(files) if PurePosixPath(n).name in OWN_TABLES]
        level = int(named.place) if named.place.isdecimal() else None
        if level is not None and (level < 1 or level == class_level):
            raise UserError(
                f"--place is {level}: it is the number of a folder of the path, 1 for the outermost, and another one than that of"
                " the class."
            )
        if own_tables and level is not None and class_level is None:
            raise UserError(
                f"--place is {level}, and {place} has a table, {own_tables[0]}: name its column by --place; or name the"
                " folder of the class, too, by --class-level: then the table is left aside."
            )
        is_by_folders = class_level is not None or level is not None
        if own_tables and not is_by_folders:
            return tables.in_member(files, own_tables[0], name, named)
        if named.place and level is None:
            raise UserError(
                f"--place is '{named.place}', and {place} has no table with columns: name the folder of a path that says where"
                " a photo was taken by its number, 1 for the outermost."
            )
        listing = None if is_by_folders else by_labels(files, name or title(place))
        return listing or folders.in_folder(files, name, class_level, level)
    if place.is_dir():
        return _of_dataset(hugging_face.load(place), name or title(place), str(place), named)
    if place.suffix.lower() in TABLES:
        return tables.in_file(place, name, named)
    if place.suffix.lower() == COCO:
        if named.place:
            raise UserError("--place names a column or a folder, and a COCO file has neither: leave it out.")
        return coco.in_coco(Lookup(place.parent, lambda name: True), place.name, name)
    raise UserError(
        f"{place} is neither a folder, a zip or tar, nor a table ({', '.join(TABLES)}), nor a COCO file (.json); name the"
        " folder that holds the photos."
    )


def by_labels(files: Lookup, name: str) -> Listing | None:
    """The photos of a folder or archive with their labels among them: in the only COCO file beside all photos, or in a file
    beside each photo. None where there are no such.
    """
    described = [n for n in _outermost(files) if PurePosixPath(n).suffix.lower() == COCO]
    if len(described) == 1:
        data = files.read(described[0])
        if all(f'"{part}"'.encode() in data for part in coco.PARTS):
            return coco.in_coco(files, described[0], name)
    return folders.with_labels(files, name)


def _of_dataset(dataset: Any, name: str, place: str, named: NamedColumns) -> Listing:
    frame, image = hugging_face.frame_of(dataset, place)
    named = replace(named, image=named.image or image)
    return tables.in_frame(frame, name, place=place, named=named)


def _outermost(files: Lookup) -> list[str]:
    """Files that lie in no folder but those around all files."""
    names = [name for name in files.names if not hidden(name)]
    depth = around(names) if names else 0
    return [name for name in names if len(PurePosixPath(name).parent.parts) == depth]
