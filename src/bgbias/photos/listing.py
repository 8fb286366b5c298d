"""The photos of a source by name, before anybody has looked at one: what every kind of source gives to an audit and a study."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from os.path import commonpath
from pathlib import Path, PurePosixPath
from typing import Self

import pandas as pd

from bgbias.errors import UserError
from bgbias.files.archives import Lookup
from bgbias.files.pictures import compose, is_picture, stem, unique, why_not
from bgbias.images.drawn_masks import is_cut_out, white
from bgbias.photos.table import COLUMNS, ImageTable

ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz")
TABLES = (".csv", ".parquet", ".pq")
KEY_SET = "photos|test"  # of all that is no dataset of params.yaml: what is drawn hangs on no folder's name


def no_mask() -> None:
    """Of a photo whose mask nobody drew."""


@dataclass(frozen=True)
class SourcePhoto:
    """A photo that a source names: ``read`` and ``truth`` give it and its true mask, encoded; None where
    nobody drew one.

    What nobody says is empty: its ``class_name``; its ``key``, which names it in all that is drawn for
    it; its ``place``, where it was taken; its ``session``, when. ``query``: whether it is asked; ``gallery``: whether it
    is among those to be found.
    """

    image_id: str
    read: Callable[[], bytes]
    truth: Callable[[], bytes | None] = no_mask
    class_name: str = ""
    key: str = ""
    place: str = ""
    session: str = ""
    query: bool = True
    gallery: bool = True


@dataclass(frozen=True)
class Listing:
    """What a source names: ``photos`` by id, and their ``table``; ``labelled``: whether classes say who should find whom.

    ``left_out``: what lies there and is no photo, with the reason; ``linked``: folders that were entered through a link;
    ``others``: photos that are not asked for, to which masks may belong; ``remarks``: what a person should know of the choice;
    ``upright``: whether photos are turned as their EXIF says.
    """

    name: str
    table: ImageTable
    labelled: bool
    photos: Mapping[str, SourcePhoto]
    left_out: Mapping[str, str] = field(default_factory=dict)
    linked: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    upright: bool = True

    @classmethod
    def from_photos(cls, name: str, photos: Iterable[SourcePhoto], why_unlabelled: str = "") -> Self:
        """A test split of these photos, by class and name.

        Where classes do not say who should find whom (``why_unlabelled``), each photo's label is a
        number of its own, and a remark says why.
        """
        ordered = sorted(photos, key=lambda photo: (photo.class_name, photo.image_id))
        number = {c: n for n, c in enumerate(sorted({photo.class_name for photo in ordered}))}
        why = why_unlabelled or why_not_labelled([photo.class_name for photo in ordered])
        labels = range(len(ordered)) if why else [number[photo.class_name] for photo in ordered]
        shared = around([photo.image_id for photo in ordered])
        rows = [
            (p.image_id, label, p.class_name, "test", KEY_SET, p.key or inside(p.image_id, shared))
            for p, label in zip(ordered, labels, strict=True)
        ]
        frame = pd.DataFrame(rows, columns=list(COLUMNS))
        if not all(p.query and p.gallery for p in ordered):
            is_query, is_in_gallery = [p.query for p in ordered], [p.gallery for p in ordered]
            frame = frame.assign(query=is_query, gallery=is_in_gallery, camera="")
        if any(p.place for p in ordered):
            frame = frame.assign(place=[p.place for p in ordered])
        by_id = {photo.image_id: photo for photo in ordered}
        return cls(name, ImageTable(frame), not why, by_id, remarks=(why,) if why else ())

    @property
    def is_across_places(self) -> bool:
        """Whether some class was seen in two places."""
        frame = self.table.frame
        if not self.labelled or "place" not in frame:
            return False
        rows = frame[frame["place"] != ""]
        return bool((rows.groupby("label")["place"].nunique() > 1).any())

    def with_masks(self, path: Path, option: str, command: str) -> Self:
        """With the true masks in a folder, or in a zip or tar of one, which are called like their photos.

        A mask of no photo, two of one photo, and a place without any are errors; ``option`` is what people name the masks by, and
        ``command`` what shows what is there.
        """
        files = Lookup(path)
        drawn = [name for name in files.names if is_picture(name) and not self._has_no_folder(name)]
        others = files.passed_over | {name: why_not(name) for name in files.names if not is_picture(name)}
        if not drawn:
            there = "".join(f", but e.g. '{n}', {why}" for n, why in sorted(others.items())[:1])
            raise UserError(
                f"{self.name}: {path} holds no pictures{there}. Masks are called like their photo, with the"
                f" ending .png. To see what is there, run: {command}"
            )
        # What lies beside a photo under its name, as its raw file or a note, has no mask of its own.
        stems = set(map(stem, self.photos))
        extras = (*self.left_out, *self.others)
        others_of = {stem(name): name for name in extras if stem(name) not in stems}
        mask_of = match_masks(drawn, self.photos, self.name, option, others_of.values())

        def with_mask(photo: SourcePhoto) -> SourcePhoto:
            mask = mask_of.get(stem(photo.image_id))
            if mask is None:
                return replace(photo, truth=no_mask)

            def truth() -> bytes | None:
                data = files.read(mask)
                # Where the photos themselves are named, those that are cut out are their own masks, and no
                # other is one.
                is_opaque_photo = data == photo.read() and not is_cut_out(data, mask)
                return None if is_opaque_photo else white(data, mask)

            return replace(photo, truth=truth)

        left_out = {**self.left_out} | {f"{name} (masks)": reason for name, reason in others.items()}
        photos = {image_id: with_mask(photo) for image_id, photo in self.photos.items()}
        return replace(self, photos=photos, left_out=left_out)

    def _has_no_folder(self, mask: str) -> bool:
        """Whether the folder of a mask's photo could not be opened, and is named for that reason already."""
        parts = PurePosixPath(mask).parent.parts
        ends = ("/".join(parts[a:b]) for b in range(1, len(parts) + 1) for a in range(b))
        return any(end in self.left_out for end in ends)


def title(path: Path) -> str:
    """What a folder, or an archive or table of it, is called: the same for ``shop``, ``shop.tar.gz`` and ``shop.csv``."""
    name = compose(path.resolve().name)
    while not path.is_dir() and PurePosixPath(name).suffix.lower() in ARCHIVES + TABLES:
        name = PurePosixPath(name).stem
    return name


def why_not_labelled(classes: Iterable[str]) -> str:
    """Why these classes, one a photo, say nothing of who should find whom; empty where they do."""
    sizes = Counter(classes)
    if len(sizes) == 1:
        return f"all photos are of one class ('{next(iter(sizes))}'), so that nobody could be mistaken for another"
    if sizes and max(sizes.values()) == 1:
        return "no class has two photos, so that there is nobody to find"
    return ""


def around(names: Iterable[str]) -> int:
    """How many folders lie around all files, as in many archives of a folder."""
    return len(PurePosixPath(commonpath([PurePosixPath(n).parent for n in names])).parts)


def inside(name: str, folders: int) -> str:
    """A name as it is inside its first ``folders``."""
    return "/".join(PurePosixPath(name).parts[folders:])


def match_masks(
    drawn: Iterable[str], photos: Iterable[str], name: str, option: str, others: Iterable[str] = ()
) -> dict[str, str]:
    """The masks by the stem of their photo, which is theirs too, but for folders around all masks, or all photos. A mask is taken
    for no photo's if the names do not fit: an error, for the photo would silently go without. So are two masks of one photo, and
    two photos of one mask. ``option`` is what people name the masks by; ``others`` are no photos, and may have masks.
    """
    drawn, photos = sorted(drawn), list(photos)
    shared = around(photos)
    photos += others
    # Of what lies beside the photos' folder nothing is inside it.
    stem_of = {stem(i): stem(n) for n in photos if (i := inside(n, shared))} | {
        stem(n): stem(n) for n in photos
    }
    for folders in range(around(drawn) + 1):
        photo_of = {n: stem_of.get(stem(inside(n, folders)), "") for n in drawn}
        if all(photo_of.values()):
            break
    else:
        homeless = [n for n in drawn if stem(n) not in stem_of]
        raise UserError(
            f"{name}: the mask '{homeless[0]}' fits no photo ({len(homeless)} in all); masks are called like their photo, with"
            f" the ending .png, in the same folders below {option}."
        )
    mask_of = unique(drawn, photo_of.__getitem__, f"{name}: the masks")
    unique((n for n in photos if stem(n) in mask_of), stem, f"{name}: the photos")
    return mask_of
