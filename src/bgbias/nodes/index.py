"""Data nodes: files -> table and photos."""

from __future__ import annotations

import pandas as pd

from bgbias import plugins, progress
from bgbias.engine import digests, records
from bgbias.errors import UserError
from bgbias.files.atomic import replacing
from bgbias.files.store import writing
from bgbias.images import pixels
from bgbias.photos.table import COLUMNS, ImageTable, Item
from bgbias.study.params import Study, options
from bgbias.study.sources import parts_of


def index(study: Study, dataset: str) -> None:
    """Make a dataset's table of images and its photo store. Broken photos are left out, listed and counted."""
    described = study.datasets[dataset]
    module = plugins.load("datasets", described.kind)
    params = options(study, "datasets", described.kind, described.options)
    parts = {p: study.files.at("part", dataset=dataset, part=p) for p in parts_of(study, dataset)}
    for named in parts:
        _check_is_planned(study, dataset, named)
    outputs = {
        name: study.files.at(name, dataset=dataset) for name in ("table", "photos", "truth", "excluded")
    }
    with records.node(
        study, "index", outputs, study.files.at("index_record", dataset=dataset), dataset=dataset
    ) as made:
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
            frame = pd.DataFrame(rows, columns=list(COLUMNS)).sort_values(
                ["label", "image_id"], kind="stable"
            )
            table = ImageTable(frame.reset_index(drop=True))
        table.write(outputs["table"])
        with replacing(outputs["excluded"]) as temporary:
            pd.DataFrame(broken, columns=["image_id", "reason"]).to_csv(temporary, index=False)
        made.metrics |= {
            "photos": len(table),
            "classes": int(frame["label"].nunique()),
            "excluded": len(broken),
        }
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
    try:
        size = pixels.decode(item.data, item.image_id).shape[:2]
        if item.truth is not None and pixels.decode(item.truth, item.image_id, "L").shape != size:
            return f"'{item.image_id}': photo and true mask differ in size"
    except UserError as error:
        return str(error)
    return None
