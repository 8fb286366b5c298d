"""COCO's format (cocodataset.org/#format-data): photos by ``file_name``, the objects in each with their class and outline.

Outlines are polygons, run lengths, or compressed run lengths. Coordinates are pixels of the photo, x before y; runs go down its
columns, from the left. What cannot be so is refused, as a mask that lies elsewhere shows in no table.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bgbias.errors import UserError
from bgbias.files.archives import Lookup
from bgbias.files.pictures import compose, is_readable
from bgbias.images import pixels
from bgbias.photos.listing import Listing, SourcePhoto, no_mask, title

Coco = dict[str, list[dict[str, Any]]]
PARTS = ("images", "annotations")
SLACK = 0.02  # of the photo's longer side: as far may a polygon reach beyond the photo, where it is cut off
BY_ROWS = 2  # as many times fewer edges, if runs are read along rows, and they were written so
WITHOUT = "no object is drawn in it: draw one, or remove the photo"


def in_coco(files: Lookup, member: str, name: str | None = None) -> Listing:
    """The photos below the folder, or in the archive, that a COCO file of it names.

    A photo's class is the category of its largest object, whose outline is its true mask, where it has
    one. Photos without an object, and those that the file does not name, are left out.
    """
    path = f"{files.path}/{member}"
    described = parse(files.read(member), path)
    pictures = [n for n in files.names if is_readable(n)]
    entry_of = entries(path, described, pictures)
    categories = {c.get("id"): str(c.get("name", "")) for c in described.get("categories", [])}
    objects: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for annotation in described["annotations"]:
        if not annotation.get("iscrowd"):
            objects[annotation["image_id"]].append(annotation)
    photos, several = [], 0
    for image_id, entry in entry_of.items():
        if drawn := objects[entry["id"]]:
            largest = max(drawn, key=_measure_area)
            several += len(drawn) > 1
            where = f"{path}: '{image_id}', annotation {largest.get('id', '')},"
            truth = partial(_encode_mask, largest, entry, where) if largest.get("segmentation") else no_mask
            kind = categories.get(largest.get("category_id"), "")
            photos.append(SourcePhoto(image_id, partial(files.read, image_id), truth, kind))
    if not photos:
        raise UserError(f"{path} draws no object in any of its {len(entry_of)} photos; export it again.")
    ids = {photo.image_id for photo in photos}
    left_out = {n: WITHOUT if n in entry_of else f"not named by {member}" for n in pictures if n not in ids}
    remarks = [f"photos, classes and masks are those of {member}"]
    if several:
        remarks.append(f"{several} photos show several objects: the largest is the one that counts")
    why = "" if any(photo.class_name for photo in photos) else f"{member} names no categories"
    listing = Listing.from_photos(name or title(files.path), photos, why)
    return replace(listing, left_out=left_out, remarks=(*listing.remarks, *remarks))


def mask_of(annotation: dict[str, Any], entry: dict[str, Any], where: str) -> NDArray[np.bool_]:
    """The object of an annotation of this image, bool [H, W]; an outline that cannot be so is an error."""
    outline = annotation["segmentation"]
    decode = _fill_runs if isinstance(outline, dict) else _fill_polygons
    return decode(outline, entry["height"], entry["width"], where)


def _encode_mask(annotation: dict[str, Any], entry: dict[str, Any], where: str) -> bytes:
    return pixels.encode_png(mask_of(annotation, entry, where) * np.uint8(255))


def _measure_area(annotation: dict[str, Any]) -> float:
    """In pixels; that of the box where the object's is not given."""
    *_, width, height = annotation.get("bbox") or (0, 0)
    return float(annotation.get("area") or width * height)


def parse(data: bytes, path: Path | str, keys: tuple[str, ...] = ("image_id",)) -> Coco:
    """The lists of ``images`` and ``annotations``, checked to have what is needed; ``keys``: of each annotation."""
    try:
        described = json.loads(data)
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON ({error}); export it again.") from error
    needed = {"images": ("id", "file_name", "height", "width"), "annotations": keys}
    for part, needed_keys in needed.items():
        rows = described.get(part) if isinstance(described, dict) else None
        if not isinstance(rows, list):
            raise UserError(f"{path} has no list '{part}'; export the annotations in COCO's format.")
        for number, row in enumerate(rows):
            if missing := [key for key in needed_keys if not isinstance(row, dict) or key not in row]:
                raise UserError(f"{path}: {part}[{number}] has no '{missing[0]}'; export it again.")
            sides = [row[key] for key in ("height", "width") if key in needed_keys]
            if not all(isinstance(side, int) and side > 0 for side in sides):
                raise UserError(
                    f"{path}: {part}[{number}] is of {sides} pixels (height, width); export it again."
                )
    numbers = Counter(row["id"] for row in described["images"])
    if numbers and max(numbers.values()) > 1:
        twice = numbers.most_common(1)[0][0]
        raise UserError(f"{path}: two images have the id {twice}, and would share masks; number them anew.")
    return dict(described)


def entries(path: Path | str, described: Coco, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The image of each photo that is described, by the photo's id.

    ``file_name`` is the id, or the end of it; one that ends several ids, two entries for one photo, and a file that names none of
    the photos are errors.
    """
    entry_of: dict[str, dict[str, Any]] = {}
    ends = _index_ends(ids)
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
            f"{path} describes no photo that is here: photos are named like '{ids[0]}',"
            f" the file's like '{names[0] if names else '(no images)'}'; correct file_name."
        )
    return entry_of


def _index_ends(ids: Sequence[str]) -> dict[str, list[str]]:
    """Every id by each of its ends at a folder's border: itself, without its first folder, ..., the bare name."""
    ids_by_end: dict[str, list[str]] = defaultdict(list)
    for image_id in ids:
        parts = PurePosixPath(image_id).parts
        for start in range(len(parts)):
            ids_by_end["/".join(parts[start:])].append(image_id)
    # The whole id is meant even where it is also another one's end.
    return {end: [end] if end in fitting else fitting for end, fitting in ids_by_end.items()}


def _fill_polygons(outline: Any, height: int, width: int, where: str) -> NDArray[np.bool_]:
    from pycocotools import mask as coco

    try:
        polygons = [np.array(numbers, float) for numbers in outline]
    except (TypeError, ValueError) as error:
        raise UserError(f"{where} cannot be read ({error}); export it again.") from error
    if not all(p.ndim == 1 and len(p) >= 6 and len(p) % 2 == 0 and np.isfinite(p).all() for p in polygons):
        raise UserError(
            f"{where} cannot be read: a polygon is one list of three points or more, [x, y, x, y, x, y]; export it again."
        )
    points = np.concatenate(polygons).reshape(-1, 2)
    if points.min() >= -SLACK and points.max() <= 1 + SLACK:
        raise UserError(
            f"{where} has coordinates of 0 to 1, as shares of the photo; COCO's are pixels. Multiply x by the photo's width and"
            " y by its height."
        )
    slack = max(1, SLACK * max(height, width))
    if (points < -slack).any() or (points > np.array([width, height]) + slack).any():
        (left, top), (right, bottom) = points.min(0), points.max(0)
        raise UserError(
            f"{where} reaches from ({left:g}, {top:g}) to ({right:g}, {bottom:g}), and the photo is {width}x{height} pixels."
            " Was it drawn at another size, or in another order than x, y? Export it for this size."
        )
    parts = coco.frPyObjects([p.tolist() for p in polygons], height, width)
    return coco.decode(coco.merge(parts)).astype(bool)  # type: ignore[no-any-return]


def _fill_runs(outline: dict[str, Any], height: int, width: int, where: str) -> NDArray[np.bool_]:
    size, runs = outline.get("size"), outline.get("counts")
    if size != [height, width]:
        turned = " It is [height, width] in COCO's format." if size == [width, height] else ""
        raise UserError(
            f"{where} has the size {size}, and the photo is {width}x{height} pixels.{turned} Export it again."
        )
    try:
        counts = np.array(_decompress(runs) if isinstance(runs, str) else runs)
    except ValueError as error:
        raise UserError(f"{where} cannot be read ({error}); export it again.") from error
    if counts.ndim != 1 or counts.dtype.kind != "i" or (counts < 0).any() or counts.sum() != height * width:
        total = f"sum up to {counts.sum()}" if counts.dtype.kind == "i" else "are no whole numbers"
        raise UserError(
            f"{where} cannot be read: its runs {total}, and the photo has {height * width} pixels; export it again."
        )
    levels = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    columns, rows = levels.reshape(width, height).T, levels.reshape(height, width)
    if _count_edges(columns) > BY_ROWS * _count_edges(rows):
        raise UserError(
            f"{where} gives stripes: its runs go along rows, and COCO's go down columns. Export it again, e.g. by"
            " pycocotools.mask.encode(numpy.asfortranarray(mask))."
        )
    return columns


def _decompress(text: str) -> list[int]:
    """Run lengths from COCO's letters of six bits each: five of the number, the lowest first, and whether more follow. From the
    fourth on, a number is the difference to the last but one.
    """
    counts: list[int] = []
    letters = iter(text.encode())
    for letter in letters:
        number, shift, bits = (letter - 48) & 31, 5, letter - 48
        while bits & 32:
            bits = next(letters, 48) - 48
            number, shift = number | (bits & 31) << shift, shift + 5
        if bits & 16:
            number -= 1 << shift
        counts.append(number + counts[-2] if len(counts) > 2 else number)
    return counts


def _count_edges(mask: NDArray[np.bool_]) -> int:
    """How many neighbours, below or beside each other, are not alike."""
    return int((mask[1:] != mask[:-1]).sum() + (mask[:, 1:] != mask[:, :-1]).sum())
