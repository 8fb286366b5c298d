"""Node: a dataset's masks. Those of photos seen before are taken over, only new photos are masked."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bgbias import progress
from bgbias.compute.device import describe
from bgbias.engine import inputs, records
from bgbias.engine.forecast import MASK_BYTES, Cost, photos_of, threads_by_photos
from bgbias.engine.node import Dependencies, Limits, files_of, step
from bgbias.errors import UserError
from bgbias.files.store import ImageStore, writing
from bgbias.images import pixels
from bgbias.study.params import Study
from bgbias.study.sources import masker_identity, weights_file

if TYPE_CHECKING:
    import pandas as pd

    from bgbias.masks.mask_cache import KeptMasks
    from bgbias.masks.policy import Mask
    from bgbias.masks.predictor import MaskPredictor
    from bgbias.photos.table import ImageTable


AT_ONCE = 128  # photos in memory, decoded: a GPU is kept busy
LISTED = 100  # photos without a mask that the record names

# An image id to its mask, whose confidence is NaN where somebody drew it; None where there is none.
Source = Callable[[str], "Mask | None"]

SUBJECT = ("dataset", "masker")
OUTPUTS = {
    "masks": "WORK/masks/{dataset}/{masker}/masks.zip",
    "mask_table": "WORK/masks/{dataset}/{masker}/masks.csv",
    "masks_record": "WORK/masks/{dataset}/{masker}/masks.json",
}
LIMITS = Limits(memory_mb=8000, minutes=720)
COLLECTION = ("masks", "masks")


def subjects(study: Study, dataset: str, masker: str | None = None) -> list[dict[str, str]]:
    """The dataset's own masker, if none is named; an unknown one is an error."""
    return [{"dataset": dataset, "masker": study.masker(masker or study.datasets[dataset].masker).name}]


def depends(study: Study, dataset: str, masker: str) -> Dependencies:
    photos = files_of(step("index", dataset=dataset), "table", "photos", "truth")
    chosen = study.masker(masker)
    return Dependencies(photos | inputs.weights(chosen), masker_identity(study, masker), [chosen.module])


def keep(study: Study, record: dict[str, Any], dataset: str, masker: str) -> None:
    """Photos that stay in the dataset are not masked again, though their masks came without the cache (``dvc pull``)."""
    from bgbias.masks.mask_cache import KeptMasks
    from bgbias.masks.policy import read_mask_table

    key = record.get("notes", {}).get("masker_key")
    masks, table = (study.files.at(name, dataset=dataset, masker=masker) for name in ("masks", "mask_table"))
    if key and masks.exists() and table.exists():
        cached = KeptMasks(study.files.at("mask_cache", masker=masker, key=key))
        cached.adopt(ImageStore(masks), read_mask_table(table))


def threads(study: Study, dataset: str, masker: str) -> int:
    return threads_by_photos(study, dataset)


def cost(study: Study, dataset: str, masker: str) -> Cost:
    """Every photo once through the masker's network, whose masks are also kept by photo."""
    images, unknown = photos_of(study, dataset)
    copies = 2 if study.masker(masker).module.PREDICTS else 1
    return Cost(images, (images, images), disk=copies * images * MASK_BYTES, unknown=unknown)


def masks(study: Study, dataset: str, masker: str | None = None, device: str = "auto") -> None:
    """Mask every photo that a split uses. Also makes a table of the masks' quality; resumes an interrupted run."""
    from bgbias.masks.mask_cache import KeptMasks
    from bgbias.photos.table import read_table

    (subject,) = subjects(study, dataset, masker)
    masker = subject["masker"]
    with records.node(study, step("masks", **subject)) as record:
        table = read_table(study.files.at("table", dataset=dataset)).used
        photos = ImageStore(study.files.at("photos", dataset=dataset))
        truth = ImageStore(study.files.at("truth", dataset=dataset))
        keys = {i: photo_key(photos.read(i)) for i in table.ids}
        if study.masker(masker).module.PREDICTS:
            predictor = find_predictor(study, masker, device)
            record.notes["masker_key"] = predictor.key
            cached = KeptMasks(study.files.at("mask_cache", masker=masker, key=predictor.key))
            new = {key: i for i, key in reversed(keys.items()) if key not in cached}
            record.metrics |= {"reused": len(set(keys.values())) - len(new), "computed": len(new)}
            record.device = _predict(predictor, photos, new, cached, f"masks {dataset}")
            quality = _write(keys, lambda i: cached.read(keys[i]), photos, truth, record)
            cached.delete_others()
            if guesses := predictor.guesses:
                record.notes["guesses"] = guesses
                progress.say(f"{dataset}: masker {masker}: {guesses}; its options in params.yaml can say it")
        else:
            quality = _write(keys, _given(study, masker, photos, truth, table.ids), photos, truth, record)
        if not len(quality):
            raise UserError(
                f"Masker '{masker}' has no mask for any photo of {dataset}; name another one at datasets.{dataset}.masker"
                f" in params.yaml, one of: {', '.join(study.maskers)}."
            )
        without = sorted(set(keys) - set(quality["image_id"]))
        if without:
            record.notes["without_mask"] = without[:LISTED]
            progress.say(f"{dataset}: {len(without)} photos have no mask, the first of them {without[0]}")
        counts = {"photos": len(table), **summary(quality, len(table), study)}
        record.metrics |= {name: value for name, value in counts.items() if not math.isnan(value)}
        both_empty = quality["image_id"].isin(truth.ids) & quality["iou"].isna()
        if both_empty.any():
            record.metrics["iou_of_two_empty"] = int(both_empty.sum())
        _check_queries(study, quality, table, f"{dataset}: behind the masks of '{masker}'")


def photo_key(data: bytes) -> str:
    """A photo as the mask table knows it: 16 hex digits of the SHA-256 of its encoded bytes."""
    return hashlib.sha256(data).hexdigest()[:16]


def find_predictor(study: Study, masker: str, device: str) -> MaskPredictor:
    """A masker of params.yaml that predicts; fetched weights are the file that the node ``weights`` makes."""
    from bgbias.masks.predictor import MaskPredictor

    entry = study.masker(masker)
    params = entry.params()
    if entry.is_fetched:
        params = params.model_copy(update={"weights": str(weights_file(study, entry))})
    return MaskPredictor(entry.kind, params, device)


def _predict(
    masker: MaskPredictor, photos: ImageStore, new: dict[str, str], cached: KeptMasks, label: str
) -> str:
    """Mask the photos that are ``new`` (key to image id); gives the device that was used."""
    if not new:
        return "cpu"
    predict = masker.build()
    progress.say(f"{label}: {len(new)} photos to mask; what is done stays done")
    ordered = dict(sorted(new.items(), key=lambda item: item[1]))
    for _ in progress.track(cached.make(predict, ordered, photos.array, AT_ONCE), len(new), label):
        pass
    return describe(str(predict.device))


def _given(study: Study, masker: str, photos: ImageStore, truth: ImageStore, ids: list[str]) -> Source:
    from bgbias.images import drawn_masks
    from bgbias.masks.policy import Mask

    entry = study.masker(masker)
    alpha_of = entry.module.given(entry.params(), truth, ids)

    def find(image_id: str) -> Mask | None:
        alpha = alpha_of(image_id)
        if alpha is None:
            return None
        cure = "Set `upright: true` in the dataset's options in params.yaml, or turn the mask."
        drawn_masks.check_turned_alike(photos.read(image_id), alpha, image_id, cure)
        return Mask(alpha, math.nan)

    return find


def _write(
    keys: dict[str, str], mask_of: Source, photos: ImageStore, truth: ImageStore, record: records.Record
) -> pd.DataFrame:
    """Masks and their table, one row a photo that has a mask, in the dataset's order."""
    import pandas as pd

    from bgbias.masks.policy import COLUMNS
    from bgbias.masks.quality import measure

    rows: list[dict[str, Any]] = []
    with writing(record.outputs["masks"]) as store:
        for image_id, key in progress.track(keys.items(), len(keys), "measuring masks"):
            mask = mask_of(image_id)
            if mask is None:
                continue
            alpha = mask.alpha
            height, width = pixels.size(photos.read(image_id), image_id)
            if alpha.shape != (height, width):
                raise UserError(
                    f"The mask of '{image_id}' is {alpha.shape[1]}x{alpha.shape[0]} pixels, the photo {width}x{height};"
                    " save the mask at the photo's size, then repeat the command."
                )
            true = truth.array(image_id, "L") if image_id in truth else None
            store.add(image_id, pixels.encode_png(alpha))
            measured = measure(alpha, mask.confidence, true, image_id)
            rows.append({"image_id": image_id, "sha256": key, **measured})
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    record.write("mask_table", frame)
    return frame


def _check_queries(study: Study, quality: pd.DataFrame, table: ImageTable, subject: str) -> None:
    """Masks that leave a split without a query are reported before anything is trained: of the test split they are an error."""
    from bgbias.masks import policy

    usable = policy.usable(quality, study.mask_policy)
    flags = quality.set_index("image_id")[["empty", "full"]]
    for split, part in table.frame.groupby("split"):
        queries = part["image_id"].isin(usable)
        if split == "test":  # who is alone has nobody to find
            queries &= part["label"].duplicated(keep=False)
        nothing = split == "test" and bool(quality["empty"].all())
        if split == "unused" or (queries.any() and not nothing):
            continue
        empty, full = (int(n) for n in flags.reindex(part["image_id"]).fillna(False).astype(bool).sum())
        sizes = part["label"].value_counts()
        text = (
            f"{subject} no {split} photo can have its background replaced and be a query: of {len(part)} photos of {len(sizes)}"
            f" classes ({int((sizes == 1).sum())} of one photo) {empty} have an empty mask, {full} a full one and"
            f" {len(part) - int(part['image_id'].isin(flags.index).sum())} none. Look at the masks, then name another masker or"
            " correct its files, or loosen `mask_policy` in params.yaml (docs/masks.md)."
        )
        if split == "test":
            raise UserError(text)
        progress.say(text)


def summary(quality: pd.DataFrame, photos: int, study: Study) -> dict[str, float]:
    """Counts and means of a mask table of so many photos; NaN for the mean of what is known of none."""
    low, high = study.mask_policy.min_area, study.mask_policy.max_area
    counted = {
        "without_mask": photos - len(quality),
        "empty": int(quality["empty"].sum()),
        "full": int(quality["full"].sum()),
        "outside_policy": int((~quality["area"].between(low, high)).sum()),
    }
    measured = ("area", "confidence", "clarity", "iou", "overlap", "off_object")
    return counted | {f"mean_{name}": float(quality[name].mean()) for name in measured}
