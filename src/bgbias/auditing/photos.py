"""A person's photos, as they are: collected from wherever they lie, and looked at before anything costly is computed."""

from __future__ import annotations

import difflib
import hashlib
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from PIL import Image

from bgbias import progress
from bgbias.auditing import listing as listings
from bgbias.auditing import tables
from bgbias.auditing.listing import TABLES, Listing, Read, ReadMask, why_unlabelled
from bgbias.errors import UserError
from bgbias.files.pictures import locator
from bgbias.images import pixels
from bgbias.photos import sample as sampling
from bgbias.photos import subset
from bgbias.photos.examination import SHOWN, Examination, Oddity
from bgbias.photos.table import ImageTable, Item

Source = str | Path | pd.DataFrame | Sequence[str | Path | bytes | np.ndarray | Image.Image]
"""A folder, archive or table, the name of a dataset of params.yaml, a DataFrame, or a list of paths or pictures."""

SAMPLE = "audit sample"  # what it is drawn for


@dataclass(frozen=True)
class PhotoCollection:
    """Photos that can be read, all of the split ``test``, by class and name.

    ``labelled``: whether their classes say who should find whom; if not, each photo's label is a number of its own. ``sums``:
    SHA-256 of each photo's bytes as they lie there, in hex digits, and of those of its true mask where it has one. ``left_out``:
    what lies there and is not taken, with the reason. ``oddities``: what stood out, what was left out among it. ``remarks``: what
    a person should know of what was chosen. ``near_duplicates``: how many photos of ``left_out`` show the view of another one of
    their class; ``same_view``: which one those show that have another label. ``upright``: whether photos are turned as their EXIF
    says. ``truth``: gives a photo's true mask of its size, encoded, its object white; None where nobody drew one.
    """

    name: str
    table: ImageTable
    labelled: bool
    sums: Mapping[str, tuple[str, ...]]
    left_out: Mapping[str, str]
    oddities: tuple[Oddity, ...]
    remarks: tuple[str, ...]
    near_duplicates: int
    same_view: Mapping[str, str]
    upright: bool
    truth: ReadMask
    _read: Read

    def __len__(self) -> int:
        return len(self.table)

    def read(self, image_id: str) -> bytes:
        """The encoded photo as it lies there; one that carries an EXIF rotation as a person sees it, as PNG."""
        data = self._read(image_id)
        return pixels.upright(data, image_id) if self.upright else data

    def has_truth(self, image_id: str) -> bool:
        """Whether somebody drew the photo's mask; reads nothing."""
        return len(self.sums[image_id]) > 1

    @cached_property
    def digest(self) -> str:
        """16 hex digits of the photos, their classes, keys and masks."""
        text = repr(
            [(*row, *self.sums[row[0]]) for row in self.table.frame.itertuples(index=False, name=None)]
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def classes(self) -> int:
        """How many classes the photos are said to be of; none where nobody said it."""
        return len(set(self.table.frame["class_name"]) - {""})

    def told(self, shown: int = SHOWN) -> Iterator[str]:
        """Lines for a person: how the photos were chosen, and what stands out, each with so many examples."""
        for text in (*self.remarks, *(oddity.told(shown) for oddity in self.oddities)):
            yield f"{self.name}: {text}"

    def as_json(self) -> dict[str, Any]:
        """The same for a program."""
        return {
            "name": self.name,
            "photos": len(self),
            "classes": self.classes,
            "labelled": self.labelled,
            "digest": self.digest,
            "left_out": len(self.left_out),
            "near_duplicates": self.near_duplicates,
            "remarks": list(self.remarks),
            "oddities": [oddity.as_json() for oddity in self.oddities],
        }


def look_at(listing: Listing) -> PhotoCollection:
    """Each photo is looked at once; none is written to, and none stays in memory. None that can be read is a UserError.

    Of photos of one class that show one view, the first by name is taken.
    """
    table, remarks = listing.table, listing.remarks
    seen = Examination(listing.left_out, listing.labelled, listing.upright, listing.linked)
    sums: dict[str, tuple[str, ...]] = {}
    for item in progress.track(_items(listing, seen), len(table), f"looking at {listing.name}"):
        if seen.takes(item):
            drawn = () if item.truth is None else (hashlib.sha256(item.truth).hexdigest(),)
            sums[item.image_id] = (seen.sums[item.image_id], *drawn)
    if not sums:
        first = next(iter(table.ids))
        raise UserError(
            f"{listing.name}: none of {len(table)} photos can be read. The first: {seen.left_out[first]} Then run the same"
            " command again."
        )
    again, elsewhere = seen.near_duplicates
    independent = {image_id: of_photo for image_id, of_photo in sums.items() if image_id not in again}
    frame = table.frame[table.frame["image_id"].isin(independent)].reset_index(drop=True)
    why = why_unlabelled(dict(zip(frame["image_id"], frame["class_name"], strict=True)))
    if why and listing.labelled:
        frame = frame.assign(label=range(len(frame)))
        remarks = (*remarks, f"of the photos that are taken, {why}")
    return PhotoCollection(
        name=listing.name,
        table=ImageTable(frame),
        labelled=listing.labelled and not why,
        sums=independent,
        left_out=seen.left_out | {i: f"a near-duplicate of {first}" for i, first in again.items()},
        oddities=tuple(seen.noticed()),
        remarks=remarks,
        near_duplicates=len(again),
        same_view={i: first for i, first in elsewhere.items() if first not in again},
        upright=listing.upright,
        truth=listing.truth,
        _read=listing.read,
    )


def choose(
    source: Source,
    masks: str | Path | None = None,
    name: str | None = None,
    class_level: int | None = None,
    sample: int | None = None,
) -> Listing:
    """The photos of a source, by name alone: at once, also of many.

    ``masks``: a folder, zip or tar of true masks, called like their photos; else the source's own, where it has some. ``name``:
    what the collection is called in messages and in all that is drawn for its photos; that of the folder, table or dataset, if
    None. ``class_level``: which folder of a path is the class, where folders lie in folders. ``sample``: at most so many photos,
    of whole classes where these fit (photos/sample.py). What cannot be used at all is a UserError that says what to do.
    """
    if class_level is not None and class_level < 1:
        raise UserError(f"class_level is {class_level}; the outermost folder of a path is 1.")
    listing = _listed(source, name, class_level)
    if masks is not None:
        listing = listing.with_masks(locator()(Path(masks)))
    return _sampled(listing, sample)


def collect(
    source: Source,
    masks: str | Path | None = None,
    name: str | None = None,
    class_level: int | None = None,
    sample: int | None = None,
) -> PhotoCollection:
    """The photos that ``choose`` gives, each looked at."""
    return look_at(choose(source, masks, name, class_level, sample))


def _listed(source: Source, name: str | None, class_level: int | None) -> Listing:
    if not isinstance(source, (str, Path)):
        _refuse(class_level)
        if isinstance(source, pd.DataFrame):
            return tables.of_frame(source, name or "photos")
        # Cell by cell: pandas would take a list of pictures for a picture with one more axis.
        column = pd.Series(list(source), dtype=object) if len(source) else pd.Series([], dtype=object)
        return tables.of_frame(pd.DataFrame({"path": column}), name or "photos", place="the list")
    place = locator()(Path(source).expanduser())
    known = listings.datasets() if isinstance(source, str) and "/" not in source else ()
    if source in known:
        if place.exists():
            raise UserError(
                f"'{source}' is a dataset of {listings.PARAMS}, and a {'folder' if place.is_dir() else 'file'} here; for the"
                f" latter write ./{source}"
            )
        if name is not None:
            raise UserError(
                f"{source} is a dataset of {listings.PARAMS}, which has its name already: leave the other one out."
            )
        _refuse(class_level)
        return listings.of_dataset(str(source))
    if not place.exists():
        raise UserError(_nowhere(place, known))
    if place.is_dir() or zipfile.is_zipfile(place) or tarfile.is_tarfile(place):
        return listings.of_folder(place, name, class_level)
    if place.suffix.lower() in TABLES:
        _refuse(class_level)
        return tables.of_file(place, name)
    raise UserError(
        f"{place} is neither a folder, a zip or tar, nor a table ({', '.join(TABLES)}); name the folder that holds the"
        " photos."
    )


def _refuse(class_level: int | None) -> None:
    if class_level is not None:
        raise UserError(
            "--class-level says which folder of a path is the class: leave it out where no folder is."
        )


def _nowhere(place: Path, known: Iterable[str]) -> str:
    beside = [p.name for p in place.parent.iterdir()] if place.parent.is_dir() else []
    near = difflib.get_close_matches(place.name, [*known, *beside], 1)
    hint = f" Did you mean '{near[0] if near[0] in known else place.parent / near[0]}'?" if near else ""
    return f"There is no folder or archive, no table and no dataset of params.yaml called {place}.{hint}"


def _sampled(listing: Listing, count: int | None) -> Listing:
    """The photos to look at, with what a person should know of the choice."""
    table = listing.table
    if count is None or count >= len(table):
        return listing
    if count < (sampling.LEAST if listing.labelled else 1):
        raise UserError(
            f"A sample of {count} photos is too small: two of each of two classes make {sampling.LEAST}; say"
            f" --sample {sampling.LEAST} or more, or 0 for all."
        )
    if listing.labelled:
        drawn, most = sampling.of_classes(table, SAMPLE, count)
        there, chosen = (len(set(t.labels)) for t in (table, drawn))
        of_each = "whole classes" if most is None else f"at most {most} photos of each"
        classes = f": {chosen} of {there} classes, {of_each}"
    else:
        drawn, classes = subset.keyed(table, SAMPLE, count), ""
    remark = f"a sample of {len(drawn)} of {len(table)} photos{classes}"
    return replace(listing, table=drawn, remarks=(*listing.remarks, remark))


def _items(listing: Listing, seen: Examination) -> Iterator[Item]:
    """The photos one by one with their bytes; one that cannot be read is noted."""
    for row in cast("list[dict[str, Any]]", listing.table.frame.to_dict("records")):
        name = row["image_id"]
        try:
            data, truth = listing.read(name), listing.truth(name)
        except OSError as error:
            seen.leaves_out(name, "unreadable", f"'{name}' cannot be opened ({error.strerror}).")
        except UserError as error:
            seen.leaves_out(name, "unreadable", str(error))
        else:
            yield Item(**row, data=data, truth=truth)
