"""CUHK03: 1,467 persons, each by two cameras, in boxes of a detector or by hand (Li et al., CVPR 2014).

Protocol ``new`` (Zhong et al., CVPR 2017): 767 persons train, 700 test, queries and gallery are given. Protocol ``classic``: 20
splits with 100 persons to test, each photo of theirs a query, and a gallery with one photo of each (docs/methods.md,
section 15).

The release is one file of MATLAB's, in HDF5, from which toolboxes write pictures ``pair_person_view_number.png`` into
``images_detected`` and ``images_labeled``, and classic splits beside them as ``splits_classic_detected.json``; these are read,
with the new protocol's ``cuhk03_new_protocol_config_detected.mat``. So is CUHK03-NP, the new protocol's photos in folders like
those of Market-1501.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import Field

from bgbias.datasets import _persons
from bgbias.datasets._persons import PersonParams, PersonPhoto
from bgbias.errors import UserError
from bgbias.files.archives import members
from bgbias.files.fetch import Source
from bgbias.files.pictures import is_picture
from bgbias.photos.table import Item

TITLE = "CUHK03"
KEY = "cuhk03"
# Photos to train, queries, and photos in the gallery.
NEW = {"detected": (7_365, 1_400, 5_332), "labeled": (7_368, 1_400, 5_328)}
TRAINING_PERSONS = {"new": 767, "classic": 1_367}
TESTED, SPLITS = 100, 20
LISTS = (
    *(f"cuhk03_new_protocol_config_{boxes}.mat" for boxes in NEW),
    *(f"splits_classic_{boxes}.json" for boxes in NEW),
)
PHOTO_BYTES = 20_000  # about: 60 x 160 pixels, PNG
HINT = (
    "CUHK03 is given to researchers by its authors as cuhk-03.mat. Name a folder or archive as the option source that has the"
    " pictures and lists which torchreid makes of it, or, for the new protocol, CUHK03-NP (docs/data.md)."
)


class Params(PersonParams):
    """Where the photos are, by which boxes and protocol, and how many of the training persons validate."""

    boxes: Literal["detected", "labeled"] = Field("detected", description="a detector's, or drawn by hand")
    protocol: Literal["new", "classic"] = Field("new", description="767 and 700 persons, or 20 splits")
    split: int = Field(0, ge=0, lt=SPLITS, description="which of the classic protocol's")


def parts(params: Params) -> dict[str, tuple[Source, ...]]:
    """The user's folder or archive; nobody else publishes it."""
    own = Source(
        place=params.source,
        sha256=params.sha256,
        file=None if params.source else "cuhk03.zip",
        keep=(".json", ".mat"),
        hint="" if params.source else HINT,
    )
    return {"photos": (own,)}


def given(params: Params) -> bool:
    """Who is asked among whom is the dataset's own."""
    return True


def expected(params: Params) -> dict[str, int]:
    """Photos of each split before they are counted: persons are of about as many."""
    train, queries, gallery = NEW[params.boxes]
    every, persons = train + queries + gallery, TRAINING_PERSONS[params.protocol]
    if params.protocol == "classic":
        train = round(every * persons / (persons + TESTED))
    val = round(train * params.val_persons / persons)
    return {"train": train - val, "val": val, "test": every - train}


def items(params: Params, parts: dict[str, Path], name: str) -> Iterator[Item]:
    """The photos in the archive's order. Another layout, and other counts than the dataset has, are errors."""
    archive = parts["photos"]
    names = [n for n in _persons.names_in(archive, is_picture) if _of_boxes(n) in (params.boxes, None)]
    lists = {
        PurePosixPath(n).name: data for n, data in members(archive, lambda n: PurePosixPath(n).name in LISTS)
    }
    photos = _persons.in_folders(names, archive) if params.protocol == "new" else {}
    if not photos:
        photos = _extracted(names, lists, params, archive)
    if params.protocol == "new":
        _persons.check_counts(photos, NEW[params.boxes], archive)
    yield from _persons.items_of(archive, photos, params, KEY, name)


def _of_boxes(member: str) -> str | None:
    """Whose boxes a folder's name says that a photo is of."""
    folders = "/".join(PurePosixPath(member).parts[:-1]).lower()
    return next((boxes for boxes in NEW if boxes[:5] in folders), None)


def _extracted(
    names: list[str], lists: dict[str, bytes], params: Params, archive: Path
) -> dict[str, PersonPhoto]:
    """Pictures as toolboxes write them, by the lists of their protocol."""
    by_name = {PurePosixPath(n).name: n for n in names}
    of_protocol = (
        f"cuhk03_new_protocol_config_{params.boxes}.mat"
        if params.protocol == "new"
        else f"splits_classic_{params.boxes}.json"
    )
    if of_protocol not in lists or not by_name:
        raise UserError(
            f"{archive} has no {of_protocol if by_name else 'pictures of ' + params.boxes + ' boxes'}. cuhk-03.mat is not read as"
            f" it is: a toolbox (torchreid) writes its pictures (images_{params.boxes}) and classic splits beside it. Of the new"
            " protocol, CUHK03-NP will do as well (folders bounding_box_train, query and bounding_box_test)."
        )
    try:
        listed = (_new if params.protocol == "new" else _classic)(
            lists[of_protocol], params.split, list(by_name)
        )
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise UserError(f"{archive}: {of_protocol} cannot be read ({error}); fetch it again.") from error
    absent = sorted(set(listed) - set(by_name))
    if absent:
        raise UserError(
            f"{archive} lacks {len(absent)} of the photos that {of_protocol} names, e.g. '{absent[0]}'."
        )
    return {by_name[file]: photo for file, photo in listed.items()}


def _camera(file: str) -> str:
    """The view of ``pair_person_view_number.png``: a person is seen by one pair alone."""
    return file.split("_")[2]


def _new(config: bytes, split: int, files: list[str]) -> dict[str, PersonPhoto]:
    """By the new protocol's configuration, whose places count from 1."""
    from scipy.io import loadmat

    read: dict[str, Any] = loadmat(io.BytesIO(config))
    listed = [str(cell.item()) for cell in read["filelist"].ravel()]
    persons = read["labels"].ravel()
    train, query, gallery = (
        set((read[f"{n}_idx"].ravel() - 1).tolist()) for n in ("train", "query", "gallery")
    )
    return {
        listed[at]: PersonPhoto(
            f"{int(persons[at]):04d}",
            _camera(listed[at]),
            at in train,
            at in train or at in query,
            at in train or at in gallery,
        )
        for at in sorted(train | query | gallery)
    }


def _classic(splits: bytes, split: int, files: list[str]) -> dict[str, PersonPhoto]:
    """By one of the 20 lists of persons to test; all others train."""

    def person(file: str) -> str:
        return "_".join(PurePosixPath(file).name.split("_")[:2])

    tested = {person(str(row[0]).replace("\\", "/")) for row in json.loads(splits)[split]["query"]}
    if len(tested) != TESTED:
        raise ValueError(f"split {split} tests {len(tested)} persons, not {TESTED}")
    return {file: PersonPhoto(person(file), _camera(file), person(file) not in tested) for file in files}
