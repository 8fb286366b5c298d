"""Photos that a table names or holds: a CSV or Parquet file, a pandas DataFrame, or a mere list."""

import difflib
import posixpath
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from os.path import commonpath
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, ImageOps

from bgbias.errors import UserError
from bgbias.files.archives import Lookup
from bgbias.files.pictures import compose, is_photo, is_readable, locator, why_left
from bgbias.files.tables import parse
from bgbias.images import pixels
from bgbias.images.drawn_masks import white
from bgbias.photos.listing import Listing, SourcePhoto, title

# What a column may be called, the first of them first, in capitals or small letters.
COLUMNS = {
    "photo": ("path", "image", "file", "filename", "file_name", "filepath", "image_path", "photo"),
    "class": ("class", "label", "class_name", "category"),
    **{name: (name,) for name in ("key", "mask", "split", "group", "place", "session", "part")},
}
PARTS = {"": (True, True), "query": (True, False), "gallery": (False, True)}  # asked, and searched
SHOWN = 3
OF_GROUP = "of each class one photo of a group is taken; leave out the column 'group' to take all"
GONE = "no file is there: correct its path in the table, or put it there"
Row = dict[str, Any]  # a cell by what its column means, and the row's number
Read = Callable[[], bytes]
Find = Callable[[str], tuple[str, Read | None]]
"""Gives the id of the file that a path means, and what reads it; None where no file is there."""


@dataclass(frozen=True)
class NamedColumns:
    """Columns that a person names: of photos, of their classes and of their places; by ``COLUMNS`` if empty."""

    image: str = ""
    label: str = ""
    place: str = ""


BY_NAME = NamedColumns()


def in_member(files: Lookup, table: str, name: str | None = None, columns: NamedColumns = BY_NAME) -> Listing:
    """The photos that a table inside a folder or archive names."""
    origin = f"{files.path}/{table}"
    frame, first = parse(BytesIO(files.read(table)), table, origin)
    start = files.path / PurePosixPath(table).parent
    listing = in_frame(frame, name or title(files.path), start, origin, first, columns, files)
    return replace(listing, remarks=(*listing.remarks, f"photos and classes are those of {table}"))


def in_frame(
    frame: pd.DataFrame,
    name: str = "photos",
    start: Path | None = None,
    origin: str = "the table",
    first: int = 0,
    columns: NamedColumns = BY_NAME,
    files: Lookup | None = None,
) -> Listing:
    """The photos of a table with a column of paths, or of pictures themselves (``encoded``); and, where it has them, of
    classes, keys, masks, splits, groups, places, sessions and parts (``COLUMNS``).

    Relative paths begin at ``start`` (the current folder, if None), which lies in the archive ``files``
    where one is given. A photo's id is its path; that of a picture in memory is its key, or the number
    of its row (from ``first``). Only rows of the split ``test`` are taken where others are there too, and
    of a class's photos of one group the first by name. Rows without a class are left out. A table without
    photos' paths, a photo of two classes, and files of which none is there are errors.
    """
    rows = _read_rows(frame, origin, first, columns)
    start = start or Path.cwd()
    if files:
        find = in_archive(files, start.relative_to(files.path).as_posix())
    else:
        written = (path(row["photo"]) for row in rows)
        find = on_disk(start, [file for file in written if file and "://" not in file])
    tested = [row for row in rows if row.get("split") == "test"] or rows
    untested = [row for row in rows if len(tested) < len(rows) and row["split"] != "test"]
    is_classed = "class" in rows[0]
    left_out: dict[str, str] = {}
    photos: dict[str, SourcePhoto] = {}
    row_of: dict[str, Row] = {}
    for row in tested:
        photo, why = _read_photo(row, find, origin)
        image_id = photo.image_id
        if not why and is_classed and not photo.class_name:
            why = "no class in its row: fill it in"
        if not why and image_id in photos:
            first_class, first_row = photos[image_id].class_name, row_of[image_id]["number"]
            if photo.class_name != first_class:
                raise UserError(
                    f"{origin}: '{image_id}' is of the class '{first_class}' in row {first_row} and of"
                    f" '{photo.class_name}' in row {row['number']}. A photo has one class: correct or remove one"
                    " row."
                )
            image_id, why = f"{image_id} (row {row['number']})", "its photo is listed before: remove the row"
        if why:
            left_out[image_id] = why
        else:
            photos[image_id], row_of[image_id] = photo, row
    if not photos:
        raise UserError(_explain_absence(origin, start, left_out))
    group_of = {i: (photos[i].class_name, text(row_of[i].get("group"))) for i in sorted(photos)}
    grouped = pd.Series({i: group for i, group in group_of.items() if group[1]}, dtype=object)
    again = set(grouped.index[grouped.duplicated()])
    left_out |= dict.fromkeys(again, OF_GROUP)
    why = "" if is_classed else f"nobody says which photo is of which class{_suggest_label_columns(frame)}"
    listing = Listing.from_photos(name, [photo for i, photo in photos.items() if i not in again], why)
    remarks = [f"{why}: {OF_GROUP}" if again else why for why in listing.remarks]
    if untested:
        remarks.insert(0, f"{len(untested)} rows whose split is not 'test' are not looked at")
    if split := listing.table.given:
        if not (split.query.any() and split.gallery.any()):
            raise UserError(f"{origin} has no query, or nothing in the gallery: correct the column 'part'.")
        remarks.append(
            f"{split.query.sum()} photos are queries, asked among the {split.gallery.sum()} of the gallery"
        )
    others = tuple(_read_photo(row, find, origin)[0].image_id for row in untested)
    return replace(listing, left_out=left_out, others=others, remarks=tuple(remarks))


def _read_rows(frame: pd.DataFrame, origin: str, first: int, columns: NamedColumns) -> list[Row]:
    """The cells of columns that mean something, by what they mean."""
    if frame.empty:
        raise UserError(
            f"{origin} has no rows; it needs a row for each photo, with the columns 'path' and 'class'."
        )
    written = [str(column).strip() for column in frame.columns]
    small = [column.lower() for column in written]
    cells_of: dict[str, list[Any]] = {}
    for meaning, names in COLUMNS.items():
        column = {"photo": columns.image, "class": columns.label, "place": columns.place}.get(meaning)
        if column and column not in written:
            raise UserError(f"{origin} has no column '{column}'; its columns are: {', '.join(written)}.")
        column = column or next((written[small.index(n)] for n in names if n in small), None)
        if column is not None:
            cells_of[meaning] = frame.iloc[:, written.index(column)].tolist()
    if "photo" in cells_of:
        cells = zip(*cells_of.values(), strict=True)
        return [
            dict(zip(cells_of, row, strict=True)) | {"number": number}
            for number, row in enumerate(cells, first)
        ]
    near = [
        (w, n[0])
        for w, s in zip(written, small, strict=True)
        if (n := difflib.get_close_matches(s, COLUMNS["photo"], 1))
    ]
    hint = f" Is '{near[0][0]}' meant? Call it '{near[0][1]}'." if near else ""
    raise UserError(
        f"{origin} has no column of paths ('path' or 'image'); its columns are: {', '.join(written)}.{hint} Name it by"
        " --image-column, and that of the classes by --label-column, if that is not 'class' or 'label'."
    )


def _suggest_label_columns(frame: pd.DataFrame) -> str:
    """Columns of another name whose values stand for several rows each, as classes do."""
    used = {name for names in COLUMNS.values() for name in names}
    names = [
        str(column)
        for column, values in frame.items()
        if str(column).strip().lower() not in used
        and isinstance(values.iloc[0], (str, int, np.integer))
        and 1 < values.nunique() <= len(values) / 2
    ]
    return f"; --label-column takes one of: {', '.join(names)}" if names else ""


def _read_photo(row: Row, find: Find, origin: str) -> tuple[SourcePhoto, str]:
    """A row's photo, and why it is left out, with what to do; empty if it is not."""
    cell, key = row["photo"], text(row.get("key"))
    image_id, why = key or str(row["number"]), ""
    read: Any = partial(encoded, cell, image_id)
    file = path(cell)
    if is_empty(cell):
        image_id, why = f"row {row['number']}", "a row without a path: fill it in, or remove the row"
    elif "://" in file:
        image_id, why = text(file), "an address: download the photo, and write its path"
    elif file:
        image_id, read = find(file)
        if read is None:
            why = GONE
        elif is_photo(image_id) and not is_readable(image_id):
            why = why_left(image_id)
    part = text(row.get("part")).lower()
    if part not in PARTS:
        raise UserError(
            f"{origin}, row {row['number']}: the part '{part}' is neither query nor gallery. Correct it, or"
            " give the column another name."
        )
    is_query, is_in_gallery = PARTS[part]
    photo = SourcePhoto(
        image_id,
        read or bytes,
        partial(_read_mask, row.get("mask"), image_id, find),
        class_name=text(row.get("class")),
        key=key,
        place=text(row.get("place")),
        session=text(row.get("session")),
        query=is_query,
        gallery=is_in_gallery,
    )
    return photo, why


def _explain_absence(origin: str, start: Path, left_out: dict[str, str]) -> str:
    examples = ", ".join(f"'{name}'" for name in list(left_out)[:SHOWN])
    if set(left_out.values()) == {GONE}:
        return (
            f"None of the {len(left_out)} files that {origin} names is there, e.g. {examples}; relative paths start at"
            f" {start.resolve()}. Move the table beside the photos, or correct the paths; then run the same command again."
        )
    reason = Counter(left_out.values()).most_common(1)[0][0]
    return f"{origin} names no photo that can be taken, e.g. {examples}; most often: {reason}."


def _read_mask(cell: Any, image_id: str, find: Find) -> bytes | None:
    if is_empty(cell):
        return None
    name = f"mask of {image_id}"
    if file := path(cell):
        read = find(file)[1]
        if read is None:
            raise UserError(f"'{image_id}': its mask '{file}' is not there; correct the table.")
        return white(read(), name)
    is_boolean = isinstance(cell, np.ndarray) and cell.dtype == bool
    return white(encoded(cell.astype(np.uint8) if is_boolean else cell, name), name)


def on_disk(start: Path, paths: Iterable[str]) -> Find:
    """Finds files whose relative ``paths`` begin at ``start``, as ids do, or, if one lies elsewhere, where all files lie."""
    start, locate = start.resolve(), locator()
    folders = {(start / path).parent for path in paths}
    is_below = all(folder.is_relative_to(start) for folder in folders)
    around = start if is_below else Path(commonpath(folders))

    def find(path: str) -> tuple[str, Read | None]:
        file = locate(start / path)
        name = file.relative_to(around) if file.is_relative_to(around) else file
        return compose(str(name)), file.read_bytes if file.is_file() else None

    return find


def in_archive(files: Lookup, below: str) -> Find:
    """Finds files of an archive, whose paths begin at its part ``below``."""
    there = set(files.names)

    def find(path: str) -> tuple[str, Read | None]:
        name = posixpath.normpath(posixpath.join(below, compose(path)))
        return name, partial(files.read, name) if name in there else None

    return find


def is_empty(cell: Any) -> bool:
    """Whether there is nothing in a cell."""
    return bool(pd.api.types.is_scalar(cell) and (pd.isna(cell) or cell == ""))


def text(cell: Any) -> str:
    """A cell that is a name, as names are compared; empty where there is none."""
    return "" if is_empty(cell) else compose(str(cell).strip())


def path(cell: Any) -> str:
    """The path in a cell, or in Hugging Face's ``{bytes, path}`` without bytes; empty where a cell holds a picture."""
    if isinstance(cell, dict) and not cell.get("bytes"):
        cell = cell.get("path")
    return str(cell).strip().replace("\\", "/") if isinstance(cell, (str, Path)) else ""


def encoded(picture: Any, name: str) -> bytes:
    """A picture in memory as bytes: as given, or as PNG, which loses nothing. Another thing is an error.

    It may be a function without arguments that gives one, so that nothing is read before it is asked for.
    """
    picture = picture() if callable(picture) else picture
    picture = picture["bytes"] if isinstance(picture, dict) else picture
    if isinstance(picture, (bytes, bytearray, memoryview)):
        return bytes(picture)
    if isinstance(picture, Image.Image):
        upright = ImageOps.exif_transpose(picture)
        return pixels.encode_png(pixels.from_pillow(upright, "L" if picture.mode in ("1", "L") else "RGB"))
    shape: tuple[int, ...] = getattr(picture, "shape", ())
    kind = getattr(picture, "dtype", None)
    if kind == np.uint8 and (len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)):
        return pixels.encode_png(np.ascontiguousarray(picture))
    what = f"{kind} {list(shape)}" if shape else type(picture).__name__
    raise UserError(
        f"'{name}' is {what}, and no photo: give a path, an encoded picture, one of Pillow's, or uint8 [H, W, 3] (RGB)."
    )
