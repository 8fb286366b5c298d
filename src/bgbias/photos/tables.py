"""Photos that a table names: a CSV or Parquet file, a pandas DataFrame, or a mere list."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, ImageOps

from bgbias.errors import UserError
from bgbias.files.pictures import compose, is_photo, locator
from bgbias.files.tables import read_text
from bgbias.images import pixels
from bgbias.images.drawn_masks import white
from bgbias.photos.folders import is_readable, why_left
from bgbias.photos.listing import Listing, SourcePhoto, title

# What a column may be called, the first of them first, in capitals or small letters; other columns say nothing here.
COLUMNS = {
    "photo": ("path", "image", "file", "filename", "file_name", "filepath", "image_path", "photo"),
    "class": ("class", "label", "class_name", "category"),
    "key": ("key",),
    "mask": ("mask",),
    "split": ("split",),
    "group": ("group",),
}
SHOWN = 3
OF_GROUP = "of each class one photo of a group is taken; leave out the column 'group' to take all"
GONE = "no file is there: correct its path in the table, or put it there"
Row = dict[str, Any]  # a cell by what its column means, and the row's number


class PathsFrom:
    """Where the relative paths of a table start."""

    def __init__(self, place: Path) -> None:
        self.place, self._locate = place.resolve(), locator()

    def find(self, path: str) -> tuple[str, Callable[[], bytes] | None]:
        """A file's id, its path as seen from here where it lies below, and what reads it; None where no file is there."""
        file = self._locate(self.place / path)
        seen = file.relative_to(self.place) if file.is_relative_to(self.place) else file
        return compose(str(seen)), file.read_bytes if file.is_file() else None


def in_file(place: Path, name: str | None) -> Listing:
    """The photos that a CSV or Parquet file names; relative paths start at its folder."""
    frame, first = read_text(place, str(place))
    return in_frame(frame, name or title(place), PathsFrom(place.resolve().parent), str(place), first)


def in_frame(
    frame: pd.DataFrame,
    name: str = "photos",
    files: PathsFrom | None = None,
    place: str = "the table",
    first: int = 0,
) -> Listing:
    """The photos of a table with a column of paths, or of pictures themselves: encoded ones, those of Pillow, or uint8 arrays
    [H, W, 3] or [H, W]; and, where it has them, columns of classes, keys, masks, splits and groups (``COLUMNS``).

    Paths are looked up in ``files`` (from the current folder, if None). A photo's id is its path; that of a picture in memory is
    its key, or the number of its row (from ``first``). Only rows of the split ``test`` are taken where others are there too, and
    of a class's photos of one group the first by name. Rows without a class are left out. A table without photos' paths, keys
    that stand twice, and files of which none is there are errors.
    """
    files = files or PathsFrom(Path.cwd())
    rows = _rows(frame, place, first)
    tested = [row for row in rows if row.get("split") == "test"] or rows
    untested = [row for row in rows if len(tested) < len(rows) and row["split"] != "test"]
    _check_keys(tested, place)
    is_classed = "class" in rows[0]
    left_out: dict[str, str] = {}
    photos: dict[str, SourcePhoto] = {}
    group_of: dict[str, tuple[str, str]] = {}
    for row in tested:
        photo, why = _photo(row, files)
        if not why and is_classed and not photo.class_name:
            why = "no class in its row: fill it in"
        image_id = photo.image_id
        if not why and image_id in photos:
            image_id, why = f"{image_id} (row {row['number']})", "its photo is listed before: remove the row"
        if why:
            left_out[image_id] = why
            continue
        photos[image_id] = photo
        if group := _text(row.get("group")):
            group_of[image_id] = photo.class_name, group
    if not photos:
        raise UserError(_nothing(place, files, left_out))
    groups = pd.Series(dict(sorted(group_of.items())), dtype=object)
    again = set(groups.index[groups.duplicated()])
    left_out |= dict.fromkeys(again, OF_GROUP)
    independent = [photo for image_id, photo in photos.items() if image_id not in again]
    why = "" if is_classed else "nobody says which photo is of which class"
    listing = Listing.of(name, independent, why)
    remarks = [f"{why}: {OF_GROUP}" if again else why for why in listing.remarks]
    if untested:
        remarks.insert(0, f"{len(untested)} rows whose split is not 'test' are not looked at")
    others = (*left_out, *(_photo(row, files)[0].image_id for row in untested))
    return replace(listing, left_out=left_out, others=others, remarks=tuple(remarks))


def _rows(frame: pd.DataFrame, place: str, first: int) -> list[Row]:
    """The cells of columns that mean something, by what they mean."""
    if frame.empty:
        raise UserError(
            f"{place} has no rows; it needs a row for each photo, with the columns 'path' and 'class'."
        )
    written = [str(column).strip() for column in frame.columns]
    small = [column.lower() for column in written]
    columns = {
        meaning: frame.iloc[:, small.index(name)].tolist()
        for meaning, names in COLUMNS.items()
        if (name := next((n for n in names if n in small), ""))
    }
    if "photo" in columns:
        return [
            dict(zip(columns, cells, strict=True)) | {"number": number}
            for number, cells in enumerate(zip(*columns.values(), strict=True), first)
        ]
    near = [
        (w, n[0])
        for w, s in zip(written, small, strict=True)
        if (n := difflib.get_close_matches(s, COLUMNS["photo"], 1))
    ]
    hint = f" Is '{near[0][0]}' meant? Call it '{near[0][1]}'." if near else ""
    if len(written) == 1 and set(";\t") & set(written[0]):
        hint = " Columns are parted by commas: save it so."
    raise UserError(
        f"{place} has no column of paths ('path' or 'image'); its columns are: {', '.join(written)}.{hint} Classes are read from"
        " 'class' or 'label'; then run the same command again."
    )


def _check_keys(rows: list[Row], place: str) -> None:
    keys = Counter(filter(None, (_text(row.get("key")) for row in rows)))
    if twice := [key for key, rows_of in keys.items() if rows_of > 1]:
        raise UserError(
            f"{place}: the key '{twice[0]}' stands in more than one row ({len(twice)} such keys); a key names one photo, and its"
            " backgrounds are drawn by it. Make it unique, or leave the column out: then the path is the key."
        )


def _photo(row: Row, files: PathsFrom) -> tuple[SourcePhoto, str]:
    """A row's photo, and why it is left out, with what to do; empty if it is not."""
    cell, key = row["photo"], _text(row.get("key"))
    image_id, why = key or str(row["number"]), ""
    read: Callable[[], bytes] | None = partial(_encoded, cell, image_id)
    if _is_nothing(cell):
        image_id, why = f"row {row['number']}", "a row without a path: fill it in, or remove the row"
    elif isinstance(cell, (str, Path)) and "://" in str(cell):
        image_id, why = compose(str(cell)), "an address: download the photo, and write its path"
    elif isinstance(cell, (str, Path)):
        image_id, read = files.find(_path(cell))
        if read is None:
            why = GONE
        elif is_photo(image_id) and not is_readable(image_id):
            why = why_left(image_id)
    truth = partial(_mask, row.get("mask"), image_id, files)
    return SourcePhoto(image_id, read or bytes, truth, _text(row.get("class")), key), why


def _text(cell: Any) -> str:
    """A cell that is a name, as names are compared; empty where there is none."""
    return "" if _is_nothing(cell) else compose(str(cell))


def _path(cell: Any) -> str:
    return str(cell).strip().replace("\\", "/")


def _is_nothing(value: Any) -> bool:
    return bool(pd.api.types.is_scalar(value) and (pd.isna(value) or value == ""))


def _nothing(place: str, files: PathsFrom, left_out: dict[str, str]) -> str:
    shown = ", ".join(f"'{name}'" for name in list(left_out)[:SHOWN])
    if set(left_out.values()) == {GONE}:
        return (
            f"None of the {len(left_out)} files that {place} names is there, e.g. {shown}; relative paths start at {files.place}."
            " Move the table beside the photos, or correct the paths; then run the same command again."
        )
    reason = Counter(left_out.values()).most_common(1)[0][0]
    return f"{place} names no photo that can be taken, e.g. {shown}; most often: {reason}."


def _mask(cell: Any, image_id: str, files: PathsFrom) -> bytes | None:
    if _is_nothing(cell):
        return None
    if isinstance(cell, (str, Path)):
        read = files.find(_path(cell))[1]
        if read is None:
            raise UserError(f"'{image_id}': its mask '{cell}' is not there; correct the table.")
        return white(read(), f"mask of {image_id}")
    is_boolean = isinstance(cell, np.ndarray) and cell.dtype == bool
    name = f"mask of {image_id}"
    return white(_encoded(cell.astype(np.uint8) if is_boolean else cell, name), name)


def _encoded(picture: Any, name: str) -> bytes:
    """A picture in memory as bytes: as given, or as PNG, which loses nothing. Another thing is an error."""
    if isinstance(picture, (bytes, bytearray, memoryview)):
        return bytes(picture)
    if isinstance(picture, Image.Image):
        upright = ImageOps.exif_transpose(picture)
        return pixels.encode_png(pixels.from_pillow(upright, "L" if picture.mode in ("1", "L") else "RGB"))
    shape: Sequence[int] = getattr(picture, "shape", ())
    if getattr(picture, "dtype", None) == np.uint8 and (
        len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
    ):
        return pixels.encode_png(np.ascontiguousarray(picture))
    kind = f"{picture.dtype} {list(shape)}" if shape else type(picture).__name__
    raise UserError(
        f"'{name}' is {kind}, and no photo: give a path, an encoded picture, one of Pillow's, or uint8 [H, W, 3] (RGB)."
    )
