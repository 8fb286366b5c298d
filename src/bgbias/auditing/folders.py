"""Photos in a folder with one folder for each class, or in a zip or tar of one; loose ones have no class."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from bgbias.auditing.listing import TABLES, Listing, table_of, title, why_unlabelled
from bgbias.errors import UserError
from bgbias.files.archives import Lookup
from bgbias.files.pictures import PICTURES, has_suffix, why_not
from bgbias.images import heif
from bgbias.photos import by_name

LEVELS = (
    "Say which by --class-level: {levels}. If the first ones are splits, name the one to look at instead"
    " of the folder around them."
)


def listed(place: Path, name: str | None, class_level: int | None) -> Listing:
    """The photos of a folder or archive, with their paths as ids. Photos beside the folders of the classes are left out; where
    all are loose there are no classes. Folders in folders without a ``class_level``, and a place without photos, are errors.
    """
    name = name or title(place)
    left_out: dict[str, str] = {}
    files = Lookup(place, lambda name: True, left_out)
    photos = [n for n in files.names if taken(n)]
    left_out |= {n: why_left(n) for n in files.names if not taken(n)}
    if not photos:
        raise UserError(_empty(place, left_out))
    loose = [n for n in photos if len(PurePosixPath(n).parent.parts) < (class_level or 1)]
    inside = sorted(set(photos) - set(loose))
    if class_level and not inside:
        raise UserError(
            f"{name}: '{loose[0]}' lies in no folder of level {class_level}; say a lower --class-level, or none."
        )
    class_of = by_name.classes(inside, class_level, name, LEVELS) if inside else {}
    if inside:
        left_out |= dict.fromkeys(
            loose, "beside the folders of the classes: put it into its own class's folder"
        )
    why = why_unlabelled(class_of) if inside else "photos lie in no folders, which would say their classes"
    ids = inside or photos
    return Listing(
        name=name,
        table=table_of(name, ids, class_of, not why),
        labelled=not why,
        read=files.read,
        truth=lambda image_id: None,
        left_out=left_out,
        linked=_linked(place, ids) if place.is_dir() else (),
        others=tuple(left_out),
        remarks=(why,) if why else (),
    )


def taken(name: str) -> bool:
    """Whether a file of this name is a photo that can be read here."""
    return has_suffix(name, PICTURES) or (has_suffix(name, heif.ENDINGS) and heif.readable())


def why_left(name: str) -> str:
    """Why a file of this name is not taken, and what to do."""
    return f"{why_not(name)}, {heif.STEP}" if has_suffix(name, heif.ENDINGS) else why_not(name)


def _empty(place: Path, left_out: dict[str, str]) -> str:
    if not left_out:
        return f"{place} is empty; name the folder that holds a folder of photos for each class."
    tables = [n for n in left_out if has_suffix(n, TABLES)]
    if tables:
        return f"{place} holds no photos, but a table: name that one, {place / tables[0]}."
    example, reason = min(left_out.items(), key=lambda found: (found[1].startswith("hidden"), found[0]))
    return (
        f"{place} holds no photos ({', '.join(PICTURES)}), not even in folders below it, but {len(left_out)} other files:"
        f" '{example}' is {reason}."
    )


def _linked(place: Path, photos: list[str]) -> tuple[str, ...]:
    folders = {folder for n in photos for folder in PurePosixPath(n).parents}
    return tuple(sorted(str(folder) for folder in folders if (place / folder).is_symlink() and folder.name))
