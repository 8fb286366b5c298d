"""Node: a dataset's table of images and its photo store."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from bgbias import progress
from bgbias.engine import inputs, records
from bgbias.engine.forecast import Cost, photos_of, size_of
from bgbias.engine.node import Dependencies, step
from bgbias.errors import UserError
from bgbias.files.store import writing
from bgbias.images import pixels
from bgbias.study import Study, plan
from bgbias.study.sources import parts_of

if TYPE_CHECKING:
    import pandas as pd

SUBJECT = ("dataset",)
OUTPUTS = {
    "table": "WORK/datasets/{dataset}/images.csv",
    "photos": "WORK/datasets/{dataset}/photos.zip",
    "truth": "WORK/datasets/{dataset}/truth.zip",
    "excluded": "WORK/datasets/{dataset}/excluded.csv",
    "index_record": "WORK/datasets/{dataset}/index.json",
}
COLLECTION = ("photos", "photos")


def depends(study: Study, dataset: str) -> Dependencies:
    entry = study.dataset(dataset)
    return Dependencies(
        files=inputs.parts(study, dataset),
        settings={"kind": entry.kind, "options": entry.options},
        code=[entry.module],
    )


def cost(study: Study, dataset: str) -> Cost:
    """The photos once more, in a store of our own."""
    images, unknown = photos_of(study, dataset)
    sizes = (size_of(study, dataset, sources) for sources in parts_of(study, dataset).values())
    return Cost(images, disk=sum(sizes), unknown=unknown)


def index(study: Study, dataset: str) -> None:
    """Make a dataset's table of images and its photo store. Broken photos are left out, listed and counted."""
    import pandas as pd

    from bgbias.photos.examination import LISTED, PhotoValidator
    from bgbias.photos.table import COLUMNS, GIVEN, PLACE, ImageTable

    entry = study.dataset(dataset)
    module, params = entry.module, entry.params()
    parts = {p: study.files.at("part", dataset=dataset, part=p) for p in parts_of(study, dataset)}
    with records.node(study, step("index", dataset=dataset)) as record:
        rows: list[dict[str, object]] = []
        upright = getattr(params, "upright", False)
        validator = PhotoValidator(_not_read(study, dataset, module, parts), upright=upright)
        with writing(record.outputs["photos"]) as photos, writing(record.outputs["truth"]) as truth:
            for item in progress.track(module.items(params, parts, dataset), None, f"index {dataset}"):
                if not validator.takes(item):
                    continue
                rows.append({c: getattr(item, c) for c in COLUMNS + GIVEN + PLACE})
                data = pixels.upright(item.data, item.image_id) if upright else item.data
                photos.add(item.image_id, data)
                if item.truth is not None:
                    truth.add(item.image_id, item.truth)
            for line in validator.describe(dataset):
                progress.say(line)
            # Inside the block, so that no store appears without its table.
            if not rows:
                raise UserError(
                    f"{dataset} has no readable photo ({len(validator.left_out)} were left out); see the lines above."
                )
            # Archives list files in any order; all that follows goes by class, then by name.
            has_split = plan.has_query_split(study, dataset)
            _check_given(rows, has_split, dataset)
            placed = PLACE if any(row["place"] for row in rows) else ()
            frame = pd.DataFrame(rows, columns=[*COLUMNS, *(GIVEN if has_split else ()), *placed])
            frame = frame.sort_values(["label", "image_id"], kind="stable")
            table = ImageTable(frame.reset_index(drop=True))
            _check_splits(study, frame, dataset)
        record.write("table", table.frame)
        excluded = pd.DataFrame(list(validator.left_out.items()), columns=["image_id", "reason"])
        record.write("excluded", excluded)
        classes = int(frame["label"].nunique())
        record.metrics |= {"photos": len(table), "classes": classes, "excluded": len(validator.left_out)}
        record.metrics |= {name: len(values) for name, values in validator.findings.items()}
        record.notes |= {name: values[:LISTED] for name, values in validator.findings.items()}
        for split, rest in frame.groupby("split"):
            record.metrics[f"photos_{split}"] = len(rest)
            record.metrics[f"classes_{split}"] = int(rest["label"].nunique())


def _not_read(study: Study, dataset: str, module: ModuleType, parts: dict[str, Path]) -> dict[str, str]:
    """Files of a user's own that did not come with the photos or their masks, or lie among them and are none, and why. Names of
    other parts than the photos say so.
    """
    if not hasattr(module, "left_out"):
        return {}
    sources = {}
    for part, place in parts.items():
        record = study.files.at("fetch_record", dataset=dataset, part=part)
        packed = records.read(record)["notes"].get("left_out", {}) if record.exists() else {}
        for name, reason in (packed | module.left_out(place)).items():
            sources[name if part == "photos" else f"{name} ({part})"] = reason
    return sources


def _check_given(rows: list[dict[str, object]], has_split: bool, dataset: str) -> None:
    """Cameras and queries that nobody would look at are refused."""
    declared = next((r for r in rows if r["camera"] or not (r["query"] and r["gallery"])), None)
    if declared and not has_split:
        raise UserError(
            f"{dataset} says who is asked among whom (e.g. of '{declared['image_id']}'), and the study does not know of it: set"
            f" datasets.{dataset}.options.given to true in params.yaml, or remove the columns query, gallery and camera."
        )


def _check_splits(study: Study, frame: pd.DataFrame, dataset: str) -> None:
    """Check that splits have photos to train and select, where the grid does, and to find."""
    trained = next((c for c in plan.cells(study) if c.dataset == dataset and plan.trains(study, c)), None)
    for split in ("train", "val"):
        if trained and not (frame["split"] == split).any():
            raise UserError(
                f"{dataset} has no {split} photos, and the grid {study.grid} trains on it ({trained.name}): give it some, or have"
                " the grid evaluate alone (`pretrained: true`, no losses; docs/study.md)."
            )
    for split in ("val", "test"):
        part = frame[frame["split"] == split]
        if part.empty or part["label"].duplicated().any():
            continue
        progress.say(
            f"{dataset}: no {split} photo has another one of its class ({len(part)} photos of as many classes), so that there is"
            f" nobody to find. Give its classes more photos, or split otherwise: datasets.{dataset}.options in params.yaml."
        )
