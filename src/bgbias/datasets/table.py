"""Anybody's photos by a table: a CSV or Parquet file with the columns image and label, and optionally split, mask and group, and
query, gallery and camera: who is asked among whom; and place: where photos were taken.

Pictures are named relative to the table's folder, or to ``root`` (a folder, zip, tar or URL). Without a split column, classes
are split as those of ``folder`` are. Photos of one group (one product, one shoot) never stand in two splits.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path, PurePosixPath
from typing import Any, Self

from pydantic import Field, model_validator

from bgbias.datasets.folder import ClassSplit, assign
from bgbias.errors import UserError
from bgbias.files import places
from bgbias.files.archives import Lookup
from bgbias.files.checksums import sha256
from bgbias.files.fetch import Source
from bgbias.files.pictures import is_picture
from bgbias.files.tables import read_text
from bgbias.images.drawn_masks import white
from bgbias.photos.table import SPLITS, Item

NEEDED = ("image", "label")
OPTIONAL = ("split", "mask", "group", "query", "gallery", "camera", "place")
YES_OR_NO = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
Row = Any  # a line of the table: its cells by column, and its ``number``, as a spreadsheet shows it
MOST_TOLD = 10  # mistakes listed at once


class Params(ClassSplit):
    """Where table and photos are, and which classes train if the table has no splits."""

    source: str = Field(description="the table: a CSV or Parquet file")
    root: str | None = Field(
        None, description="folder, zip, tar or URL of the pictures; the table's folder if null"
    )
    closed_set: bool = Field(
        False, description="photos of one label may stand in several splits (the table must say in which)"
    )

    upright: bool = Field(
        False, description="turn photos as their EXIF says; they are as they were stored if false"
    )
    masks: bool = Field(
        False, description="segmentation is judged by the table's masks (it must have the column)"
    )
    given: bool = Field(
        False,
        description="reports have mAP and CMC: the table says who is asked among whom (it must have the column query or camera)",
    )

    @model_validator(mode="after")
    def _pictures_have_a_place(self) -> Self:
        if "://" in self.source and self.root is None:
            raise ValueError("a table that comes from a URL needs `root`: where its pictures are")
        if self.root is None and (places.source(self.source).parent / "params.yaml").exists():
            raise ValueError(
                "the pictures lie in the table's folder, which is the project's own; name theirs as `root`"
            )
        return self


def parts(params: Params) -> dict[str, tuple[Source, ...]]:
    """The table, and the pictures below its root."""
    root = params.root or str(PurePosixPath(params.source).parent)
    if params.source.startswith("shared:") and params.root is None:
        root = f"shared:{PurePosixPath(params.source.removeprefix('shared:')).parent}"
    table = places.source(params.source)
    names = _list_named_files(table, sha256(table)) if table.is_file() else None
    return {"table": (Source(place=params.source),), "photos": (Source(place=root, names=names),)}


@cache
def _list_named_files(table: Path, checksum: str) -> frozenset[str] | None:
    """The files that a table names; None where it has faults, which are reported when it is read."""
    try:
        rows, _ = read_rows(table, str(table))
    except UserError:
        return None
    return frozenset(file for row in rows for file in (row.image, row.mask) if file) or None


def truth(params: Params) -> str | None:
    """Masks, if the table is said to have them: it may not be here yet when that is asked."""
    return "masks" if params.masks else None


def given(params: Params) -> bool:
    """Whether the table is said to have queries or cameras of its own."""
    return params.given


def items(params: Params, parts: dict[str, Path], name: str) -> Iterator[Item]:
    """The photos in the archive's order; ids are their paths. All that is wrong with the table is one error, by row."""
    rows, columns = read_rows(parts["table"], params.source)
    files = Lookup(parts["photos"], is_picture)
    if problems := [*_of_rows(rows, columns, set(files.names)), *_across_rows(rows, columns, params)]:
        more = [f"and {len(problems) - MOST_TOLD} more"] if len(problems) > MOST_TOLD else []
        lines = [f"{name}: {params.source} cannot be used:", *problems[:MOST_TOLD], *more]
        raise UserError("\n  ".join(lines))
    split_of = _splits(rows, columns, params, name)
    label_of = {label: number for number, label in enumerate(sorted({r.label for r in rows}))}
    by_image = {r.image: r for r in rows}
    for member in filter(by_image.__contains__, files.names):
        row = by_image[member]
        split = split_of[member]
        yield Item(
            image_id=member,
            class_name=row.label,
            label=label_of[row.label],
            split=split,
            key_set=f"{name}|{split}",
            key_item=member,
            data=files.read(member),
            truth=white(files.read(row.mask), row.mask) if row.mask else None,
            query=YES_OR_NO[row.query.lower()] if "query" in columns else True,
            gallery=YES_OR_NO[row.gallery.lower()] if "gallery" in columns else True,
            camera=row.camera,
            place=row.place,
        )


def read_rows(path: Path, source: str) -> tuple[list[Row], set[str]]:
    """The table's rows as text, and which columns it has. An unreadable file, and missing or unknown columns are errors."""
    text, first = read_text(path, source)
    columns = set(text.columns)
    for missing in [c for c in NEEDED if c not in columns]:
        raise UserError(
            f"{source} has no column '{missing}'; it needs {' and '.join(NEEDED)}, and may have {', '.join(OPTIONAL)}."
        )
    if unknown := sorted(columns.difference(NEEDED, OPTIONAL)):
        raise UserError(
            f"{source} has a column '{unknown[0]}', which says nothing here; columns are {', '.join(NEEDED + OPTIONAL)}."
        )
    text = text.reindex(columns=[*NEEDED, *OPTIONAL], fill_value="")
    for column in ("image", "mask"):
        if not text[column].map(lambda cell: isinstance(cell, str)).all():
            raise UserError(
                f"{source} holds pictures in its column '{column}'; a study needs their paths: write each as"
                " a file. An audit takes the table as it is."
            )
        text[column] = [PurePosixPath(f.replace("\\", "/")).as_posix() if f else "" for f in text[column]]
    numbered = text.assign(number=range(first, first + len(text)))
    return list(numbered.itertuples(index=False, name="Row")), columns


def _of_rows(rows: list[Row], columns: set[str], names: set[str]) -> Iterator[str]:
    if not rows:
        yield "it has no rows"
    for row in rows:
        for column, file in (("image", row.image), ("mask", row.mask)):
            here = f"row {row.number}, {column}:"
            if not file:
                continue
            if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
                yield f"{here} '{file}' leads out of the pictures' folder; name it relative to `root`"
            elif not is_picture(file):
                yield f"{here} '{file}' is no picture (.jpg, .png, ...)"
            elif file not in names:
                yield f"{here} there is no file '{file}'"
        for column in NEEDED:
            if not getattr(row, column):
                yield f"row {row.number}, {column}: empty"
        if "split" in columns and row.split not in SPLITS:
            yield f"row {row.number}, split: {row.split!r} is none of {', '.join(SPLITS)}"
        for column, value in (("query", row.query), ("gallery", row.gallery)):
            if column in columns and value.lower() not in YES_OR_NO:
                yield f"row {row.number}, {column}: {value!r} is none of {', '.join(YES_OR_NO)}"


def _across_rows(rows: list[Row], columns: set[str], params: Params) -> Iterator[str]:
    """What is wrong between rows: a picture listed twice, a label or a group that stands in two splits."""
    if params.masks and "mask" not in columns:
        yield "masks are asked for, but there is no column 'mask'"
    if params.given and not columns & {"query", "camera"}:
        yield "given queries are asked for, but there is no column 'query' or 'camera'"
    first: dict[str, Row] = {}
    for row in rows:
        if row.image and first.setdefault(row.image, row) is not row:
            yield f"row {row.number}, image: '{row.image}' stands in row {first[row.image].number} already"
    if "split" not in columns:
        if params.closed_set:
            yield "closed_set is asked for, but there is no column 'split'"
        return
    for column in ("label", "group") if not params.closed_set else ("group",):
        seen: dict[str, Row] = {}
        for row in rows:
            value = getattr(row, column)
            # What is not used meets nothing.
            if not value or row.split not in SPLITS or row.split == "unused":
                continue
            other: Row = seen.setdefault(value, row)
            if other.split != row.split:
                hint = "; `closed_set: true` allows it" if column == "label" else ""
                yield (
                    f"row {row.number}, {column}: '{value}' is {row.split} here and {other.split} in row {other.number}{hint}"
                )
    splits = {row.split for row in rows}
    for column, split in product(sorted(columns & {"query", "gallery"}), sorted(splits & {"val", "test"})):
        if not any(YES_OR_NO.get(getattr(r, column).lower()) for r in rows if r.split == split):
            yield f"no row of the split '{split}' has {column} true"
    # Photos to test alone are all that a finished model needs.
    if splits & {"train", "val"} or "test" not in splits:
        yield from (f"no row has the split '{s}'" for s in ("train", "val", "test") if s not in splits)


def _splits(rows: list[Row], columns: set[str], params: Params, name: str) -> dict[str, str]:
    """The split of each picture: the table's, or by class."""
    if "split" in columns:
        return {row.image: row.split for row in rows}
    shared: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.group:
            shared[row.group].add(row.label)
    split_of = assign({row.label for row in rows}, params, name, shared.values())
    return {row.image: split_of[row.label] for row in rows}
