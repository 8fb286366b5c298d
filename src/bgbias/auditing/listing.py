"""Photos by name, before anybody has looked at one: of a folder, an archive, or a dataset of params.yaml.

A folder has one folder for each class, and loose photos have none; ``tables`` lists those of a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import pandas as pd

from bgbias.errors import UserError
from bgbias.files.archives import Lookup
from bgbias.files.pictures import PICTURES, compose, has_suffix, is_picture, locator, stem, why_not
from bgbias.files.store import ImageStore
from bgbias.images import heif
from bgbias.images.drawn_masks import is_cut_out, white
from bgbias.photos import by_name
from bgbias.photos.table import COLUMNS, ImageTable, read_table
from bgbias.settings import read_yaml
from bgbias.study.params import load

ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz")
TABLES = (".csv", ".parquet", ".pq")
PARAMS = Path("params.yaml")

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
        mask_of = by_name.masks(drawn, self.table.ids, self.name, str(place), others_of.values())

        def truth(image_id: str) -> bytes | None:
            mask = mask_of.get(stem(image_id))
            if mask is None:
                return None
            data = files.read(mask)
            # Where the photos themselves are named, those that are cut out are their own masks, and no other is one.
            is_opaque_photo = data == self.read(image_id) and not is_cut_out(data, mask)
            return None if is_opaque_photo else white(data, mask)

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
    name = compose(place.resolve().name)
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


LEVELS = (
    "Say which by --class-level: {levels}. If the first ones are splits, name the one to look at instead"
    " of the folder around them."
)


def of_folder(place: Path, name: str | None, class_level: int | None) -> Listing:
    """The photos of a folder or archive, with their paths as ids, and as keys without the folders around all of them. Photos
    beside the folders of the classes are left out; where all are loose there are no classes. Folders in folders without a
    ``class_level``, and a place without photos, are errors.
    """
    name = name or title(place)
    left_out: dict[str, str] = {}
    files = Lookup(place, lambda name: True, left_out)
    photos = [n for n in files.names if taken(n)]
    left_out |= {n: why_left(n) for n in files.names if not taken(n)}
    if not photos:
        raise UserError(_empty(place, left_out))
    depth = {n: len(PurePosixPath(n).parent.parts) for n in photos}
    # An archive of a folder has that folder around all that lies in it.
    is_enclosed = not place.is_dir() and by_name.around(photos) > 0 and max(depth.values()) > 1
    loose = [n for n in photos if depth[n] < (class_level or 1 + is_enclosed)]
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
    shared = by_name.around(ids)
    locate = locator()
    folders = sorted({str(folder) for n in ids for folder in PurePosixPath(n).parents} - {"."})
    return Listing(
        name=name,
        table=table_of(name, ids, class_of, not why, {i: by_name.inside(i, shared) for i in ids}),
        labelled=not why,
        read=files.read,
        truth=lambda image_id: None,
        left_out=left_out,
        linked=tuple(folder for folder in folders if locate(place / folder).is_symlink()),
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


def datasets() -> tuple[str, ...]:
    """The names of the datasets that can be named; none where there is no params.yaml."""
    written = read_yaml(PARAMS).get("datasets") if PARAMS.is_file() else None
    return tuple(map(str, written)) if isinstance(written, dict) else ()


def of_dataset(dataset: str) -> Listing:
    """The test photos of a dataset whose photos are here, as the study sees them: turned where its options say so."""
    files = load(PARAMS).files
    places = {part: files.at(part, dataset=dataset) for part in ("table", "photos", "truth")}
    absent = next((place for place in places.values() if not place.exists()), None)
    if absent:
        raise UserError(
            f"The photos of {dataset} are not at hand ({absent} is missing); run: python -m bgbias fetch {dataset} and then:"
            f" python -m bgbias index {dataset}"
        )
    table = read_table(places["table"])
    test = table.split("test")
    if test.given is not None:
        raise UserError(
            f"{dataset} says which photos are queries and which the gallery; an audit asks every photo among all others. A grid"
            " of this dataset has its mAP: docs/data.md."
        )
    photos, masks = ImageStore(places["photos"]), ImageStore(places["truth"])
    why = why_unlabelled(dict(zip(test.ids, map(str, test.labels), strict=True)))
    beside = len(table) - len(test)
    of_others = f"{beside} photos of its other splits are not looked at"
    return Listing(
        name=dataset,
        table=test,
        labelled=not why,
        read=photos.read,
        truth=lambda image_id: masks.read(image_id) if image_id in masks else None,
        upright=False,
        others=tuple(set(table.ids) - set(test.ids)),
        remarks=tuple(filter(None, (why, of_others if beside else ""))),
    )
