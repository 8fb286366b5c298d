"""Masks that were made before, found again by their photo's bytes: adding photos to a dataset masks the new ones only.

They lie outside declared outputs, which Snakemake deletes before a job. An entry is a store of masks with a table that says of
which photo each one is (``image_id``, ``sha256``, ``confidence``). An unfinished run leaves one entry for each chunk, a finished
one a single entry, whose store is a second name (hard link) of the declared output and takes no space. All datasets share what
one masker made; what a masker with other options or weights made for a dataset is dropped when the next ones are finished.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd

from bgbias import plugins
from bgbias.engine import digests
from bgbias.errors import UserError
from bgbias.files import code
from bgbias.files.atomic import link_or_copy, replacing, write_text
from bgbias.files.checksums import sha256
from bgbias.files.places import source
from bgbias.files.store import ImageStore, writing
from bgbias.images import pixels
from bgbias.masks.policy import Mask
from bgbias.study import weights as pretrained
from bgbias.study.params import Study

COLUMNS = ("image_id", "sha256", "confidence")


def photo_key(data: bytes) -> str:
    """A photo as the cache knows it: 16 hex digits of the SHA-256 of its encoded bytes."""
    return hashlib.sha256(data).hexdigest()[:16]


def masker_key(study: Study, masker: str) -> str:
    """A masker as the cache knows it: 16 hex digits of its kind, options, code and the bytes of its weights."""
    module = plugins.load("maskers", study.maskers[masker].kind)
    identity = {"code": code.fingerprint(module.__name__), **pretrained.masker_identity(study, masker)}
    if pretrained.fetched(study, owner := pretrained.owner("maskers", masker)):
        identity["fetched_weights"] = digests.digest(study, "weights", owner=owner)
    weights = identity["options"].get("weights")
    if weights and source(weights).is_file():
        identity["weights"] = sha256(source(weights))
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:16]


class MaskCache:
    """The masks that a masker has made, whatever for, and the place where those of one dataset are kept."""

    def __init__(self, study: Study, dataset: str, masker: str) -> None:
        key = masker_key(study, masker)
        self._folder = study.files.at("mask_cache", dataset=dataset, masker=masker, key=key)
        self._found: dict[str, tuple[ImageStore, str, float]] = {}
        everywhere = study.files.at("mask_cache", dataset="*", masker="*", key=key)
        root = Path(*everywhere.parts[: everywhere.parts.index("*")])
        for table in sorted(root.glob(str(everywhere.relative_to(root) / "*.csv"))):
            self._open(table)

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def read(self, key: str) -> tuple[bytes, float]:
        """The encoded mask of the photo with this key, and its maker's confidence."""
        store, image_id, confidence = self._found[key]
        return store.read(image_id), confidence

    def add(self, masks: dict[str, tuple[str, Mask]]) -> None:
        """Keep a chunk of new masks: photo keys to image id and mask. What is added survives an interruption."""
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / f"part-{min(masks)}.zip"
        with writing(part) as store:
            for image_id, mask in masks.values():
                store.add(image_id, pixels.encode_png(mask.alpha))
        rows = [(image_id, key, mask.confidence) for key, (image_id, mask) in masks.items()]
        # Last: an entry without its table does not exist.
        with replacing(part.with_suffix(".csv")) as temporary:
            pd.DataFrame(rows, columns=list(COLUMNS)).to_csv(temporary, index=False)
        self._open(part.with_suffix(".csv"))

    def finish(self, masks: Path, table: pd.DataFrame) -> None:
        """Keep a dataset's finished masks under a second name, in place of its chunks and of what other settings made."""
        kept = _keep(self._folder, masks, table)
        for older in self._folder.iterdir():
            if older.stem != kept.stem:
                older.unlink()
        for other in self._folder.parent.iterdir():
            if other != self._folder:
                shutil.rmtree(other)

    def _open(self, table: Path) -> None:
        try:
            store = ImageStore(table.with_suffix(".zip"))
            frame = _read(table)
            rows = list(zip(*(frame[c] for c in COLUMNS), strict=True))
            if len(store):
                store.read(store.ids[0])  # opens the file now: another job may drop its name at any time
        except (UserError, OSError, ValueError, KeyError):
            return  # what is damaged or was dropped just now is made again
        for image_id, key, confidence in rows:
            if image_id in store:
                self._found.setdefault(key, (store, image_id, float(confidence)))


def adopt(study: Study, dataset: str, masker: str, record: dict[str, Any]) -> None:
    """Keep finished masks that came from elsewhere (``dvc pull``), before Snakemake deletes them to make new ones."""
    key = record.get("notes", {}).get("masker_key")
    subject = {"dataset": dataset, "masker": masker}
    masks, table = (study.files.at(name, **subject) for name in ("masks", "mask_table"))
    if key and masks.exists() and table.exists():
        folder = study.files.at("mask_cache", **subject, key=key)
        if not any(folder.glob("*.csv")):
            _keep(folder, masks, _read(table))


def _read(table: Path) -> pd.DataFrame:
    return pd.read_csv(table, dtype={"image_id": str, "sha256": str}, keep_default_na=False)


def _keep(folder: Path, masks: Path, table: pd.DataFrame) -> Path:
    """A new entry of the cache: the store under a second name, and its table, which is given back."""
    folder.mkdir(parents=True, exist_ok=True)
    text = table[list(COLUMNS)].to_csv(index=False)
    # A name for these masks alone: another job may be reading the entry that this one replaces.
    entry = folder / f"all-{hashlib.sha256(text.encode()).hexdigest()[:16]}.zip"
    with replacing(entry) as temporary:
        link_or_copy(masks, temporary)
    write_text(entry.with_suffix(".csv"), text)
    return entry.with_suffix(".csv")
