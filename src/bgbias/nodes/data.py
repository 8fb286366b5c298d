"""Data nodes: archive -> table and photos; background pools. Masks have a file of their own."""

from __future__ import annotations

import hashlib

import pandas as pd

from bgbias import backgrounds as pools
from bgbias import fetching, images, plan, plugins, progress, records
from bgbias.atomic import replacing
from bgbias.errors import UserError
from bgbias.image_table import COLUMNS, ImageTable, Item
from bgbias.params import Study, options
from bgbias.store import writing


def fetch(study: Study, dataset: str) -> None:
    """Bring a dataset's archive to data/raw and verify it."""
    sources = plan.dataset_sources(study, dataset)
    if not sources:
        raise UserError(
            f"{dataset} has nothing to fetch: it is rendered by `python -m bgbias index {dataset}`."
        )
    archive = study.files.at("archive", dataset=dataset)
    record = study.files.at("fetch_record", dataset=dataset)
    with records.node(study, "fetch", {"archive": archive}, record, dataset=dataset) as made:
        used = fetching.fetch(sources, archive, dataset)
        made.notes["source"] = used.model_dump()
        made.metrics["megabytes"] = archive.stat().st_size / 1e6


def index(study: Study, dataset: str) -> None:
    """Make a dataset's table of images and its photo store. Broken photos are left out, listed and counted."""
    described = study.datasets[dataset]
    module = plugins.load("datasets", described.kind)
    params = options(study, "datasets", described.kind, described.options)
    outputs = {
        name: study.files.at(name, dataset=dataset) for name in ("table", "photos", "truth", "excluded")
    }
    archive = study.files.at("archive", dataset=dataset)
    with records.node(
        study, "index", outputs, study.files.at("index_record", dataset=dataset), dataset=dataset
    ) as made:
        rows: list[dict[str, object]] = []
        broken: list[dict[str, str]] = []
        with writing(outputs["photos"]) as photos, writing(outputs["truth"]) as truth:
            for item in progress.track(module.items(params, archive, dataset), None, f"index {dataset}"):
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


def backgrounds(study: Study, pool: str) -> None:
    """Make the three pools of a background set, and refuse photos that stand in two of them."""
    if pool not in study.backgrounds:
        raise UserError(
            f"params.yaml has no backgrounds '{pool}'; there are: {', '.join(study.backgrounds)}."
        )
    described = study.backgrounds[pool]
    outputs = {role: study.files.at("pool", pool=pool, role=role) for role in pools.ROLES}
    outputs["table"] = study.files.at("pool_table", pool=pool)
    with records.node(
        study, "backgrounds", outputs, study.files.at("backgrounds_record", pool=pool), pool=pool
    ) as made:
        rows = []
        role_of: dict[str, str] = {}
        for role in pools.ROLES:
            with writing(outputs[role]) as store:
                for name, data in pools.photos(getattr(described, role), role):
                    height, width = images.decode(data, name).shape[:2]
                    sha256 = hashlib.sha256(data).hexdigest()
                    for identity in (name, sha256):
                        if role_of.setdefault(identity, role) != role:
                            raise UserError(
                                f"The background '{name}' stands in the pools {role_of[identity]} and {role} of {pool}; they must"
                                " be disjoint. Change `source` or `part` under `backgrounds` in params.yaml."
                            )
                    store.add(name, data)
                    licence = getattr(described, role).licence
                    rows.append([role, name, width, height, licence, sha256])
        with replacing(outputs["table"]) as temporary:
            columns = ["pool", "name", "width", "height", "licence", "sha256"]
            pd.DataFrame(rows, columns=columns).to_csv(temporary, index=False)
        made.metrics |= {f"photos_{role}": sum(r[0] == role for r in rows) for role in pools.ROLES}


def _fault(item: Item) -> str | None:
    """Why a photo cannot be used, or nothing."""
    try:
        size = images.decode(item.data, item.image_id).shape[:2]
        if item.truth is not None and images.decode(item.truth, item.image_id, "L").shape != size:
            return f"'{item.image_id}': photo and true mask differ in size"
    except UserError as error:
        return str(error)
    return None
