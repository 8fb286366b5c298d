"""The list of a dataset's photos: which image, which class, which split, and by which key its backgrounds are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.photos import folds
from bgbias.photos.query_gallery import QueryGallerySplit

SPLITS = ("train", "val", "test", "unused")
COLUMNS = ("image_id", "label", "class_name", "split", "key_set", "key_item")
GIVEN = ("query", "gallery", "camera")
PLACE = ("place",)


@dataclass(frozen=True)
class Item:
    """One photo as a dataset delivers it.

    ``data`` holds the encoded picture (JPEG, PNG); ``truth``, where the dataset has one, the encoded true mask (PNG, mode L).
    ``key_set`` and ``key_item`` name the photo in the manifest of corrupted sets: ``cub200|test`` and its position in the full
    official split for built-in datasets, ``<dataset>|<split>`` and the image id for a user's own. Where a dataset says who is
    asked among whom, ``query`` and ``gallery`` do; ``camera`` is the one that took the photo, and ``place`` where or when
    it did, both empty where that is not known.
    """

    image_id: str
    class_name: str
    label: int
    split: str
    key_set: str
    key_item: str
    data: bytes
    truth: bytes | None = None
    query: bool = True
    gallery: bool = True
    camera: str = ""
    place: str = ""


@dataclass(frozen=True)
class ImageTable:
    """Photos in a fixed order; rows of ``frame`` are checked to have exactly the columns of ``COLUMNS``, and behind them those of
    ``GIVEN`` where the dataset says who is asked among whom, and ``PLACE`` where it says where photos were taken.
    """

    frame: pd.DataFrame

    def __post_init__(self) -> None:
        columns = tuple(self.frame.columns)
        if columns not in {COLUMNS + roles + location for roles in ((), GIVEN) for location in ((), PLACE)}:
            raise UserError(
                f"An image table has the columns {', '.join(COLUMNS)}; found {', '.join(self.frame.columns)}."
            )
        if strange := set(self.frame["split"]) - set(SPLITS):
            raise UserError(f"Unknown split {sorted(strange)[0]!r}; splits are {', '.join(SPLITS)}.")
        twice = self.frame["image_id"][self.frame["image_id"].duplicated()]
        if len(twice):
            raise UserError(f"Image {twice.iloc[0]!r} is listed twice; image ids must be unique.")

    def __len__(self) -> int:
        return len(self.frame)

    def split(self, name: str) -> ImageTable:
        """The photos of one split, in the table's order; an empty split is an error, since nothing can follow from it."""
        part = self.rows(self.frame["split"] == name)
        if not len(part):
            there = self.frame["split"].value_counts().to_dict()
            raise UserError(
                f"The split '{name}' has no photos (photos by split: {there}); check the dataset's `split` in params.yaml."
            )
        return part

    def rows(self, chosen: np.ndarray | pd.Series) -> ImageTable:
        """The photos in these rows: bool [N], or their numbers in the order that is wanted."""
        return ImageTable(self.frame.iloc[np.asarray(chosen)].reset_index(drop=True))

    def keyed(self, purpose: str, count: int | None) -> ImageTable:
        """Some photos, the same ones for every model, since they are drawn by names alone: the first ``count`` (all if None) in
        the order of the numbers of "<purpose>|<key_set>|<key_item>".
        """
        numbers = [seeds.number(seeds.key(purpose, *key)) for key in self.keys]
        return self.rows(np.argsort(np.array(numbers, dtype=np.uint64), kind="stable")[:count])

    @property
    def used(self) -> ImageTable:
        """The photos that some split uses."""
        return self.rows(self.frame["split"] != "unused")

    def of_fold(self, fold: int) -> ImageTable:
        """The table with the training and validation classes of a fold (see folds.py)."""
        if not fold:
            return self
        splits = self.frame["split"]
        train, val = (sorted(self.frame.loc[splits == name, "label"].unique()) for name in ("train", "val"))
        chosen = self.frame["label"].isin(folds.validating(train, val, fold))
        half = splits.isin(["train", "val"])
        split = splits.mask(half & chosen, "val").mask(half & ~chosen, "train")
        return ImageTable(self.frame.assign(split=split))

    @property
    def ids(self) -> list[str]:
        """Image ids, in order."""
        return self.frame["image_id"].tolist()

    @property
    def labels(self) -> np.ndarray:
        """Class numbers, int64 [N]."""
        return self.frame["label"].to_numpy(np.int64)

    @property
    def keys(self) -> list[tuple[str, str]]:
        """(key_set, key_item) of each photo: its name in the manifest of corrupted sets."""
        return list(zip(self.frame["key_set"], self.frame["key_item"], strict=True))

    @property
    def given(self) -> QueryGallerySplit | None:
        """Who is asked among whom; None where every photo is asked among all others."""
        if "camera" not in self.frame:
            return None
        query, gallery, camera = (self.frame[name] for name in GIVEN)
        numbers = camera.where(camera != "").astype("category").cat.codes.to_numpy(np.int64)
        return QueryGallerySplit(query.to_numpy(bool), gallery.to_numpy(bool), numbers)

    @property
    def places(self) -> list[str] | None:
        """Where or when each photo was taken, empty where that is not known; None where it is not known of any."""
        return self.frame["place"].tolist() if "place" in self.frame else None

    def labelled(self, values: pd.DataFrame) -> pd.DataFrame:
        """``values``, whose rows name photos of this table by ``image_id``, with the photos' ``label`` behind it."""
        of_photo = self.frame.set_index("image_id")["label"]
        columns = list(values.columns)
        columns.insert(columns.index("image_id") + 1, "label")
        return values.assign(label=values["image_id"].map(of_photo))[columns]


def read_table(path: Path) -> ImageTable:
    """The table that `index` wrote."""
    if not path.exists():
        raise UserError(f"{path} is missing; make it with: python -m bgbias index {path.parent.name}")
    kept_as_text = {c: str for c in (*COLUMNS, "camera", "place") if c != "label"}
    return ImageTable(pd.read_csv(path, dtype=kept_as_text, keep_default_na=False))
