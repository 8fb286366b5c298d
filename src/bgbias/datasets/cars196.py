"""Cars196: 16,185 photos of 196 car models (Krause et al. 2013), in every layout that is in circulation.

Splits are by class, as in docs/methods.md, section 1: 0-73 train, 74-97 validation, 98-195 test; the official train and test
photos, which are split within classes, play no part. Three layouts tell a photo's class:

* ``car_ims/`` with ``cars_annos.mat``: all photos under one numbering (``CARS196.zip`` holds both, too);
* ``cars_train/`` and ``cars_test/`` with ``cars_train_annos.mat`` (in the devkit) and ``cars_test_annos_withlabels.mat``;
* one folder a class, called by the class's name, as re-uploads have it.

They number photos differently, and nothing maps one numbering to another. What they have in common is the class and the
picture file itself; so a photo's id is its class and the beginning of its file's SHA-256, and its place in the full split
counts photos in the order of these ids. A study has the same ids, and the same backgrounds, from whatever layout it was fed,
as long as a re-upload did not encode the pictures again.
"""

import hashlib
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import Field

from bgbias.datasets._official import places, read_official, split_of
from bgbias.errors import UserError
from bgbias.files.archives import members
from bgbias.files.fetch import Source
from bgbias.files.pictures import is_picture
from bgbias.photos.table import Item
from bgbias.progress import say
from bgbias.settings import Strict

TITLE = "Cars196"
KEY = "cars196"
SPLIT = {"train": (0, 74), "val": (74, 98), "test": (98, 196)}
PHOTOS, CLASSES, TEST_PHOTOS = 16_185, 196, 8_131
# In the order of their official numbers (cars_meta.mat), which is not that of the alphabet: class folders tell nothing else.
NAMES = tuple(Path(__file__).with_name("cars196_classes.txt").read_text(encoding="utf-8").splitlines())

# The files of each archive that one can ask for, by what they hold.
PARTS = {
    "car_ims.tgz": {"photos": "car_ims.tgz", "annotations": "cars_annos.mat"},
    "cars_train.tgz": {
        "train": "cars_train.tgz",
        "test": "cars_test.tgz",
        "devkit": "car_devkit.tgz",
        "test_labels": "cars_test_annos_withlabels.mat",
    },
    "CARS196.zip": {"photos": "CARS196.zip"},
}
OFFICIAL = read_official("cars196")
MATLAB = b"MATLAB 5.0 MAT-file"
JOINT, TRAIN, TEST = "cars_annos.mat", "cars_train_annos.mat", "cars_test_annos_withlabels.mat"

Photo = tuple[str, str]  # part, member


class Params(Strict):
    """Which of the official files to use, or the user's own archive in any layout."""

    files: Literal["CARS196.zip", "car_ims.tgz", "cars_train.tgz"] = Field(
        "CARS196.zip",
        description="the archive to get; car_ims.tgz goes with cars_annos.mat, cars_train.tgz with cars_test.tgz, the devkit and"
        " cars_test_annos_withlabels.mat",
    )
    source: str | None = Field(None, description="own photos and annotations, or class folders")
    sha256: str | None = Field(None, description="of `source`")
    annotations: str | None = Field(None, description="the .mat file that `source` lacks")


def parts(params: Params) -> dict[str, tuple[Source, ...]]:
    """The user's files if he names some, else the official ones."""
    if params.source is None:
        return {part: (OFFICIAL[file],) for part, file in PARTS[params.files].items()}
    sources: dict[str, tuple[Source, ...]] = {
        "photos": (Source(place=params.source, sha256=params.sha256, keep=(".mat",)),)
    }
    if params.annotations:
        sources["annotations"] = (Source(place=params.annotations),)
    return sources


def expected(params: Params) -> dict[str, int]:
    """Photos of each split before they are counted: of training and validation about, by their classes."""
    (_, a), (_, b) = SPLIT["train"], SPLIT["val"]
    train = round((PHOTOS - TEST_PHOTOS) * a / b)
    return {"train": train, "val": PHOTOS - TEST_PHOTOS - train, "test": TEST_PHOTOS}


def items(params: Params, parts: dict[str, Path], name: str) -> Iterator[Item]:
    """All photos in the archives' order. Unknown layouts, annotations without photos and counts of another dataset are errors."""
    annotations = _plain_file(params.annotations) if params.annotations else ""
    digests, mats = _contents(parts, annotations if annotations in (TRAIN, TEST) else JOINT)
    layout, label = _labels(digests, mats, name)
    counts = len(label), len(set(label.values())), sum(n >= SPLIT["test"][0] for n in label.values())
    if counts != (PHOTOS, CLASSES, TEST_PHOTOS):
        raise UserError(
            f"{name}: {counts[0]} photos of {counts[1]} classes, {counts[2]} of them in classes 99-196; Cars196 has {PHOTOS},"
            f" {CLASSES} and {TEST_PHOTOS}. The archive is incomplete or another dataset ({layout})."
        )
    say(f"{name}: {layout}")
    ids = _ids(label, digests)
    place_of = places((photo, split_of(label[photo], SPLIT)) for photo in sorted(label, key=ids.__getitem__))
    for part, path in parts.items():
        if _is_mat(path):
            continue
        for member, data in members(path, lambda n, part=part: (part, n) in label):  # type: ignore[misc]
            photo = part, member
            split, place = place_of[photo]
            yield Item(
                image_id=ids[photo],
                class_name=NAMES[label[photo]],
                label=label[photo],
                split=split,
                key_set=f"{KEY}|{split}",
                key_item=str(place),
                data=data,
            )


def _contents(parts: dict[str, Path], annotations: str) -> tuple[dict[Photo, str], dict[str, bytes]]:
    """The SHA-256 of every picture, and the annotation files by their official names; ``annotations``: the user's."""
    digests: dict[Photo, str] = {}
    mats: dict[str, bytes] = {}
    for part, path in parts.items():
        if _is_mat(path):
            mats[TEST if part == "test_labels" else annotations] = path.read_bytes()
            continue
        for member, data in members(path, lambda n: is_picture(n) or n.endswith(".mat")):
            if member.endswith(".mat"):
                mats[_plain_file(member)] = data
            else:
                digests[part, member] = hashlib.sha256(data).hexdigest()
    return digests, mats


def _labels(digests: dict[Photo, str], mats: dict[str, bytes], name: str) -> tuple[str, dict[Photo, int]]:
    """The layout in words, and every photo's class, counted from 0."""
    by_place = {"/".join(PurePosixPath(member).parts[-2:]): (part, member) for part, member in digests}
    folders = {place.split("/")[0] for place in by_place}
    if JOINT in mats and "car_ims" in folders:
        layout, annotations = f"layout car_ims with {JOINT}", JOINT
        listed = _annotated(mats[JOINT], JOINT, "relative_im_path", "")
    elif {"cars_train", "cars_test"} <= folders and TRAIN in mats:
        if TEST not in mats:
            raise UserError(
                f"{name}: {TEST} is missing (md5 {OFFICIAL[TEST].md5}); without it nobody knows the"
                " classes of cars_test, for the devkit's cars_test_annos.mat has none. Put it beside the photos."
            )
        layout, annotations = f"layout cars_train and cars_test with {TRAIN} and {TEST}", "the devkit"
        listed = _annotated(mats[TRAIN], TRAIN, "fname", "cars_train/")
        listed |= _annotated(mats[TEST], TEST, "fname", "cars_test/")
    else:
        return "layout of class folders", _by_folders(digests, mats, name)
    if absent := [place for place in listed if place not in by_place]:
        raise UserError(
            f"{name}: {len(absent)} photos that {annotations} lists are missing, e.g. '{absent[0]}'; the archive is incomplete."
            f" Delete it and run: python -m bgbias fetch {name}"
        )
    return layout, {by_place[place]: number for place, number in listed.items()}


def _by_folders(digests: dict[Photo, str], mats: dict[str, bytes], name: str) -> dict[Photo, int]:
    number_of = {_plain(n): number for number, n in enumerate(NAMES)}
    label = {p: number_of.get(_plain(PurePosixPath(p[1]).parent.name)) for p in digests}
    if label_by_folder := {p: number for p, number in label.items() if number is not None}:
        if strange := next((p[1] for p in label if p not in label_by_folder), None):
            raise UserError(
                f"{name}: '{strange}' lies in a folder that is no class of Cars196; remove it, or name the folder as in"
                " cars_meta.mat, e.g. 'Acura RL Sedan 2012'."
            )
        return label_by_folder
    folders = sorted({PurePosixPath(member).parent.name for _, member in digests})
    raise UserError(
        f"{name}: {len(digests)} photos in {', '.join(folders[:3]) or 'no folder'}, annotations:"
        f" {', '.join(sorted(mats)) or 'none'}. Cars196 is read as car_ims with {JOINT}"
        f" (datasets.{name}.options.annotations), as cars_train and cars_test with {TRAIN} and {TEST}, or as class folders."
    )


def _annotated(data: bytes, file: str, field: str, folder: str) -> dict[str, int]:
    """Place (folder/file) and class, counted from 0, of each photo that an annotation file lists."""
    from scipy.io.matlab import MatReadError, loadmat

    damaged = (ValueError, TypeError, LookupError, NotImplementedError, OSError, zlib.error, MatReadError)
    try:
        rows: Any = loadmat(io.BytesIO(data), squeeze_me=True)["annotations"]
        listed = {f"{folder}{place}": int(c) - 1 for place, c in zip(rows[field], rows["class"], strict=True)}
    except damaged as error:
        raise UserError(f"{file} is not what Cars196 came with ({error}); get it again.") from error
    if wrong := next((p for p, number in listed.items() if not 0 <= number < CLASSES), None):
        raise UserError(f"{file}: '{wrong}' has class {listed[wrong] + 1}; classes are 1 to {CLASSES}.")
    return listed


def _ids(label: dict[Photo, int], digests: dict[Photo, str]) -> dict[Photo, str]:
    """``006.Acura Integra Type R 2001/1f3870be274f6c49.jpg``; byte-equal photos of a class are told apart by a number."""
    seen: Counter[str] = Counter()
    ids = {}
    for photo, number in label.items():
        stem = f"{number + 1:03d}.{NAMES[number].replace('/', '-')}/{digests[photo][:16]}"
        seen[stem] += 1
        ids[photo] = stem + (f"_{seen[stem]}" if seen[stem] > 1 else "") + ".jpg"
    return ids


def _plain(name: str) -> str:
    """A class name without what folders cannot hold or people change: ``Ram C/V Cargo Van`` is ``ram c v cargo van``."""
    return " ".join(re.sub(r"[/_:-]", " ", name.casefold()).split())


def _plain_file(place: str) -> str:
    """A file's name without the numbers that browsers and re-uploads add: ``cars_test_annos_withlabels (1).mat``."""
    return re.sub(r" ?\(\d+\)", "", PurePosixPath(place).name)


def _is_mat(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MATLAB)) == MATLAB
