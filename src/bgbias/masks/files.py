"""Masks of photos in files that others made: which file, or which outlines, belong to which photo.

Pictures are found by the photo's path: ``birds/7.jpg`` has the mask ``birds/7.png`` or ``birds/7_mask.png``. COCO's format
(cocodataset.org/#format-data) names photos by ``file_name``; the objects of a photo are united into one mask.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bgbias import progress
from bgbias.errors import UserError
from bgbias.files.archives import Lookup
from bgbias.files.pictures import compose, is_picture, stem, unique
from bgbias.images import drawn_masks
from bgbias.masks import outlines

SUFFIX = "_mask"
Given = Callable[[str], NDArray[np.uint8] | None]


def from_pictures(place: Path, ids: Sequence[str]) -> Given:
    """Masks of a folder, or of a zip or tar of one. Two masks or two photos of one name are errors that name both."""
    if not place.exists():
        raise UserError(f"There are no masks at {place}; correct the masker's options in params.yaml.")
    files = Lookup(place, is_picture)
    mask_of = unique(sorted(files.names), lambda n: stem(n).removesuffix(SUFFIX), f"{place}: the masks")
    photo_of = unique((i for i in ids if stem(i) in mask_of), stem, "The photos")
    unclaimed = mask_of.keys() - photo_of.keys()
    if len(unclaimed) == len(mask_of):
        example = f"the mask of '{ids[0]}' would be '{stem(ids[0])}.png'"
        there = f"there is '{min(mask_of.values())}'" if mask_of else "there are no pictures"
        raise UserError(f"{place} has no mask for any photo: {example}, but {there}; rename the masks.")
    if unclaimed:
        progress.say(f"{place}: {len(unclaimed)} masks of no photo here, e.g. {mask_of[min(unclaimed)]}")

    def given(image_id: str) -> NDArray[np.uint8] | None:
        name = mask_of.get(stem(image_id))
        return None if name is None else drawn_masks.decode_mask(files.read(name), f"{place}: {name}")

    return given


def from_coco(path: Path, ids: Sequence[str]) -> Given:
    """Masks of a COCO-style JSON: polygons, run lengths as lists and compressed run lengths.

    ``file_name`` is the photo's id, or the end of it; one that ends several ids, and two entries for one photo, are errors, as
    are outlines that cannot be so (``masks.outlines``). A photo without outlines has no mask.
    """
    described = _coco(path)
    entry_of: dict[str, dict[str, Any]] = {}
    ends = _ends(ids)
    for entry in described["images"]:
        fitting = ends.get(compose(str(entry["file_name"])).removeprefix("./"), [])
        if len(fitting) > 1:
            raise UserError(
                f"{path}: file_name '{entry['file_name']}' fits the photos '{fitting[0]}' and '{fitting[1]}';"
                " write more of the path into file_name."
            )
        if fitting and entry_of.setdefault(fitting[0], entry) is not entry:
            raise UserError(
                f"{path} lists the photo '{fitting[0]}' twice, as images {entry_of[fitting[0]]['id']} and {entry['id']};"
                " unite or remove one of them."
            )
    if not entry_of:
        names = [str(e["file_name"]) for e in described["images"]]
        raise UserError(
            f"{path} has no mask for any photo: photos are named like '{ids[0]}',"
            f" the file's like '{names[0] if names else '(no images)'}'; correct file_name."
        )
    drawn = defaultdict(list)
    for number, annotation in enumerate(described["annotations"]):
        if annotation["segmentation"]:
            name = annotation.get("id", f"number {number}")
            drawn[annotation["image_id"]].append((name, annotation["segmentation"]))

    def given(image_id: str) -> NDArray[np.uint8] | None:
        entry = entry_of.get(image_id)
        if entry is None or not drawn[entry["id"]]:
            return None
        height, width = entry["height"], entry["width"]
        mask = np.zeros((height, width), bool)
        for name, outline in drawn[entry["id"]]:
            mask |= outlines.mask_of(outline, height, width, f"{path}: '{image_id}', annotation {name},")
        return mask * np.uint8(255)

    return given


def _coco(path: Path) -> dict[str, list[dict[str, Any]]]:
    if not path.is_file():
        raise UserError(f"There is no file {path}; correct the masker's option `coco` in params.yaml.")
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON ({error}); export it again.") from error
    needed = {"images": ("id", "file_name", "height", "width"), "annotations": ("image_id", "segmentation")}
    for part, keys in needed.items():
        rows = described.get(part) if isinstance(described, dict) else None
        if not isinstance(rows, list):
            raise UserError(f"{path} has no list '{part}'; export the annotations in COCO's format.")
        for number, row in enumerate(rows):
            missing = [key for key in keys if not isinstance(row, dict) or key not in row]
            if missing:
                raise UserError(f"{path}: {part}[{number}] has no '{missing[0]}'; export it again.")
            sides = [row[key] for key in ("height", "width") if key in keys]
            if not all(isinstance(side, int) and side > 0 for side in sides):
                raise UserError(
                    f"{path}: {part}[{number}] is of {sides} pixels (height, width); export it again."
                )
    numbers = Counter(row["id"] for row in described["images"])
    if numbers and max(numbers.values()) > 1:
        twice = numbers.most_common(1)[0][0]
        raise UserError(f"{path}: two images have the id {twice}, and would share masks; number them anew.")
    return dict(described)


def _ends(ids: Sequence[str]) -> dict[str, list[str]]:
    """Every id by each of its ends at a folder's border: itself, without its first folder, ..., the bare name."""
    ids_by_end: dict[str, list[str]] = defaultdict(list)
    for image_id in ids:
        parts = PurePosixPath(image_id).parts
        for start in range(len(parts)):
            ids_by_end["/".join(parts[start:])].append(image_id)
    # The whole id is meant even where it is also another one's end.
    return {end: [end] if end in fitting else fitting for end, fitting in ids_by_end.items()}
