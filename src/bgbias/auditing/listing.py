"""Photos by name, as a folder, an archive, a table or a study lists them, before anybody has looked at one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import pandas as pd

from bgbias.errors import UserError
from bgbias.files.archives import Lookup
from bgbias.files.pictures import is_picture, stem, why_not
from bgbias.images.drawn_masks import white
from bgbias.photos import by_name
from bgbias.photos.table import COLUMNS, ImageTable

ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz")
TABLES = (".csv", ".parquet", ".pq")

Read = Callable[[str], bytes]
ReadMask = Callable[[str], bytes | None]


@dataclass(frozen=True)
class Listing:
    """What a source names, and how its photos are read: ``read`` and ``truth`` give a photo and its true mask, encoded.

    ``left_out``: what lies there and is no photo, with the reason; ``linked``: folders that were entered through a link;
    ``others``: photos beside the table's to which masks may belong; ``remarks``: what a person should know of the choice.
    """

    name: str
    table: ImageTable
    labelled: bool
    read: Read
    truth: ReadMask
    left_out: Mapping[str, str] = field(default_factory=dict)
    upright: bool = True
    linked: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def with_masks(self, place: Path) -> Listing:
        """With the true masks in a folder, or in a zip or tar of one, which are called like their photos.

        A mask of no photo, two of one photo, and a place without any are errors.
        """
        if not place.exists():
            raise UserError(f"There is no folder or archive {place} with masks; correct --masks.")
        others: dict[str, str] = {}
        files = Lookup(place, lambda name: True, others)
        drawn = [name for name in files.names if is_picture(name)]
        others |= {name: why_not(name) for name in files.names if not is_picture(name)}
        if not drawn:
            there = "".join(f", but e.g. '{n}', {why}" for n, why in sorted(others.items())[:1])
            raise UserError(
                f"{self.name}: {place} holds no pictures{there}. Masks are called like their photo, with the ending .png. When"
                f" they are there, run: python -m bgbias doctor PHOTOS --masks {place}"
            )
        # What lies beside a photo under its name, as its raw file or a note, has no mask of its own.
        stems = set(map(stem, self.table.ids))
        others_of = {stem(name): name for name in self.others if stem(name) not in stems}
        mask_of = by_name.masks(drawn, [*self.table.ids, *others_of.values()], self.name, str(place))

        def truth(image_id: str) -> bytes | None:
            mask = mask_of.get(stem(image_id))
            return None if mask is None else white(files.read(mask), mask)

        left_out = {**self.left_out} | {f"{name} (masks)": reason for name, reason in others.items()}
        return replace(self, truth=truth, left_out=left_out)


def table_of(
    name: str,
    ids: Iterable[str],
    class_of: Mapping[str, str],
    labelled: bool,
    key_of: Mapping[str, str] | None = None,
) -> ImageTable:
    """A test split of these photos, by class and name; one that is in no class comes without.

    If they are not ``labelled``, each photo's label is a number of its own, as nobody has said that two show the same.
    ``key_of``: what names a photo in all that is drawn for it; its id, if not given.
    """
    number = {c: n for n, c in enumerate(sorted(set(class_of.values())))}
    rows = []
    for own, i in enumerate(sorted(ids, key=lambda i: (class_of.get(i, ""), i))):
        label = number[class_of[i]] if labelled else own
        rows.append((i, label, class_of.get(i, ""), "test", f"{name}|test", (key_of or {}).get(i, i)))
    return ImageTable(pd.DataFrame(rows, columns=list(COLUMNS)))


def title(place: Path) -> str:
    """What a folder, or an archive or table of it, is called: the same for ``shop``, ``shop.tar.gz`` and ``shop.csv``."""
    name = place.resolve().name
    while not place.is_dir() and PurePosixPath(name).suffix.lower() in ARCHIVES + TABLES:
        name = PurePosixPath(name).stem
    return name


def why_unlabelled(class_of: Mapping[str, str]) -> str:
    """Why these classes say nothing of who should find whom; empty where they do."""
    sizes = Counter(class_of.values())
    if len(sizes) == 1:
        return f"all photos are of one class ('{next(iter(sizes))}'), so that nobody could be mistaken for another"
    if sizes and max(sizes.values()) == 1:
        return "no class has two photos, so that there is nobody to find"
    return ""
