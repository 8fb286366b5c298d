"""Market-1501: 32,217 boxes of 1,501 persons by six cameras, and distractors (Zheng et al., ICCV 2015), in its official layout.

Queries and gallery are given; a match by the query's own camera is no match (docs/methods.md, section 15).
"""

from collections.abc import Iterator
from pathlib import Path

from bgbias.datasets import _persons
from bgbias.datasets._official import names_in, read_official
from bgbias.datasets._persons import PersonParams
from bgbias.errors import UserError
from bgbias.files.archives import members
from bgbias.files.fetch import Source
from bgbias.files.pictures import is_picture
from bgbias.photos.table import Item

Params = PersonParams
TITLE = "Market-1501"
KEY = "market1501"
(OFFICIAL,) = read_official("market1501").values()
TRAIN, QUERIES, GALLERY = 12_936, 3_368, 15_913
TRAINING_PERSONS = 751
PHOTO_BYTES = 2_000  # about: 64 x 128 pixels


def parts(params: Params) -> dict[str, tuple[Source, ...]]:
    return {"photos": params.archive(OFFICIAL)}


def given(params: Params) -> bool:
    return True


def expected(params: Params) -> dict[str, int]:
    """Photos of each split before they are counted: persons are of about as many."""
    val = round(TRAIN * params.val_persons / TRAINING_PERSONS)
    return {"train": TRAIN - val, "val": val, "test": QUERIES + GALLERY}


def items(params: Params, parts: dict[str, Path], name: str) -> Iterator[Item]:
    """The photos without junk, in the archive's order. Other folders or counts than the dataset has are errors."""
    archive = parts["photos"]
    photos = _persons.in_folders(names_in(archive, is_picture), archive)
    if not photos:
        raise UserError(f"{archive} has no {_persons.FOLDERS[0]}: it is not in the layout of Market-1501.")
    photos = {
        file: p._replace(query=p.query and p.person != _persons.DISTRACTOR) for file, p in photos.items()
    }
    _persons.check_counts(photos, (TRAIN, QUERIES, GALLERY), archive)
    yield from _persons.items_of(members(archive, photos.__contains__), photos, params, KEY, name)
