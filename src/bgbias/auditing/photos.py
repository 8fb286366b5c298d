"""A person's photos, as they are: collected from wherever they lie, and looked at before anything costly is computed."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from bgbias import progress
from bgbias.errors import UserError
from bgbias.files.pictures import locator
from bgbias.files.store import ImageStore
from bgbias.images import pixels
from bgbias.photos import sample as sampling
from bgbias.photos import sources
from bgbias.photos.examination import SHOWN, PhotoIssue, PhotoValidator
from bgbias.photos.listing import Listing, SourcePhoto, no_mask, why_not_labelled
from bgbias.photos.sources import Source
from bgbias.photos.table import ImageTable, Item, read_table
from bgbias.photos.tables import BY_NAME, NamedColumns
from bgbias.settings import read_yaml
from bgbias.study.params import load

PARAMS = Path("params.yaml")
SAMPLE = "audit sample"  # what it is drawn for


@dataclass(frozen=True)
class PhotoCollection(Listing):
    """Photos that can be read, all of the split ``test``, by class and name.

    ``sums``: SHA-256 of each photo's bytes as they lie there, in hex digits, and of those of its true
    mask where it has one. ``oddities``: what stood out, what was left out among it.
    ``sessions``: when each photo was taken, of those of which a table says it, or EXIF the day.
    ``near_duplicates``: how many photos of ``left_out`` show the view of another one of their class;
    ``same_view``: which one those show that have another label.
    """

    sums: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    oddities: tuple[PhotoIssue, ...] = ()
    sessions: Mapping[str, str] = field(default_factory=dict)
    near_duplicates: int = 0
    same_view: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.table)

    def read(self, image_id: str) -> bytes:
        """The encoded photo as it lies there; one that carries an EXIF rotation as a person sees it, as PNG."""
        data = self.photos[image_id].read()
        return pixels.upright(data, image_id) if self.upright else data

    def decode(self, image_id: str) -> np.ndarray:
        """The photo as a person sees it, uint8 [H, W, 3]."""
        return pixels.decode(self.read(image_id), image_id)

    def truth(self, image_id: str) -> bytes | None:
        """The photo's true mask of its size, encoded, its object white; None where nobody drew one."""
        return self.photos[image_id].truth()

    def has_truth(self, image_id: str) -> bool:
        """Whether somebody drew the photo's mask; reads nothing."""
        return len(self.sums[image_id]) > 1

    @cached_property
    def digest(self) -> str:
        """16 hex digits of the photos, their classes, keys and masks."""
        rows = self.table.frame.itertuples(index=False, name=None)
        text = repr([(*row, *self.sums[row[0]]) for row in rows])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def classes(self) -> int:
        """How many classes the photos are said to be of; none where nobody said it."""
        return len(set(self.table.frame["class_name"]) - {""})

    @property
    def places(self) -> dict[str, str]:
        """Where or when each photo was taken, by its id, of those of which the source says it."""
        return {i: place for i, place in zip(self.table.ids, self.table.places or (), strict=False) if place}

    def describe(self, examples: int = SHOWN) -> Iterator[str]:
        """Lines for a person: how the photos were chosen, and what stands out, each with so many examples."""
        for text in (*self.remarks, *(oddity.describe(examples) for oddity in self.oddities)):
            yield f"{self.name}: {text}"

    def as_json(self) -> dict[str, Any]:
        """The same for a program."""
        return {
            "name": self.name,
            "photos": len(self),
            "classes": self.classes,
            "labelled": self.labelled,
            "places": len(set(self.places.values())),
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
    table = listing.table
    validator = PhotoValidator(listing.left_out, listing.labelled, listing.upright, listing.linked)
    sums: dict[str, tuple[str, ...]] = {}
    sessions: dict[str, str] = {}
    for item in progress.track(_read_items(listing, validator), len(table), f"looking at {listing.name}"):
        if validator.takes(item):
            drawn = () if item.truth is None else (hashlib.sha256(item.truth).hexdigest(),)
            sums[item.image_id] = (validator.sums[item.image_id], *drawn)
            if session := listing.photos[item.image_id].session or pixels.day_of(item.data):
                sessions[item.image_id] = session
    for image_id in validator.leave_out_unclear_masks():
        del sums[image_id]
    if not sums:
        first = next(iter(table.ids))
        raise UserError(
            f"{listing.name}: none of {len(table)} photos can be read. The first: {validator.left_out[first]} Then run the same"
            " command again."
        )
    again, elsewhere = validator.near_duplicates
    independent = {image_id: of_photo for image_id, of_photo in sums.items() if image_id not in again}
    frame = table.frame[table.frame["image_id"].isin(independent)].reset_index(drop=True)
    # By what a photo shows, backgrounds are the same in every folder, archive and table that has it.
    frame["key_item"] = [listing.photos[i].key or sums[i][0] for i in frame["image_id"]]
    why = why_not_labelled(frame["class_name"]) if listing.labelled else ""
    if why:
        frame = frame.assign(label=range(len(frame)))
        listing = replace(
            listing, labelled=False, remarks=(*listing.remarks, f"of the photos that are taken, {why}")
        )
    left_out = validator.left_out | {i: f"a near-duplicate of {first}" for i, first in again.items()}
    return PhotoCollection(
        **vars(listing) | {"table": ImageTable(frame), "left_out": left_out},
        sums=independent,
        oddities=tuple(validator.list_issues()),
        sessions={i: session for i, session in sessions.items() if i in independent},
        near_duplicates=len(again),
        same_view={i: first for i, first in elsewhere.items() if first not in again},
    )


def choose(
    source: Source,
    masks: str | Path | None = None,
    name: str | None = None,
    class_level: int | None = None,
    sample: int | None = None,
    columns: NamedColumns = BY_NAME,
) -> Listing:
    """The photos of a source, by name alone: at once, also of many.

    ``masks``: a folder, zip or tar of true masks, called like their photos; else the source's own, where
    it has some. ``name``: what the collection is called in messages; that of the folder, table or
    dataset, if None. ``class_level``: which folder of a path is the class, where folders lie in folders.
    ``sample``: at most so many photos, of whole classes where these fit (photos/sample.py). ``columns``:
    those of a table whose names say nothing. What cannot be used at all is a UserError that says what
    to do.
    """
    if class_level is not None and class_level < 1:
        raise UserError(f"class_level is {class_level}; the outermost folder of a path is 1.")
    listing = _list_photos(source, name, class_level, columns)
    if masks is not None:
        path = locator()(Path(masks))
        if not path.exists():
            raise UserError(f"There is no folder or archive {path} with masks; correct --masks.")
        listing = listing.with_masks(path, str(path), f"python -m bgbias doctor PHOTOS --masks {path}")
    if columns.place and not listing.is_across_places:
        raise UserError(
            f"{listing.name}: no class has photos of two places ({len(set(listing.table.places or ()) - {''})} places in all), so"
            " that nothing can be said of another place: correct --place, or leave it out."
        )
    return _sample(listing, sample)


def _list_photos(source: Source, name: str | None, class_level: int | None, columns: NamedColumns) -> Listing:
    path = locator()(Path(source).expanduser()) if isinstance(source, (str, Path)) else None
    datasets = _list_datasets() if isinstance(source, str) and "/" not in source else ()
    if path and source in datasets:
        if path.exists():
            raise UserError(
                f"'{source}' is a dataset of {PARAMS}, and a {'folder' if path.is_dir() else 'file'} here; for the"
                f" latter write ./{source}"
            )
        for option, value in (("name", name), ("class-level", class_level), ("place", columns.place)):
            if value:
                raise UserError(f"{source} is a dataset of {PARAMS}, which says that: leave --{option} out.")
        return list_dataset(str(source))
    if path and not path.exists():
        raise UserError(_explain_absence(path, datasets))
    if class_level is not None and not (path and sources.is_folder(path)):
        raise UserError(
            "--class-level says which folder of a path is the class: leave it out where no folder is."
        )
    if path is None:
        return sources.in_memory(cast("Any", source), name, columns)
    return sources.at(path, name, class_level, columns)


def _list_datasets() -> tuple[str, ...]:
    written = read_yaml(PARAMS).get("datasets") if PARAMS.is_file() else None
    return tuple(map(str, written)) if isinstance(written, dict) else ()


def list_dataset(dataset: str) -> Listing:
    """The test photos of a dataset whose photos are here, as the study sees them: turned where its options say so."""
    files = load(PARAMS).files
    paths = {part: files.at(part, dataset=dataset) for part in ("table", "photos", "truth")}
    absent = next((path for path in paths.values() if not path.exists()), None)
    if absent:
        raise UserError(
            f"The photos of {dataset} are not at hand ({absent} is missing); run: python -m bgbias fetch {dataset} and then:"
            f" python -m bgbias index {dataset}"
        )
    table = read_table(paths["table"])
    test = table.split("test")
    photos, masks = ImageStore(paths["photos"]), ImageStore(paths["truth"])
    why = why_not_labelled(map(str, test.labels))
    others = len(table) - len(test)
    of_others = f"{others} photos of its other splits are not looked at"
    drawn = {i: partial(masks.read, i) for i in test.ids if i in masks}
    return Listing(
        name=dataset,
        table=test,
        labelled=not why,
        photos={
            i: SourcePhoto(i, partial(photos.read, i), drawn.get(i, no_mask), key=key)
            for i, (_, key) in zip(test.ids, test.keys, strict=True)
        },
        upright=False,
        others=tuple(set(table.ids) - set(test.ids)),
        remarks=tuple(filter(None, (why, of_others if others else ""))),
    )


def _explain_absence(path: Path, datasets: Iterable[str]) -> str:
    siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, [*datasets, *siblings], 1)
    hint = f" Did you mean '{near[0] if near[0] in datasets else path.parent / near[0]}'?" if near else ""
    return f"There is no folder or archive, no table and no dataset of params.yaml called {path}.{hint}"


def _sample(listing: Listing, count: int | None) -> Listing:
    table = listing.table
    if count is None or count >= len(table):
        return listing
    if count < (sampling.LEAST if listing.labelled else 1):
        raise UserError(
            f"A sample of {count} photos is too small: two of each of two classes make {sampling.LEAST}; say"
            f" --sample {sampling.LEAST} or more, or 0 for all."
        )
    if listing.labelled:
        drawn, most = sampling.sample_classes(table, SAMPLE, count)
        there, chosen = (len(set(t.labels)) for t in (table, drawn))
        of_each = "whole classes" if most is None else f"at most {most} photos of each"
        classes = f": {chosen} of {there} classes, {of_each}"
    else:
        drawn, classes = table.keyed(SAMPLE, count), ""
    remark = f"a sample of {len(drawn)} of {len(table)} photos{classes}"
    return replace(listing, table=drawn, remarks=(*listing.remarks, remark))


def _read_items(listing: Listing, validator: PhotoValidator) -> Iterator[Item]:
    for row in cast("list[dict[str, Any]]", listing.table.frame.to_dict("records")):
        name = row["image_id"]
        try:
            data, truth = listing.photos[name].read(), listing.photos[name].truth()
        except OSError as error:
            validator.leaves_out(name, "unreadable", f"'{name}' cannot be opened ({error.strerror}).")
        except UserError as error:
            validator.leaves_out(name, "unreadable", str(error))
        else:
            yield Item(**row, data=data, truth=truth)
