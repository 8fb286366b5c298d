"""Photos of a folder, or of a zip or tar of one: a folder for each class, or a label beside each photo."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath

from bgbias.errors import UserError
from bgbias.files.archives import Lookup
from bgbias.files.pictures import PICTURES, has_suffix, locator, stem, why_not
from bgbias.images import heif
from bgbias.photos import by_name
from bgbias.photos.listing import TABLES, Listing, SourcePhoto, title

LABELS = ("label", "class", "class_name", "category", "cls")  # what JSON beside a photo calls its class
LEVELS = (
    "Say which by --class-level: {levels}. If the first ones are splits, name the one to look at instead"
    " of the folder around them."
)


def is_readable(name: str) -> bool:
    """Whether a file of this name is a photo that can be read here."""
    return has_suffix(name, PICTURES) or (has_suffix(name, heif.ENDINGS) and heif.readable())


def why_left(name: str) -> str:
    """Why a file of this name is not taken, and what to do."""
    return f"{why_not(name)}, {heif.STEP}" if has_suffix(name, heif.ENDINGS) else why_not(name)


def in_folder(files: Lookup, name: str | None = None, class_level: int | None = None) -> Listing:
    """The photos of a folder or archive, with their paths as ids. Photos beside the folders of the
    classes are left out; where all are loose there are no classes. Where files beside photos name their
    classes, as webdataset has them (``7.jpg`` and ``7.cls``, or ``7.json``), folders are none.

    Folders in folders without a ``class_level``, and a place without photos, are errors.
    """
    place, left_out = files.path, dict(files.passed_over)
    name = name or title(place)
    pictures = [n for n in files.names if is_readable(n)]
    left_out |= {n: why_left(n) for n in files.names if not is_readable(n)}
    if not pictures:
        raise UserError(_empty(place, left_out))
    depth = {n: len(PurePosixPath(n).parent.parts) for n in pictures}
    # An archive of a folder has that folder around all that lies in it.
    is_enclosed = not place.is_dir() and by_name.around(pictures) > 0 and max(depth.values()) > 1
    loose = [n for n in pictures if depth[n] < (class_level or 1 + is_enclosed)]
    inside = sorted(set(pictures) - set(loose))
    if label_of := {} if class_level else _labels_beside(files, pictures, not inside):
        unlabelled = dict.fromkeys((n for n in pictures if n not in label_of), "no label lies beside it")
        samples = set(map(stem, label_of))
        left_out = {n: why for n, why in left_out.items() if stem(n) not in samples} | unlabelled
        photos = [SourcePhoto(n, partial(files.read, n), class_name=c) for n, c in label_of.items()]
        return replace(Listing.of(name, photos), left_out=left_out, others=tuple(left_out))
    if class_level and not inside:
        raise UserError(
            f"{name}: '{loose[0]}' lies in no folder of level {class_level}; say a lower --class-level, or none."
        )
    if inside:
        beside = "beside the folders of the classes: put it into its own class's folder"
        left_out |= dict.fromkeys(loose, beside)
    listing = of_names(files, inside or pictures, name, class_level if inside else 0, LEVELS)
    locate = locator()
    folders = sorted({str(f) for n in listing.photos for f in PurePosixPath(n).parents} - {"."})
    linked = tuple(folder for folder in folders if locate(place / folder).is_symlink())
    return replace(listing, left_out=left_out, others=tuple(left_out), linked=linked)


def of_names(files: Lookup, names: list[str], name: str, class_level: int | None, to_do: str) -> Listing:
    """These files as photos, whose folders down to ``class_level`` are their classes (``by_name.classes``); 0: none are."""
    is_loose = class_level == 0
    class_of = {} if is_loose else by_name.classes(names, class_level, name, to_do)
    photos = [SourcePhoto(n, partial(files.read, n), class_name=class_of.get(n, "")) for n in names]
    return Listing.of(
        name, photos, "photos lie in no folders, which would say their classes" if is_loose else ""
    )


def _labels_beside(files: Lookup, pictures: list[str], are_loose: bool) -> dict[str, str]:
    """The classes of pictures beside which a file of their name holds it: as text, or, where pictures lie in no folders of
    classes, in JSON under a name of ``LABELS``.
    """
    there = set(files.names)
    found: dict[str, str] = {}
    for name in pictures:
        if (label := f"{stem(name)}.cls") in there:
            found[name] = files.read(label).decode("utf-8", "replace").strip()
        elif are_loose and (sample := f"{stem(name)}.json") in there:
            try:
                said = json.loads(files.read(sample))
            except ValueError as error:
                raise UserError(
                    f"{files.path}: '{sample}' is not valid JSON ({error}); write it anew."
                ) from error
            said = said if isinstance(said, dict) else {}
            found[name] = str(next((said[key] for key in LABELS if key in said), ""))
    return {name: label for name, label in found.items() if label}


def _empty(place: Path, left_out: dict[str, str]) -> str:
    if not left_out:
        return f"{place} is empty; name the folder that holds a folder of photos for each class."
    tables = [n for n in left_out if has_suffix(n, TABLES)]
    if tables:
        return f"{place} holds no photos, but a table: name that one, {place / tables[0]}."
    example, reason = min(left_out.items(), key=lambda of: (of[1].startswith("hidden"), of[0]))
    return (
        f"{place} holds no photos ({', '.join(PICTURES)}), not even in folders below it, but {len(left_out)} other files:"
        f" '{example}' is {reason}."
    )
