"""A finished audit as a dataset of FiftyOne: what each query lost, beside its photo and mask, to filter and sort by."""

from pathlib import Path
from typing import Any

import pandas as pd

from bgbias.auditing import masker as masking
from bgbias.auditing.finished import Audit
from bgbias.auditing.masker import Masks
from bgbias.auditing.photos import choose, look_at
from bgbias.errors import UserError
from bgbias.files.pictures import locator
from bgbias.masks.policy import as_used
from bgbias.masks.settings import MaskPolicy
from bgbias.models.adapters._library import needed


def dataset(
    audit: Audit,
    folder: Path | str,
    masks: Path | str | None = None,
    masker: str = masking.DEFAULT,
    mask_weights: Path | None = None,
    name: str | None = None,
) -> Any:
    """A ``fiftyone.Dataset`` of the audit's photos, which lie in ``folder``: a sample each, with its class
    as ``ground_truth``, its mask as ``object`` (255: object), and every column of ``audit.to_frame()``.

    ``masks``, ``masker``, ``mask_weights``: those of the audit, whose masks are taken from the cache.
    ``name``: the dataset's; with one it stays in FiftyOne's database. A photo that is missing, and a name
    that is taken, are UserErrors.
    """
    fiftyone = needed("fiftyone", "fiftyone")
    root, locate, frame = Path(folder), locator(), audit.to_frame()
    collection = look_at(choose(root, masks))
    if absent := sorted(set(frame["image_id"]) - set(collection.table.ids)):
        raise UserError(f"{root / absent[0]} is missing; name the folder of the audited photos.")
    undrawn = [i for i in frame["image_id"] if not collection.has_truth(i)]
    masks_of = Masks(collection, masking.find(masker, mask_weights, "cpu") if undrawn else None)
    list(masks_of.make(undrawn))
    samples = []
    for row in frame.to_dict("records"):
        fields = {str(name): value for name, value in row.items() if pd.notna(value)}
        if label := fields.pop("class_name", ""):
            fields["ground_truth"] = fiftyone.Classification(label=label)
        if (mask := masks_of.of(row["image_id"])) is not None:
            fields["object"] = fiftyone.Segmentation(mask=as_used(mask.alpha, MaskPolicy(kind="threshold")))
        samples.append(fiftyone.Sample(filepath=str(locate(root / row["image_id"]).resolve()), **fields))
    try:
        made = fiftyone.Dataset(name, persistent=name is not None)
    except ValueError as error:
        raise UserError(f"{error}: give another, or call fiftyone.delete_dataset('{name}').") from error
    made.info = {"verdict": audit.verdict}
    made.add_samples(samples)
    return made
