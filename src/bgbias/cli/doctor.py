"""What ``index`` would say of a folder of photos, before there is a dataset of it."""

from __future__ import annotations

import sys
from pathlib import Path

from bgbias import progress
from bgbias.datasets import folder
from bgbias.errors import UserError
from bgbias.photos.examination import SHOWN, Examination, of_parts


def examine(photos: Path, masks: Path | None, class_level: int | None, every: bool) -> None:
    """Print what would be left out of ``photos`` and what stands out; what makes it no dataset at all is an error."""
    parts = {"photos": photos} | ({"masks": masks} if masks else {})
    for place in parts.values():
        if not place.exists():
            raise UserError(f"There is no folder or archive {place}.")
    try:
        params = folder.Params(
            source=str(photos), masks=str(masks) if masks else None, class_level=class_level
        )
    except ValueError as error:
        raise UserError(str(error)) from error
    name = photos.resolve().name
    seen = Examination(of_parts({part: folder.left_out(place) for part, place in parts.items()}))
    taken: dict[str, str] = {}
    try:
        for item in progress.track(folder.items(params, parts, name), None, f"examining {name}"):
            if seen.takes(item):
                taken[item.image_id] = item.class_name
    finally:
        for line in seen.told(name, sys.maxsize if every else SHOWN):
            print(line)
    print(
        f"{name}: {len(taken)} photos of {len(set(taken.values()))} classes, {len(seen.left_out)} files left out"
    )
