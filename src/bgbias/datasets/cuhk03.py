"""CUHK03: 1,467 persons, each by two cameras, in boxes of a detector or by hand (Li et al., CVPR 2014).

Protocol ``new`` (Zhong et al., CVPR 2017): 767 persons train, 700 test, queries and gallery are given. Protocol ``classic``: 20
splits with 100 persons to test, each photo of theirs a query, and a gallery with one photo of each (docs/methods.md,
section 15).

The release is one file of MATLAB's, ``cuhk-03.mat``, with the classic splits; the new protocol is a list beside it,
``cuhk03_new_protocol_config_detected.mat``. They are read as they come, and so is what toolboxes make of the release: pictures
``pair_person_view_number.png`` in ``images_detected`` and ``images_labeled``, with that list or ``splits_classic_detected.json``.
CUHK03-NP is the new protocol's photos in folders like those of Market-1501.
"""

import io
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np
from pydantic import Field

from bgbias.datasets import market1501
from bgbias.datasets._official import names_in, read_official
from bgbias.datasets.market1501 import PersonPhoto
from bgbias.errors import UserError
from bgbias.files.archives import members
from bgbias.files.fetch import Source
from bgbias.files.pictures import is_picture
from bgbias.images import pixels
from bgbias.photos.table import Item

TITLE = "CUHK03"
KEY = "cuhk03"
# Photos to train, queries, and photos in the gallery.
NEW = {"detected": (7_365, 1_400, 5_332), "labeled": (7_368, 1_400, 5_328)}
TRAINING_PERSONS = {"new": 767, "classic": 1_367}
TESTED, SPLITS = 100, 20
RELEASE = "cuhk-03.mat"
LIST = {"new": "cuhk03_new_protocol_config_{}.mat", "classic": "splits_classic_{}.json"}  # of which boxes
LISTS_AT = "https://raw.githubusercontent.com/zhunzhong07/person-re-ranking/master/evaluation/data/CUHK03"
NAME = re.compile(r"(\d_\d{3})_(\d)_\d{2}\.png")
PERSON = "{}_{:03d}"
# What a file raises that is not of the form that is read.
UNREADABLE = (KeyError, ValueError, IndexError, TypeError, NotImplementedError)
HDF5 = b"\x89HDF\r\n\x1a\n"
OF_FIRST_CAMERA = 5  # the release has up to ten photos of a person: these, then the second camera's
PHOTO_BYTES = 20_000  # about: 60 x 160 pixels, PNG


class Params(market1501.Params):
    """Where the photos are, by which boxes and protocol, and how many of the training persons validate."""

    boxes: Literal["detected", "labeled"] = Field("detected", description="a detector's, or drawn by hand")
    protocol: Literal["new", "classic"] = Field("new", description="767 and 700 persons, or 20 splits")
    split: int = Field(0, ge=0, lt=SPLITS, description="which of the classic protocol's")


def parts(params: Params) -> dict[str, tuple[Source, ...]]:
    """The user's folder or archive, or the release, which nobody else publishes, with the new protocol's list."""
    release = read_official(KEY)[RELEASE].model_copy(update={"sha256": params.sha256})
    photos = params.archive(release, keep=(".json", ".mat"))
    names_release = not params.source or urlsplit(params.source).path.lower().endswith(".mat")
    if params.protocol == "classic" or not names_release:
        return {"photos": photos}
    file = LIST["new"].format(params.boxes)
    list_file = Source(place=re.sub(r"[^/:]+$", file, params.source)) if params.source else None
    published = Source(place=f"{LISTS_AT}/{file}", file=file)
    return {"photos": photos, "protocol": (list_file, published) if list_file else (published,)}


def given(params: Params) -> bool:
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
    archive, protocol = parts["photos"], parts.get("protocol")
    if protocol is not None or _is_release(archive):
        with _released(archive, params) as (boxes, tested, read):
            if params.protocol == "classic":
                photos = _by_persons(tested, boxes)
            elif protocol is None:
                raise UserError(
                    f"{name}: the new protocol's list is not beside {params.source}: rename that file to {RELEASE}, and write so"
                    f" under datasets.{name}.options.source in params.yaml."
                )
            else:
                photos = _find_listed(_by_list(protocol.read_bytes(), protocol), boxes, archive)
                market1501.check_counts(photos, NEW[params.boxes], archive)
            pictures = ((n, pixels.encode_png(read(n))) for n in boxes if n in photos)
            yield from market1501.items_of(pictures, photos, params, KEY, name)
        return
    names = [n for n in names_in(archive, is_picture) if _of_boxes(n) in (params.boxes, None)]
    photos = market1501.in_folders(names, archive) if params.protocol == "new" else {}
    if not photos:
        photos = _extracted(names, params, archive)
    if params.protocol == "new":
        market1501.check_counts(photos, NEW[params.boxes], archive)
    yield from market1501.items_of(members(archive, photos.__contains__), photos, params, KEY, name)


def _is_release(path: Path) -> bool:
    """Whether a file is HDF5, before which MATLAB writes 512 bytes of its own."""
    if path.is_dir():
        return False
    with path.open("rb") as file:
        begin = file.read(512 + len(HDF5))
    return begin.startswith(HDF5) or (begin.startswith(b"MATLAB") and begin.endswith(HDF5))


@contextmanager
def _released(
    archive: Path, params: Params
) -> Iterator[tuple[list[str], set[str], Callable[[str], np.ndarray]]]:
    """The names that toolboxes give the photos of cuhk-03.mat, the persons of the split, and what reads a photo.

    MATLAB keeps a matrix with its axes in reverse order, cells as references, and an empty cell as a list of its two sizes.
    """
    import h5py

    with ExitStack() as stack:
        try:
            file = stack.enter_context(h5py.File(archive))
            boxes: dict[str, h5py.Reference] = {}
            for pair, persons in enumerate(file[params.boxes][()].ravel(), 1):
                for person, photos in enumerate(file[persons][()].T, 1):
                    for number, photo in enumerate(photos, 1):
                        if file[photo].ndim == 3:
                            view = 1 if number <= OF_FIRST_CAMERA else 2
                            png = f"{PERSON.format(pair, person)}_{view}_{number:02d}.png"
                            boxes[f"images_{params.boxes}/{png}"] = photo
            tested = file[file["testsets"][()].ravel()[params.split]][()].T.astype(int).tolist()
            persons_to_test = {PERSON.format(*person) for person in tested}
        except (OSError, AttributeError, *UNREADABLE) as error:
            raise UserError(
                f"{archive} is not the {RELEASE} that its authors give, or not all of it ({error}); get it again."
            ) from error

        def read(name: str) -> np.ndarray:
            try:
                picture = file[boxes[name]][()].T
                if picture.dtype != np.uint8 or picture.shape[2:] != (3,):
                    raise ValueError(f"{picture.dtype} of {picture.shape} is no picture")
                return np.ascontiguousarray(picture)
            except (OSError, ValueError) as error:
                raise UserError(
                    f"{archive}: {name} cannot be read ({error}); get {RELEASE} again."
                ) from error

        yield list(boxes), persons_to_test, read


def _of_boxes(member: str) -> str | None:
    folders = "/".join(PurePosixPath(member).parts[:-1]).lower()
    return next((boxes for boxes in NEW if boxes[:5] in folders), None)


def _extracted(names: list[str], params: Params, archive: Path) -> dict[str, PersonPhoto]:
    """Pictures as toolboxes write them, by the list of their protocol beside them."""
    list_name = LIST[params.protocol].format(params.boxes)
    listed = next((data for _, data in members(archive, lambda n: PurePosixPath(n).name == list_name)), None)
    if listed is None or not names:
        raise UserError(
            f"{archive} has no {list_name if names else 'pictures of ' + params.boxes + ' boxes'}. It is to hold what a"
            f" toolbox (torchreid) makes of {RELEASE}, images_{params.boxes} and the protocol's list, or, for the new protocol,"
            f" CUHK03-NP's folders (bounding_box_train, query and bounding_box_test). {RELEASE} itself is read, too, if source"
            " names the file."
        )
    if params.protocol == "new":
        return _find_listed(_by_list(listed, archive), names, archive)
    return _by_persons(_in_split(listed, params.split, archive), names)


def _find_listed(
    by_file: dict[str, PersonPhoto], names: Iterable[str], archive: Path
) -> dict[str, PersonPhoto]:
    """The photos that a list names, by their own names; one that is not there is an error."""
    member_of = {PurePosixPath(n).name: n for n in names}
    if absent := sorted(by_file.keys() - member_of.keys()):
        raise UserError(
            f"{archive} lacks {len(absent)} of the photos that its list names, e.g. '{absent[0]}'."
        )
    return {member_of[file]: photo for file, photo in by_file.items()}


def _person_and_camera(name: str) -> tuple[str, str]:
    """Person and view of ``pair_person_view_number.png``; ValueError if named otherwise."""
    match = NAME.fullmatch(PurePosixPath(name).name)
    if match is None:
        raise ValueError(f"'{name}' is not named pair_person_view_number.png, like 1_001_1_01.png")
    return match[1], match[2]


def _by_list(config: bytes, path: Path) -> dict[str, PersonPhoto]:
    """By the new protocol's configuration, whose places count from 1."""
    from scipy.io.matlab import MatReadError, loadmat

    try:
        read: dict[str, Any] = loadmat(io.BytesIO(config))
        listed = [str(cell.item()) for cell in read["filelist"].ravel()]
        persons = read["labels"].ravel()
        train, query, gallery = (
            set((read[f"{n}_idx"].ravel() - 1).tolist()) for n in ("train", "query", "gallery")
        )
        return {
            listed[at]: PersonPhoto(
                f"{int(persons[at]):04d}",
                _person_and_camera(listed[at])[1],
                at in train,
                at in train or at in query,
                at in train or at in gallery,
            )
            for at in sorted(train | query | gallery)
        }
    except (MatReadError, zlib.error, OSError, *UNREADABLE) as error:
        raise UserError(f"{path}: the new protocol's list cannot be read ({error}); get it again.") from error


def _in_split(splits: bytes, split: int, archive: Path) -> set[str]:
    """The persons of one of the 20 lists as toolboxes write them."""
    try:
        rows = json.loads(splits)[split]["query"]
        return {_person_and_camera(str(row[0]).replace("\\", "/"))[0] for row in rows}
    except UNREADABLE as error:
        raise UserError(f"{archive}: its splits cannot be read ({error}); make them again.") from error


def _by_persons(tested: set[str], names: Iterable[str]) -> dict[str, PersonPhoto]:
    """By the persons to test; all others train."""
    if len(tested) != TESTED:
        raise UserError(f"CUHK03: a split tests {len(tested)} persons, not {TESTED}; get its list again.")
    try:
        photos = {name: _person_and_camera(name) for name in names}
    except ValueError as error:
        raise UserError(f"CUHK03: {error}; take it away from the photos.") from error
    return {
        name: PersonPhoto(person, camera, person not in tested) for name, (person, camera) in photos.items()
    }
