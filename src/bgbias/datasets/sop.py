"""Stanford Online Products: 120,053 photos of 22,634 products (Oh Song et al. 2016), in its official archive layout.

Splits are those of ``Ebay_train.txt`` and ``Ebay_test.txt``; of the training file's 11,318 classes (counted from 0), 0-8488
train and 8489-11317 are the validation (docs/methods.md, section 1). A photo's place in its split is that in its list.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from bgbias.datasets._official import ArchiveParams, listed_photos, lists_in, places, read_official
from bgbias.errors import UserError
from bgbias.files.fetch import Source
from bgbias.photos.table import Item

TITLE = "SOP"
KEY = "sop"
(OFFICIAL,) = read_official("sop").values()
LISTS = ("Ebay_train.txt", "Ebay_test.txt")
HEADER = ["image_id", "class_id", "super_class_id", "path"]
FIRST_VAL_CLASS = 8_489
PHOTO_BYTES = 25_000  # about: small photos, some 3 GB in all
Params = ArchiveParams
COUNTS = {"Ebay_train.txt": (59_551, 11_318), "Ebay_test.txt": (60_502, 11_316)}


def parts(params: Params) -> dict[str, tuple[Source, ...]]:
    return {"photos": params.archive(OFFICIAL, keep=(".txt",))}


def expected(params: Params) -> dict[str, int]:
    """Photos of each split before they are counted: of training and validation about, by their classes."""
    photos, classes = COUNTS["Ebay_train.txt"]
    train = round(photos * FIRST_VAL_CLASS / classes)
    return {"train": train, "val": photos - train, "test": COUNTS["Ebay_test.txt"][0]}


def items(params: Params, parts: dict[str, Path], name: str) -> Iterator[Item]:
    """The photos in the archive's order; image ids are the paths of the lists, e.g. ``chair_final/111182689872_0.JPG``.

    An archive without the lists, with other counts than the dataset has, or without a photo that a list names, is an error.
    """
    archive = parts["photos"]
    listed = _read_lists(archive)
    place_of = places((path, split) for path, (_, split) in listed.items())
    # The lists name a photo by its last folder and its name.
    for path, data in listed_photos(archive, lambda m: "/".join(PurePosixPath(m).parts[-2:]), listed):
        label, (split, place) = listed[path][0], place_of[path]
        yield Item(
            image_id=path,
            class_name=f"{path.split('/')[0].removesuffix('_final')} {label + 1}",
            label=label,
            split=split,
            key_set=f"{KEY}|{split}",
            key_item=str(place),
            data=data,
        )


def _read_lists(archive: Path) -> dict[str, tuple[int, str]]:
    """Class, counted from 0, and split of each path, in the lists' order; other lines or counts than the dataset's are errors."""
    listed: dict[str, tuple[int, str]] = {}
    for file, data in lists_in(archive, LISTS, "Stanford Online Products").items():
        header, *rows = [line.split() for line in data.decode().splitlines()] or [[]]
        if header != HEADER:
            raise UserError(
                f"{archive}: {file} must begin with the line '{' '.join(HEADER)}'; fetch it again."
            )
        labels = set()
        for number, row in enumerate(rows, 2):
            try:
                _, class_id, _, path = row
                label = int(class_id) - 1
            except ValueError as error:
                raise UserError(
                    f"{archive}: line {number} of {file} cannot be read: '{' '.join(row)}'; fetch it again."
                ) from error
            if path in listed:
                raise UserError(f"{archive}: line {number} of {file} lists '{path}' again; fetch it again.")
            split = "test" if file == "Ebay_test.txt" else "val" if label >= FIRST_VAL_CLASS else "train"
            listed[path] = label, split
            labels.add(label)
        counts = len(rows), len(labels)
        if counts != COUNTS[file]:
            raise UserError(
                f"{archive}: {file} lists {counts[0]} photos of {counts[1]} classes, not {COUNTS[file][0]} of {COUNTS[file][1]}."
            )
    return listed
