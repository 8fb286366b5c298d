"""CUB-200-2011: 11,788 photos of 200 bird species (Wah et al. 2011), in its official archive layout.

Splits are by class, as in docs/methods.md, section 1: 0-74 train, 75-99 validation, 100-199 test. A study may restrict itself to
the first classes and split those otherwise; a photo's key in the manifest of corrupted sets stays that of the full dataset. The
dataset's own segmentations come as an archive of theirs, or lie inside that of the photos.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Self

from pydantic import Field, model_validator

from bgbias.datasets._official import ArchiveParams, listed_photos, lists_in, places, read_official, split_of
from bgbias.errors import UserError
from bgbias.files.archives import members
from bgbias.files.fetch import Source
from bgbias.files.pictures import is_hidden
from bgbias.photos.table import Item

TITLE = "CUB200"
KEY = "cub200"
OFFICIAL, SEGMENTATIONS = read_official("cub200").values()
MIRROR = OFFICIAL.model_copy(update={"place": "https://s3.amazonaws.com/fast-ai-imageclas/CUB_200_2011.tgz"})
OFFICIAL_SPLIT = {"train": (0, 75), "val": (75, 100), "test": (100, 200)}
PHOTOS, CLASSES, TEST_PHOTOS = 11_788, 200, 5_924


class Params(ArchiveParams):
    """Where the archives are, and which part of them to use."""

    segmentations: bool = Field(False, description="fetch the archive of true masks, too")
    classes: int = Field(CLASSES, ge=3, le=CLASSES, description="only the first so many classes")
    split: dict[str, tuple[int, int]] = Field(
        OFFICIAL_SPLIT, description="class numbers [from, to) of train, val and test, 0-based"
    )

    @model_validator(mode="after")
    def _disjoint(self) -> Self:
        if set(self.split) != set(OFFICIAL_SPLIT):
            raise ValueError("split needs exactly train, val and test")
        ranges = sorted(self.split.values())
        if any(not 0 <= a < b for a, b in ranges):
            raise ValueError("each split is [from, to) with 0 <= from < to")
        if any(a[1] > b[0] for a, b in pairwise(ranges)) or ranges[-1][1] > self.classes:
            raise ValueError(f"splits must not share classes and must end at class {self.classes}")
        return self


def parts(params: Params) -> dict[str, tuple[Source, ...]]:
    """The photos: the user's file if one is named, else the official archive; and, if wanted, the segmentations."""
    sources = {"photos": params.archive(OFFICIAL, MIRROR, keep=(".txt",))}
    if params.segmentations:
        sources["segmentations"] = (SEGMENTATIONS,)
    return sources


def truth(params: Params) -> str:
    """Masks, if their archive is asked for; boxes come with the photos."""
    return "masks" if params.segmentations else "boxes"


def boxes(params: Params, parts: dict[str, Path]) -> dict[str, tuple[float, float, float, float]]:
    """The bird's box (left, top, width, height), in pixels, of each photo of ``images.txt``; an archive without is an error."""
    listed = _read_list(parts["photos"], "bounding_boxes.txt", 4)
    return {path: (left, top, width, height) for path, (left, top, width, height) in listed.items()}


def expected(params: Params) -> dict[str, int]:
    """Photos of each split before they are counted: classes are of about one size."""
    return {s: round(PHOTOS * (b - a) / CLASSES) for s, (a, b) in params.split.items()}


def items(params: Params, parts: dict[str, Path], name: str) -> Iterator[Item]:
    """The photos of the chosen classes in the archive's order; image ids are the paths of ``images.txt``.

    An archive without the official lists, with other counts than the dataset has (where all classes are asked for), or without
    a photo that its list names, is an error.
    """
    archive = parts["photos"]
    listed = _read_list(archive, "image_class_labels.txt", 1)
    label = {path: int(number) - 1 for path, (number,) in listed.items()}
    truth = _read_masks(archive)
    _check_counts(label, params, archive, name)
    # In the order of images.txt.
    official = places((path, split_of(number, OFFICIAL_SPLIT)) for path, number in label.items())
    paths = {path for path, number in label.items() if number < params.classes}
    if "segmentations" in parts:
        truth |= _read_masks(parts["segmentations"])
        if bare := sorted(path for path in paths if _stem(path) not in truth):
            raise UserError(
                f"{parts['segmentations']} lacks the masks of {len(bare)} photos, e.g. '{bare[0]}'; fetch it again."
            )
    # images.txt names a photo by its path below ``images/``.
    for path, data in listed_photos(archive, lambda m: f"/{m}".split("/images/", 1)[-1].lstrip("/"), paths):
        split, place = official[path]
        yield Item(
            image_id=path,
            class_name=path.split("/")[0].split(".", 1)[-1],
            label=label[path],
            split=split_of(label[path], params.split),
            key_set=f"{KEY}|{split}",
            key_item=str(place),
            data=data,
            truth=truth.get(_stem(path)),
        )


def _read_list(archive: Path, list_name: str, length: int) -> dict[str, list[float]]:
    """The ``length`` numbers that a list has for each path of ``images.txt``, in the order of the latter."""
    paths, listed = (
        [line.split() for line in data.decode().splitlines() if line.strip()]
        for data in lists_in(archive, ("images.txt", list_name), "CUB-200-2011").values()
    )
    try:
        of_number = {number: list(map(float, values)) for number, *values in listed}
        of_path = {path: of_number[number] for number, path in paths}
        if any(len(values) != length for values in of_path.values()):
            raise ValueError(f"a line of the latter has not {length + 1} columns")
        return of_path
    except (KeyError, ValueError) as error:
        raise UserError(
            f"{archive}: images.txt and {list_name} do not fit together ({error}); fetch it again."
        ) from error


def _check_counts(label: dict[str, int], params: Params, archive: Path, name: str) -> None:
    tested = sum(number >= OFFICIAL_SPLIT["test"][0] for number in label.values())
    counts = len(label), len(set(label.values())), tested
    if params.classes == CLASSES and counts != (PHOTOS, CLASSES, TEST_PHOTOS):
        raise UserError(
            f"{archive} lists {counts[0]} photos of {counts[1]} classes, not {PHOTOS} of {CLASSES}; {tested} are of"
            f" the classes 101-200, not {TEST_PHOTOS}."
        )
    if absent := sorted(set(range(params.classes)) - set(label.values())):
        raise UserError(
            f"{archive} lists no photo of class {absent[0] + 1}, and {params.classes} classes were asked for;"
            f" set datasets.{name}.options.classes in params.yaml to what the archive holds."
        )


def _read_masks(archive: Path) -> dict[str, bytes]:
    """The masks in an archive, by class folder and name without ending, which a photo and its mask have in common."""

    def is_mask(member: str) -> bool:
        path = PurePosixPath(member)
        return "segmentations" in path.parts and path.suffix == ".png" and not is_hidden(path.name)

    return {_stem(member): data for member, data in members(archive, is_mask)}


def _stem(member: str) -> str:
    path = PurePosixPath(member)
    return f"{path.parent.name}/{path.stem}"
