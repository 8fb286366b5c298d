"""What an audit, or ``index``, would say of photos, before anything is computed from them."""

from __future__ import annotations

import sys
from pathlib import Path

from bgbias.auditing.photos import collect
from bgbias.photos.examination import SHOWN


def examine(photos: str, masks: Path | None, class_level: int | None, every: bool) -> None:
    """Print what would be left out of ``photos`` and what stands out; where there is nothing to look at is an error."""
    place = Path(photos).expanduser()
    name = place.resolve().name if place.exists() else None
    found = collect(photos, masks, name, class_level)
    for line in found.told(sys.maxsize if every else SHOWN):
        print(line)
    of_classes = f" of {found.classes} classes" if found.classes else " without classes"
    print(f"{found.name}: {len(found)} photos{of_classes}, {len(found.left_out)} files left out")
