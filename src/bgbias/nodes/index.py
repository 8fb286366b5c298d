"""Node: a dataset's table of images and its photo store."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from bgbias import plugins, progress
from bgbias.engine import digests, inputs, records
from bgbias.engine.forecast import Cost, photos_of, size_of
from bgbias.engine.node import Made, step
from bgbias.errors import UserError
from bgbias.files.atomic import write_text
from bgbias.study.params import Study, options
from bgbias.study.sources import parts_of

if TYPE_CHECKING:
    from bgbias.photos.table import Item


SUBJECT = ("dataset",)
OUTPUTS = {
    "table": "WORK/datasets/{dataset}/images.csv",
    "photos": "WORK/datasets/{dataset}/photos.zip",
    "truth": "WORK/datasets/{dataset}/truth.zip",
    "excluded": "WORK/datasets/{dataset}/excluded.csv",
    "index_record": "WORK/datasets/{dataset}/index.json",
}
COLLECTION = ("photos", "photos")


def reads(study: Study, dataset: str) -> dict[str, Made]:
    """The files that the dataset is made of."""
    return inputs.parts(study, dataset)


def settings(study: Study, dataset: str) -> dict[str, Any]:
    """The dataset's kind and its options."""
    described = study.datasets[dataset]
    return {"kind": described.kind, "options": described.options}


def uses(study: Study, dataset: str) -> list[ModuleType]:
    """The dataset's kind."""
    return [plugins.load("datasets", study.datasets[dataset].kind)]


def cost(study: Study, dataset: str) -> Cost:
    """The photos once more, in a store of our own."""
    images, unknown = photos_of(study, dataset)
    sizes = (size_of(study, dataset, sources) for sources in parts_of(study, dataset).values())
    return Cost(images, disk=sum(sizes), unknown=unknown)


def index(study: Study, dataset: str) -> None:
    """Make a dataset's table of images and its photo store. Broken photos are left out, listed and counted."""
    import pandas as pd

    from bgbias.files.store import writing
    from bgbias.photos.table import COLUMNS, ImageTable

    described = study.datasets[dataset]
    module = plugins.load("datasets", described.kind)
    params = options(study, "datasets", described.kind, described.options)
    parts = {p: study.files.at("part", dataset=dataset, part=p) for p in parts_of(study, dataset)}
    for named in parts:
        _check_is_planned(study, dataset, named)
    with records.node(study, step("index", dataset=dataset)) as made:
        outputs = made.outputs
        rows: list[dict[str, object]] = []
        broken: list[dict[str, str]] = []
        with writing(outputs["photos"]) as photos, writing(outputs["truth"]) as truth:
            for item in progress.track(module.items(params, parts, dataset), None, f"index {dataset}"):
                reason = _fault(item)
                if reason:
                    broken.append({"image_id": item.image_id, "reason": reason})
                    progress.say(f"left out: {reason}")
                    continue
                rows.append({c: getattr(item, c) for c in COLUMNS})
                photos.add(item.image_id, item.data)
                if item.truth is not None:
                    truth.add(item.image_id, item.truth)
            # Inside the block, so that no store appears without its table.
            if not rows:
                raise UserError(
                    f"{dataset} has no readable photo ({len(broken)} were left out); see the lines above."
                )
            # Archives list files in any order; all that follows goes by class, then by name.
            frame = pd.DataFrame(rows, columns=list(COLUMNS))
            frame = frame.sort_values(["label", "image_id"], kind="stable")
            table = ImageTable(frame.reset_index(drop=True))
        table.write(outputs["table"])
        excluded = pd.DataFrame(broken, columns=["image_id", "reason"])
        write_text(outputs["excluded"], excluded.to_csv(index=False))
        classes = int(frame["label"].nunique())
        made.metrics |= {"photos": len(table), "classes": classes, "excluded": len(broken)}
        for split, part in frame.groupby("split"):
            made.metrics[f"photos_{split}"] = len(part)
            made.metrics[f"classes_{split}"] = int(part["label"].nunique())


def _check_is_planned(study: Study, dataset: str, part: str) -> None:
    """What was fetched before its source was changed would be read in silence by who types ``index`` alone."""
    subject = {"dataset": dataset, "part": part}
    record = study.files.at("fetch_record", **subject)
    if record.exists() and records.read(record).get("digest") != digests.digest(study, "fetch", **subject):
        raise UserError(
            f"{dataset}: the source of '{part}' has changed since it was fetched; run: python -m bgbias fetch {dataset} {part}"
        )


def _fault(item: Item) -> str | None:
    """Why a photo cannot be used, or nothing."""
    from bgbias.images import pixels

    try:
        size = pixels.decode(item.data, item.image_id).shape[:2]
        if item.truth is not None and pixels.decode(item.truth, item.image_id, "L").shape != size:
            return f"'{item.image_id}': photo and true mask differ in size"
    except UserError as error:
        return str(error)
    return None
