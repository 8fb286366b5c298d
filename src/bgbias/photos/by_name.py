"""What the names of a folder's files say: which class a photo is of, and which mask is whose."""

from __future__ import annotations

from collections.abc import Iterable
from os.path import commonpath
from pathlib import PurePosixPath

from bgbias.errors import UserError
from bgbias.files.pictures import stem, unique


def around(names: Iterable[str]) -> int:
    """How many folders lie around all files, as in many archives of a folder."""
    return len(PurePosixPath(commonpath([PurePosixPath(n).parent for n in names])).parts)


def inside(name: str, folders: int) -> str:
    """A name as it is inside its first ``folders``."""
    return "/".join(PurePosixPath(name).parts[folders:])


def classes(names: list[str], level: int | None, name: str, to_do: str) -> dict[str, str]:
    """Each picture's class: the folders of its path down to ``level``; all of them, if no level is named and none is doubtful.
    What lies around all classes is no part of their names: a folder and an archive of it have the same.

    Pictures in no folder, and folders in folders without a level, are errors; ``to_do`` ends the latter, with ``{levels}`` in
    the place of those that there are. ``name`` is what people call the collection.
    """
    folders = {n: PurePosixPath(n).parent.parts for n in names}
    loose = [n for n in names if len(folders[n]) < (level or 1)]
    if loose:
        place = f"in no folder of level {level}" if level else "in no folder"
        raise UserError(
            f"{name}: '{loose[0]}' lies {place}; put each class's pictures into a folder of its own."
        )
    shared = around(names)
    if level:
        return {n: "/".join(folders[n][min(shared, level - 1) : level]) for n in names}
    # What follows the folders around all of them must be the class, and nothing below it.
    different = sorted(set(folders.values()))
    if len(different) > 1 and {len(f) for f in different} != {shared + 1}:
        raise UserError(_nested(different, name, to_do))
    return {n: f[-1] for n, f in folders.items()}


def masks(
    drawn: Iterable[str], photos: Iterable[str], name: str, place: str, others: Iterable[str] = ()
) -> dict[str, str]:
    """The masks by the stem of their photo, which is theirs too, but for folders around all masks, or all photos. A mask is taken
    for no photo's if the names do not fit: an error, for the photo would silently go without. So are two masks of one photo, and
    two photos of one mask. ``place`` is what people call the masks' folder; ``others`` are no photos, and may have masks.
    """
    drawn, photos = sorted(drawn), list(photos)
    shared = around(photos)
    photos += others
    stem_of = {stem(inside(n, shared)): stem(n) for n in photos} | {stem(n): stem(n) for n in photos}
    for folders in range(around(drawn) + 1):
        photo_of = {n: stem_of.get(stem(inside(n, folders)), "") for n in drawn}
        if all(photo_of.values()):
            break
    else:
        homeless = [n for n in drawn if stem(n) not in stem_of]
        raise UserError(
            f"{name}: the mask '{homeless[0]}' fits no photo ({len(homeless)} in all); masks are called like their photo, with"
            f" the ending .png, in the same folders below {place}."
        )
    mask_of = unique(drawn, photo_of.__getitem__, f"{name}: the masks")
    unique((n for n in photos if stem(n) in mask_of), stem, f"{name}: the photos")
    return mask_of


def _nested(folders: list[tuple[str, ...]], name: str, to_do: str) -> str:
    told = []
    shown = ["/".join(folders[0]), "/".join(sorted(folders, key=lambda parts: len(parts))[-1])]
    for level in range(1, min(map(len, folders)) + 1):
        found = sorted({"/".join(f[:level]) for f in folders})
        told.append(f"{level} ({len(found)} classes, e.g. '{found[0]}')")
    return (
        f"{name}: folders lie in folders, as '{shown[0]}' and '{shown[1]}', so that nobody knows which are classes."
        f" {to_do.format(levels=', or '.join(told))}"
    )
