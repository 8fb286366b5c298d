"""A finished audit as a dataset of FiftyOne: what each query lost, beside its photo and mask, to filter and sort by."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bgbias.auditing.finished import Audit
from bgbias.auditing.masker import FOLDER
from bgbias.errors import UserError
from bgbias.files import places
from bgbias.files.checksums import sha256
from bgbias.files.pictures import walk
from bgbias.images import drawn_masks
from bgbias.masks.mask_cache import KeptMasks
from bgbias.masks.policy import as_used
from bgbias.masks.settings import MaskPolicy
from bgbias.models.adapters._library import import_extra
from bgbias.photos.listing import Listing, SourcePhoto

SHARP = MaskPolicy(kind="threshold")


def dataset(
    audit: Audit, folder: Path | str, masks: Path | str | None = None, name: str | None = None
) -> Any:
    """A ``fiftyone.Dataset`` of the audited photos, which lie in ``folder`` as files: a sample each, with its
    class as ``ground_truth``, its mask as ``object`` (255), and every column of ``audit.to_frame()``.

    ``masks``: the folder of drawn ones, if the audit had some; others are those that its segmentation model
    left in the cache of this computer, and a photo of neither has no ``object``. ``name``: the dataset's; with
    one it stays in FiftyOne's database. A missing photo, and a name that is taken, are UserErrors.
    """
    fiftyone = import_extra("fiftyone", "fiftyone")
    if name and fiftyone.dataset_exists(name):
        raise UserError(
            f"FiftyOne has a dataset '{name}'; give another name, or call fiftyone.delete_dataset('{name}')."
        )
    root, frame = Path(folder).expanduser(), audit.to_frame()
    files, ids = walk(root)[0], set(frame["image_id"])
    if absent := sorted(ids - files.keys()):
        raise UserError(
            f"{root} has no file '{absent[0]}'; name the folder of the audited photos, and unpack an archive before."
        )
    photos = [SourcePhoto(i, files[i].read_bytes) for i in sorted(ids)]
    listing = replace(Listing.from_photos(str(root), photos), others=tuple(files.keys() - ids))
    if masks is not None:
        path = Path(masks).expanduser()
        listing = listing.with_masks(path, str(path), f"bgbias doctor {root} --masks {path}")
    key = audit.numbers["masks"]["key"]
    caches = [KeptMasks(cache) for cache in (places.cache() / FOLDER).glob(f"*-{key}")] if key else []

    def find_mask(photo: SourcePhoto) -> np.ndarray | None:
        if drawn := photo.truth():
            return drawn_masks.decode_mask(drawn, f"mask of {photo.image_id}")
        checksum = sha256(files[photo.image_id])
        return next((cache.read(checksum).alpha for cache in caches if checksum in cache), None)

    def make_samples() -> Iterator[Any]:
        for row in frame.to_dict("records"):
            fields = {str(column): value for column, value in row.items() if pd.notna(value)}
            if label := fields.pop("class_name", ""):
                fields["ground_truth"] = fiftyone.Classification(label=label)
            if (alpha := find_mask(listing.photos[row["image_id"]])) is not None:
                fields["object"] = fiftyone.Segmentation(mask=as_used(alpha, SHARP))
            yield fiftyone.Sample(filepath=str(files[row["image_id"]].resolve()), **fields)

    try:
        result = fiftyone.Dataset(name, persistent=name is not None)
    except ValueError as error:  # a name that FiftyOne does not take
        raise UserError(f"{error}; give another name.") from error
    result.default_mask_targets = {255: "object"}
    result.info = {"verdict": audit.verdict}
    result.add_samples(make_samples(), num_samples=len(frame))
    return result
