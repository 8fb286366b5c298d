"""Data nodes: files -> table and photos -> masks; background pools."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd

from bgbias import backgrounds as pools
from bgbias import fetching, images, plan, plugins, progress, records
from bgbias.atomic import replacing, write_json
from bgbias.checksums import Checksums
from bgbias.dataset_parts import parts_of, sources_of
from bgbias.errors import UserError
from bgbias.image_table import COLUMNS, ImageTable, Item
from bgbias.image_table import read as read_table
from bgbias.masking import COLUMNS as MASK_COLUMNS
from bgbias.masking import Mask
from bgbias.params import Study, options
from bgbias.store import ImageStore, writing

PHOTOS_PER_CHUNK = 128


def fetch(study: Study, dataset: str, part: str) -> None:
    """Bring one of a dataset's files to data/raw and verify it."""
    sources = sources_of(study, dataset, part)
    subject = {"dataset": dataset, "part": part}
    target, record = study.files.at("part", **subject), study.files.at("fetch_record", **subject)
    with records.node(study, "fetch", {"file": target}, record, label=f"{dataset}/{part}", **subject) as made:
        desk = fetching.Desk(
            Path(study.paths.downloads),
            Checksums(Path(study.paths.checksums), study.files.at("locks", name="checksums")),
        )
        used = fetching.fetch(sources, target, dataset, part=part, desk=desk)
        made.notes["source"] = used.model_dump()
        made.metrics["megabytes"] = target.stat().st_size / 1e6


def fetch_all(study: Study, dataset: str) -> None:
    """Bring all of a dataset's files; what is wrong with any of them is told when all were tried."""
    parts = parts_of(study, dataset)
    wrong = []
    for part in parts or ("photos",):
        try:
            fetch(study, dataset, part)
        except UserError as error:
            wrong.append(str(error))
    if wrong:
        raise UserError("\n\n".join(wrong))


def index(study: Study, dataset: str) -> None:
    """Make a dataset's table of images and its photo store. Broken photos are left out, listed and counted."""
    described = study.datasets[dataset]
    module = plugins.load("datasets", described.kind)
    params = options(study, "datasets", described.kind, described.options)
    parts = {p: study.files.at("part", dataset=dataset, part=p) for p in parts_of(study, dataset)}
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


def masks(study: Study, dataset: str, masker: str | None = None, device: str = "auto") -> None:
    """Make the mask of every photo, and a table of their quality. Goes on where an interrupted run stopped."""
    from bgbias.mask_quality import measure

    masker = masker or study.datasets[dataset].masker
    if masker not in study.maskers:
        raise UserError(f"params.yaml has no masker '{masker}'; there are: {', '.join(study.maskers)}.")
    subject = {"dataset": dataset, "masker": masker}
    outputs = {name: study.files.at(name, **subject) for name in ("masks", "mask_table")}
    record = study.files.at("masks_record", **subject)
    with records.node(study, "masks", outputs, record, label=f"{dataset}/{masker}", **subject) as made:
        table = read_table(study.files.at("table", dataset=dataset))
        photos = ImageStore(study.files.at("photos", dataset=dataset))
        truth = ImageStore(study.files.at("truth", dataset=dataset))
        work = record.parent / f".unfinished-{plan.digest(study, 'masks', **subject)}"
        work.mkdir(parents=True, exist_ok=True)
        make = _masker(study, masker, truth, device)
        chunks = [table.ids[i : i + PHOTOS_PER_CHUNK] for i in range(0, len(table), PHOTOS_PER_CHUNK)]
        for number, ids in enumerate(
            progress.track(chunks, len(chunks), f"masks {dataset} ({PHOTOS_PER_CHUNK} photos each)")
        ):
            part = work / f"{number:05d}.zip"
            if part.with_suffix(".json").exists():
                continue
            made_here = make([photos.array(i) for i in ids], ids)
            with writing(part) as store:
                for image_id, mask in zip(ids, made_here, strict=True):
                    if mask is not None:
                        store.add(image_id, images.encode_png(mask.alpha))
            rows = [
                {
                    "image_id": i,
                    **measure(m.alpha, m.confidence, truth.array(i, "L") if i in truth else None, i),
                }
                for i, m in zip(ids, made_here, strict=True)
                if m is not None
            ]
            write_json(part.with_suffix(".json"), rows)
        quality = _join(work, len(chunks), outputs)
        if not len(quality):
            raise UserError(
                f"{dataset} brings no true masks; name another masker at datasets.{dataset}.masker in params.yaml,"
                f" one of: {', '.join(study.maskers)}."
            )
        made.device = str(make.device)
        low, high = study.mask_policy.min_area, study.mask_policy.max_area
        made.metrics |= {
            "photos": len(table),
            "without_mask": len(table) - len(quality),
            "empty": int(quality["empty"].sum()),
            "full": int(quality["full"].sum()),
            "outside_policy": int((~quality["area"].between(low, high)).sum()),
            "mean_area": float(quality["area"].mean()),
            "mean_confidence": float(quality["confidence"].mean()),
        }
        if quality["iou"].notna().any():
            made.metrics |= {
                "mean_iou": float(quality["iou"].mean()),
                "mean_overlap": float(quality["overlap"].mean()),
            }
    for unfinished in record.parent.glob(
        ".unfinished-*"
    ):  # this run's, and those of settings that were given up
        shutil.rmtree(unfinished)


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


class _Masker:
    """The chosen masker, made to take (photos, ids) and to give a mask or nothing for each."""

    def __init__(self, device: str, make: object) -> None:
        self.device, self._make = device, make

    def __call__(self, photos: list[np.ndarray], ids: list[str]) -> list:
        return self._make(photos, ids)  # type: ignore[operator]


def _masker(study: Study, name: str, truth: ImageStore, device: str) -> _Masker:
    described = study.maskers[name]
    module = plugins.load("maskers", described.kind)
    params = options(study, "maskers", described.kind, described.options)
    if module.NEEDS_TRUTH:
        return _Masker(
            "cpu", lambda photos, ids: [Mask(truth.array(i, "L"), 1.0) if i in truth else None for i in ids]
        )
    from bgbias.device import pick

    masker = module.build(params, pick(device))
    return _Masker(masker.device, lambda photos, ids: masker(photos))


def _join(work: Path, chunks: int, outputs: dict[str, Path]) -> pd.DataFrame:
    rows: list[dict[str, object]] = []
    with writing(outputs["masks"]) as store:
        for number in range(chunks):
            part = ImageStore(work / f"{number:05d}.zip")
            for image_id in part.ids:
                store.add(image_id, part.read(image_id))
            rows += json.loads((work / f"{number:05d}.json").read_text())
    frame = pd.DataFrame(rows, columns=list(MASK_COLUMNS))
    with replacing(outputs["mask_table"]) as temporary:
        frame.to_csv(temporary, index=False)
    return frame
