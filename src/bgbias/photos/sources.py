"""Photos of every kind of source, told apart by what is there: the one way in, for audits, the doctor and datasets of folders."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from bgbias.errors import UserError
from bgbias.files.archives import Lookup, is_archive
from bgbias.files.pictures import PICTURES, has_suffix, is_hidden, is_readable, locator, stem, why_left
from bgbias.files.tables import read_text
from bgbias.photos import coco, hugging_face, tables
from bgbias.photos.listing import TABLES, Listing, SourcePhoto, around, title
from bgbias.photos.tables import BY_NAME, NamedColumns

Source = str | Path | pd.DataFrame | Sequence[str | Path | bytes | np.ndarray | Image.Image]
"""A folder, archive or table, the name of a dataset of params.yaml, a DataFrame, or a list of paths or pictures."""

OWN_TABLES = ("photos.csv", "photos.parquet")  # what a table among its photos is called
COCO = ".json"
LABELS = ("label", "class", "class_name", "category", "cls")  # what JSON beside a photo calls its class
LEVELS = (
    "Say which by --class-level: {levels}. If the first ones are splits, name the one to look at instead"
    " of the folder around them."
)


def in_memory(source: Any, name: str | None = None, columns: NamedColumns = BY_NAME) -> Listing:
    """The photos of a DataFrame, a ``datasets.Dataset``, or a list of paths or pictures."""
    if isinstance(source, pd.DataFrame):
        return tables.in_frame(source, name or "photos", columns=columns)
    if hugging_face.is_dataset(source):
        return _list_dataset(source, name or "photos", "the dataset", columns)
    # Cell by cell: pandas would take a list of pictures for a picture with one more axis.
    column = pd.Series(list(source), dtype=object)
    return tables.in_frame(pd.DataFrame({"path": column}), name or "photos", origin="the list")


def is_folder(path: Path) -> bool:
    """Whether a place is a folder of photos, or an archive of one."""
    return is_archive(path) or (path.is_dir() and not hugging_face.is_saved(path))


def at(
    path: Path, name: str | None = None, class_level: int | None = None, columns: NamedColumns = BY_NAME
) -> Listing:
    """The photos of a folder, archive, table, COCO file, or folder of ``save_to_disk``; another place is an error.

    In a folder or archive a table of a name of ``OWN_TABLES`` says what photos are, or else what
    ``by_labels`` finds, unless a ``class_level`` does.
    """
    if is_folder(path):
        files = Lookup(path)
        own_tables = [n for n in _list_outermost(files) if PurePosixPath(n).name in OWN_TABLES]
        level = int(columns.place) if columns.place.isdecimal() else None
        if level is not None and (level < 1 or level == class_level):
            raise UserError(
                f"--place is {level}: it is the number of a folder of the path, 1 for the outermost, and another one than that of"
                " the class."
            )
        if own_tables and level is not None and class_level is None:
            raise UserError(
                f"--place is {level}, and {path} has a table, {own_tables[0]}: name its column by --place; or name the"
                " folder of the class, too, by --class-level: then the table is left aside."
            )
        is_by_folders = class_level is not None or level is not None
        if own_tables and not is_by_folders:
            return tables.in_member(files, own_tables[0], name, columns)
        if columns.place and level is None:
            raise UserError(
                f"--place is '{columns.place}', and {path} has no table with columns: name the folder of a path that says where"
                " a photo was taken by its number, 1 for the outermost."
            )
        listing = None if is_by_folders else by_labels(files, name or title(path))
        return listing or in_folder(files, name, class_level, level)
    if path.is_dir():
        return _list_dataset(hugging_face.load(path), name or title(path), str(path), columns)
    if path.suffix.lower() in TABLES:
        frame, first = read_text(path, str(path))
        return tables.in_frame(frame, name or title(path), path.resolve().parent, str(path), first, columns)
    if path.suffix.lower() == COCO:
        if columns.place:
            raise UserError("--place names a column or a folder, and a COCO file has neither: leave it out.")
        return coco.in_coco(Lookup(path.parent), path.name, name)
    raise UserError(
        f"{path} is neither a folder, a zip or tar, nor a table ({', '.join(TABLES)}), nor a COCO file (.json); name the"
        " folder that holds the photos."
    )


def by_labels(files: Lookup, name: str) -> Listing | None:
    """The photos of a folder or archive with their labels among them: in the only COCO file beside all photos, or in a file
    beside each photo. None where there are no such.
    """
    described = [n for n in _list_outermost(files) if PurePosixPath(n).suffix.lower() == COCO]
    if len(described) == 1:
        data = files.read(described[0])
        if all(f'"{part}"'.encode() in data for part in coco.PARTS):
            return coco.in_coco(files, described[0], name)
    return with_labels(files, name)


def _list_dataset(dataset: Any, name: str, origin: str, columns: NamedColumns) -> Listing:
    frame, image = hugging_face.read_frame(dataset, origin)
    columns = replace(columns, image=columns.image or image)
    return tables.in_frame(frame, name, origin=origin, columns=columns)


def _list_outermost(files: Lookup) -> list[str]:
    """Files that lie in no folder but those around all files."""
    names = [name for name in files.names if not is_hidden(name)]
    depth = around(names) if names else 0
    return [name for name in names if len(PurePosixPath(name).parent.parts) == depth]


def in_folder(
    files: Lookup, name: str | None = None, class_level: int | None = None, place_level: int | None = None
) -> Listing:
    """The photos of a folder or archive, with their paths as ids. Photos beside the folders of the
    classes are left out; where all are loose there are no classes.

    Folders in folders without a ``class_level``, and a place without photos, are errors. ``place_level``: which folder of a
    path says where a photo was taken; it is no part of its class.
    """
    path, left_out = files.path, dict(files.passed_over)
    name = name or title(path)
    pictures = [n for n in files.names if is_readable(n)]
    left_out |= {n: why_left(n) for n in files.names if not is_readable(n)}
    if not pictures:
        raise UserError(_explain_empty(path, left_out))
    depth = {n: len(PurePosixPath(n).parent.parts) for n in pictures}
    # An archive of a folder has that folder around all that lies in it.
    is_enclosed = not path.is_dir() and around(pictures) > 0 and max(depth.values()) > 1
    loose = [n for n in pictures if depth[n] < (class_level or 1 + is_enclosed)]
    inside = sorted(set(pictures) - set(loose))
    if class_level and not inside:
        raise UserError(
            f"{name}: '{loose[0]}' lies in no folder of level {class_level}; say a lower --class-level, or none."
        )
    if inside:
        reason = "beside the folders of the classes: put it into its own class's folder"
        left_out |= dict.fromkeys(loose, reason)
    listing = list_names(files, inside or pictures, name, class_level if inside else 0, LEVELS, place_level)
    locate = locator()
    folders = sorted({str(f) for n in listing.photos for f in PurePosixPath(n).parents} - {"."})
    linked = tuple(folder for folder in folders if locate(path / folder).is_symlink())
    return replace(listing, left_out=left_out, linked=linked)


def list_names(
    files: Lookup,
    names: list[str],
    name: str,
    class_level: int | None,
    to_do: str,
    place_level: int | None = None,
) -> Listing:
    """These files as photos, whose folders down to ``class_level`` are their classes (``classes_of``); 0: none are. The folder of
    ``place_level`` is their place, and no part of their classes.
    """
    is_loose = class_level == 0
    place_of: dict[str, str] = {}
    in_class, level = {n: n for n in names}, class_level
    if place_level:
        for n in names:
            parts = PurePosixPath(n).parts
            if len(parts) <= place_level:
                raise UserError(
                    f"{name}: '{n}' lies in no folder of level {place_level}; say another --place."
                )
            place_of[n] = parts[place_level - 1]
            in_class[n] = "/".join((*parts[: place_level - 1], *parts[place_level:]))
        level = class_level - 1 if class_level and place_level <= class_level else class_level
    class_of = {} if is_loose else classes_of(sorted(set(in_class.values())), level, name, to_do)
    photos = [
        SourcePhoto(
            n, partial(files.read, n), class_name=class_of.get(in_class[n], ""), place=place_of.get(n, "")
        )
        for n in names
    ]
    return Listing.from_photos(
        name, photos, "photos lie in no folders, which would say their classes" if is_loose else ""
    )


def classes_of(names: list[str], level: int | None, name: str, to_do: str) -> dict[str, str]:
    """Each picture's class: the folders of its path down to ``level``; all of them, if no level is named and none is doubtful.
    What lies around all classes is no part of their names: a folder and an archive of it have the same.

    Pictures in no folder, and folders in folders without a level, are errors; ``to_do`` ends the latter, with ``{levels}`` in
    the place of those that there are. ``name`` is what people call the collection.
    """
    folders = {n: PurePosixPath(n).parent.parts for n in names}
    if loose := [n for n in names if len(folders[n]) < (level or 1)]:
        where = f"in no folder of level {level}" if level else "in no folder"
        raise UserError(
            f"{name}: '{loose[0]}' lies {where}; put each class's pictures into a folder of its own."
        )
    shared = around(names)
    if level:
        return {n: "/".join(folders[n][min(shared, level - 1) : level]) for n in names}
    # What follows the folders around all of them must be the class, and nothing below it.
    different = sorted(set(folders.values()))
    if len(different) > 1 and {len(f) for f in different} != {shared + 1}:
        raise UserError(_explain_nesting(different, name, to_do))
    return {n: f[-1] for n, f in folders.items()}


def _explain_nesting(folders: list[tuple[str, ...]], name: str, to_do: str) -> str:
    options = []
    examples = ["/".join(folders[0]), "/".join(sorted(folders, key=lambda parts: len(parts))[-1])]
    for level in range(1, min(map(len, folders)) + 1):
        classes = sorted({"/".join(f[:level]) for f in folders})
        options.append(f"{level} ({len(classes)} classes, e.g. '{classes[0]}')")
    return (
        f"{name}: folders lie in folders, as '{examples[0]}' and '{examples[1]}', so that nobody knows which are classes."
        f" {to_do.format(levels=', or '.join(options))}"
    )


def with_labels(files: Lookup, name: str) -> Listing | None:
    """The photos with their class in a file beside them, as webdataset has it: ``7.cls`` holds that of
    ``7.jpg``; where all lie in one folder, so may ``7.json`` under a name of ``LABELS``. None where there
    is no such file.
    """
    pictures, there = [n for n in files.names if is_readable(n)], set(files.names)
    are_loose = len({PurePosixPath(n).parent for n in pictures}) == 1
    label_of: dict[str, str] = {}
    for n in pictures:
        if (label := f"{stem(n)}.cls") in there:
            label_of[n] = files.read(label).decode("utf-8", "replace").strip()
        elif are_loose and (sample := f"{stem(n)}.json") in there:
            label_of[n] = _read_label(files.read(sample), f"{files.path}/{sample}")
    photos = [SourcePhoto(n, partial(files.read, n), class_name=c) for n, c in label_of.items() if c]
    if not photos:
        return None
    samples = {stem(photo.image_id) for photo in photos}
    left_out = files.passed_over | {n: why_left(n) for n in files.names if stem(n) not in samples}
    left_out |= {n: "no label lies beside it" for n in pictures if not label_of.get(n)}
    return replace(Listing.from_photos(name, photos), left_out=left_out)


def _read_label(data: bytes, origin: str) -> str:
    try:
        sample = json.loads(data)
    except ValueError as error:
        raise UserError(f"{origin} is not valid JSON ({error}); write it anew.") from error
    fields = sample if isinstance(sample, dict) else {}
    return str(next((fields[key] for key in LABELS if key in fields), ""))


def _explain_empty(path: Path, left_out: dict[str, str]) -> str:
    if not left_out:
        return f"{path} is empty; name the folder that holds a folder of photos for each class."
    if tables := [n for n in left_out if has_suffix(n, TABLES)]:
        return f"{path} holds no photos, but a table: name that one, {path / tables[0]}."
    example, reason = min(left_out.items(), key=lambda item: (item[1].startswith("hidden"), item[0]))
    return (
        f"{path} holds no photos ({', '.join(PICTURES)}), not even in folders below it, but {len(left_out)} other files:"
        f" '{example}' is {reason}."
    )
