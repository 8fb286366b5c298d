"""Photos that a table names: a CSV or Parquet file, a pandas DataFrame, or a mere list."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, ImageOps

from bgbias.auditing.listing import Listing, table_of, taken, title, why_left, why_unlabelled
from bgbias.errors import UserError
from bgbias.files.pictures import compose, is_photo, locator
from bgbias.files.tables import read_text
from bgbias.images import pixels
from bgbias.images.drawn_masks import white

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


def of_file(place: Path, name: str | None) -> Listing:
    """The photos that a CSV or Parquet file names; relative paths start at its folder."""
    frame, first = read_text(place, str(place))
    return of_frame(frame, name or title(place), place.resolve().parent, str(place), first)


def of_frame(
    frame: pd.DataFrame,
    name: str = "photos",
    folder: Path | None = None,
    place: str = "the table",
    first: int = 0,
) -> Listing:
    """The photos of a table with a column of paths, or of pictures themselves: encoded ones, those of Pillow, or uint8 arrays
    [H, W, 3] or [H, W]; and, where it has them, columns of classes, keys, masks, splits and groups (``COLUMNS``).

    Relative paths start at ``folder`` (the current one, if None). A photo's id is its path, as seen from there where it lies
    below; that of a picture in memory is its key, or the number of its row (from ``first``). Only rows of the split ``test`` are
    taken where others are there too, and of a class's photos of one group the first by name. Rows without a class are left out.
    A table without photos' paths, keys that stand twice, and files of which none is there are errors.
    """
    folder = (folder or Path.cwd()).resolve()
    locate = locator()
    columns = _columns(frame, place)
    rows = [
        {
            meaning: _composed(value, meaning, folder, locate)
            for meaning, value in zip(columns, values, strict=True)
        }
        | {"number": number}
        for number, values in enumerate(zip(*columns.values(), strict=True), first)
    ]
    tested = [row for row in rows if row.get("split") == "test"]
    remarks = []
    if tested and len(tested) < len(rows):
        remarks.append(f"{len(rows) - len(tested)} rows whose split is not 'test' are not looked at")
    _check_keys(tested or rows, place)
    left_out: dict[str, str] = {}
    taken_rows: dict[str, dict[str, Any]] = {}
    for row in tested or rows:
        image_id = _id(row, folder)
        why = _why_not(row, image_id, "class" in columns)
        if not why and image_id in taken_rows:
            image_id, why = f"{image_id} (row {row['number']})", "its photo is listed before: remove the row"
        if why:
            left_out[image_id] = why
        else:
            taken_rows[image_id] = row
    if not taken_rows:
        raise UserError(_nothing(place, folder, left_out))
    again = _of_one_group(taken_rows)
    left_out |= dict.fromkeys(again, OF_GROUP)
    taken_rows = {i: row for i, row in taken_rows.items() if i not in again}
    class_of = {i: str(row["class"]) for i, row in taken_rows.items()} if "class" in columns else {}
    key_of = {i: str(row["key"]) for i, row in taken_rows.items() if "key" in row}
    why = why_unlabelled(class_of) if class_of else "nobody says which photo is of which class"
    return Listing(
        name=name,
        table=table_of(name, taken_rows, class_of, not why, key_of),
        labelled=not why,
        read=lambda image_id: _encoded(taken_rows[image_id]["photo"], image_id),
        truth=_masks(taken_rows),
        left_out=left_out,
        others=(*left_out, *(_id(row, folder) for row in rows if tested and row["split"] != "test")),
        remarks=(*remarks, *([f"{why}: {OF_GROUP}" if again else why] if why else [])),
    )


def _composed(value: Any, meaning: str, folder: Path, locate: Callable[[Path], Path]) -> Any:
    """A cell whose names are compared as people read them; a path to a file as it lies on the disk."""
    if _is_nothing(value) or not isinstance(value, (str, Path)) or "://" in str(value):
        return value
    if meaning in ("photo", "mask"):
        return locate(folder / str(value).strip().replace("\\", "/"))
    return compose(str(value))


def _columns(frame: pd.DataFrame, place: str) -> dict[str, list[Any]]:
    """The columns that mean something, by what they mean."""
    if frame.empty:
        raise UserError(
            f"{place} has no rows; it needs a row for each photo, with the columns 'path' and 'class'."
        )
    written = [str(column).strip() for column in frame.columns]
    small = [column.lower() for column in written]
    found = {
        meaning: frame.iloc[:, small.index(name)].tolist()
        for meaning, names in COLUMNS.items()
        if (name := next((n for n in names if n in small), ""))
    }
    if "photo" in found:
        return found
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


def _check_keys(rows: list[dict[str, Any]], place: str) -> None:
    twice = [key for key, n in Counter(str(row["key"]) for row in rows if "key" in row).items() if n > 1]
    if twice:
        raise UserError(
            f"{place}: the key '{twice[0]}' stands in more than one row ({len(twice)} such keys); a key names one photo, and its"
            " backgrounds are drawn by it. Make it unique, or leave the column out: then the path is the key."
        )


def _of_one_group(rows: dict[str, dict[str, Any]]) -> set[str]:
    """Photos whose class and group are those of an earlier one by name: they are no evidence of their own."""
    grouped = {i: row for i, row in sorted(rows.items()) if not _is_nothing(row.get("group"))}
    groups = pd.Series(
        {i: (str(row.get("class")), str(row["group"])) for i, row in grouped.items()}, dtype=object
    )
    return set(groups.index[groups.duplicated()])


def _id(row: dict[str, Any], folder: Path) -> str:
    photo = row["photo"]
    if _is_nothing(photo):
        return f"row {row['number']}"
    if isinstance(photo, Path):
        photo = photo.relative_to(folder) if photo.is_relative_to(folder) else photo
    return compose(str(photo)) if isinstance(photo, (str, Path)) else str(row.get("key", row["number"]))


def _why_not(row: dict[str, Any], image_id: str, labelled: bool) -> str:
    """Why a row's photo is left out, and what to do; empty if it is not."""
    photo = row["photo"]
    if _is_nothing(photo):
        return "a row without a path: fill it in, or remove the row"
    if labelled and _is_nothing(row["class"]):
        return "no class in its row: fill it in"
    if isinstance(photo, str):
        return "an address: download the photo, and write its path"
    if isinstance(photo, Path):
        if not photo.is_file():
            return GONE
        if is_photo(image_id) and not taken(image_id):
            return why_left(image_id)
    return ""


def _is_nothing(value: Any) -> bool:
    return bool(pd.api.types.is_scalar(value) and (pd.isna(value) or value == ""))


def _nothing(place: str, folder: Path, left_out: dict[str, str]) -> str:
    shown = ", ".join(f"'{name}'" for name in list(left_out)[:SHOWN])
    if set(left_out.values()) == {GONE}:
        return (
            f"None of the {len(left_out)} files that {place} names is there, e.g. {shown}; relative paths start at {folder}."
            " Move the table beside the photos, or correct the paths; then run the same command again."
        )
    reason = Counter(left_out.values()).most_common(1)[0][0]
    return f"{place} names no photo that can be taken, e.g. {shown}; most often: {reason}."


def _masks(rows: dict[str, dict[str, Any]]) -> Callable[[str], bytes | None]:
    def truth(image_id: str) -> bytes | None:
        mask = rows[image_id].get("mask")
        if _is_nothing(mask):
            return None
        name = f"mask of {image_id}"
        if isinstance(mask, np.ndarray) and mask.dtype == bool:
            mask = mask.astype(np.uint8)
        return white(_encoded(mask, name), name)

    return truth


def _encoded(picture: Any, name: str) -> bytes:
    """A picture as bytes: those of its file, those that are given, or as PNG, which loses nothing. Another thing is an error."""
    if isinstance(picture, (str, Path)):
        return Path(picture).read_bytes()
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
