"""The files that each node reads, by role; apart from ``plan``, which knows what they mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bgbias.errors import UserError
from bgbias.study import plan
from bgbias.study import weights as pretrained
from bgbias.study.cell import Cell
from bgbias.study.params import Study
from bgbias.study.sources import parts_of


def inputs(study: Study, node: str, **subject: Any) -> dict[str, Path]:
    """The files a node reads, by role."""
    return _INPUTS[node](study, **subject)


def _index_inputs(study: Study, dataset: str) -> dict[str, Path]:
    return {p: study.files.at("part", dataset=dataset, part=p) for p in parts_of(study, dataset)}


def _photo_inputs(study: Study, dataset: str) -> dict[str, Path]:
    return {name: study.files.at(name, dataset=dataset) for name in ("table", "photos")}


def _object_inputs(study: Study, dataset: str) -> dict[str, Path]:
    """Where the dataset says where its objects are."""
    if plan.truth(study, dataset) == "boxes":
        return {f"fetched {n}": p for n, p in _index_inputs(study, dataset).items()}
    return {"truth": study.files.at("truth", dataset=dataset)}


def _masks_inputs(study: Study, dataset: str, masker: str) -> dict[str, Path]:
    weights = pretrained.inputs(study, pretrained.owner("maskers", masker))
    return _photo_inputs(study, dataset) | {"truth": study.files.at("truth", dataset=dataset)} | weights


def _propose_inputs(study: Study, pool: str) -> dict[str, Path]:
    proposal = study.backgrounds[pool].propose
    return pretrained.inputs(study, pretrained.owner("maskers", proposal.masker)) if proposal else {}


def _backgrounds_inputs(study: Study, pool: str) -> dict[str, Path]:
    if study.backgrounds[pool].propose:
        return {"proposal": study.files.at("proposal", pool=pool)}
    return {"gathered": study.files.at("gathered", pool=pool)} if plan.gathers(study, pool) else {}


def _corruption_inputs(
    study: Study, dataset: str, needed: frozenset[str] | set[str], role: tuple[str, ...]
) -> dict[str, Path]:
    described = study.datasets[dataset]
    read: dict[str, Path] = {}
    if "masks" in needed:
        for name in ("masks", "mask_table"):
            read[name] = study.files.at(name, dataset=dataset, masker=described.masker)
    if "backgrounds" in needed:
        for r in role:
            read[f"{r}_pool"] = study.files.at("pool", pool=described.backgrounds, role=r)
    return read


def _train_inputs(study: Study, cell: Cell) -> dict[str, Path]:
    corruption = _corruption_inputs(study, cell.dataset, plan.needs(study, cell), ("train", "val"))
    weights = pretrained.inputs(study, pretrained.owner("backbones", cell.backbone))
    return _photo_inputs(study, cell.dataset) | corruption | weights


def _model_inputs(study: Study, cell: Cell) -> dict[str, Path]:
    if plan.trains(study, cell):
        return {"model": study.files.at("model", **cell.wildcards)}
    return pretrained.inputs(study, pretrained.owner("backbones", cell.backbone))


def _embed_inputs(study: Study, cell: Cell) -> dict[str, Path]:
    if parts := plan.folds_of(study, cell):
        return {f"embeddings {p.name}": study.files.at("embeddings", **p.wildcards) for p in parts}
    corruption = _corruption_inputs(study, cell.dataset, {"masks", "backgrounds"}, ("test",))
    return _model_inputs(study, cell) | _photo_inputs(study, cell.dataset) | corruption


def _score_inputs(study: Study, cell: Cell) -> dict[str, Path]:
    return {"embeddings": study.files.at("embeddings", **cell.wildcards)}


def _attribute_inputs(study: Study, cell: Cell) -> dict[str, Path]:
    corruption = _corruption_inputs(study, cell.dataset, {"masks"}, ())
    return _model_inputs(study, cell) | _photo_inputs(study, cell.dataset) | corruption


def _segment_inputs(study: Study, cell: Cell) -> dict[str, Path]:
    photos = _photo_inputs(study, cell.dataset)
    return _model_inputs(study, cell) | photos | _object_inputs(study, cell.dataset)


def _collect_inputs(study: Study) -> dict[str, Path]:
    read: dict[str, Path] = {}
    for cell in plan.cells(study):
        for name in ("scores", "queries"):
            read[f"{name} {cell.name}"] = study.files.at(name, **cell.wildcards)
        if plan.trains(study, cell):
            read[f"attribution {cell.name}"] = study.files.at("attribution", **cell.wildcards)
    for dataset in dict.fromkeys(c.dataset for c in plan.cells(study)):
        masker = study.datasets[dataset].masker
        read[f"mask_table {dataset}"] = study.files.at("mask_table", dataset=dataset, masker=masker)
        for name in ("table", "excluded"):
            read[f"{name} {dataset}"] = study.files.at(name, dataset=dataset)
    return read


def _table_inputs(study: Study, name: str) -> dict[str, Path]:
    if name not in plan.tables(study):
        raise UserError(
            f"Grid '{study.grid}' has no table '{name}'; it has: {', '.join(plan.tables(study))}."
        )
    if name == plan.SEGMENTATION_TABLE:
        cells = plan.networks(study)
        return {f"segmentation {c.name}": study.files.at("segmentation", **c.wildcards) for c in cells}
    files = study.files
    if name != "table3":
        return {n: files.at(n) for n in ("results", "all_queries", "all_attribution", "mask_report")}
    read = {n: files.at(n) for n in ("all_queries", "all_attribution")}
    read |= {t: files.at("report_table", table=t, format="csv") for t in ("table1", "table2")}
    for cell in (c for c in plan.cells(study) if plan.trains(study, c)):
        read[f"history {cell.name}"] = files.at("history", **cell.wildcards)
        read[f"record {cell.name}"] = files.at("train_record", **cell.wildcards)
    return read


def _figure_inputs(study: Study, name: str) -> dict[str, Path]:
    if name not in plan.figures(study):
        raise UserError(
            f"Grid '{study.grid}' has no figure '{name}'; it has: {', '.join(plan.figures(study))}."
        )
    if name in ("drop", "calibration"):
        return {"table1": study.files.at("report_table", table="table1", format="csv")}
    dataset = plan.shown_dataset(study)
    if name == "masks":
        masker = study.datasets[dataset].masker
        return _masks_inputs(study, dataset, masker) | _corruption_inputs(study, dataset, {"masks"}, ())
    read = _photo_inputs(study, dataset)
    if name == "segmentation":
        read |= _object_inputs(study, dataset)
    else:
        read |= _corruption_inputs(study, dataset, {"masks", "backgrounds"}, ("test",))
    shown = {
        "retrieval": ("embeddings",),
        "attribution": ("maps", "attribution"),
        "segmentation": ("segments",),
    }
    for cell in plan.pair(study) or ():
        read |= {f"{n} {cell.name}": study.files.at(n, **cell.wildcards) for n in shown.get(name, ())}
    return read


_INPUTS: dict[str, Callable[..., dict[str, Path]]] = {
    "fetch": lambda study, dataset, part: {},
    "index": _index_inputs,
    "weights": lambda study, owner: {},
    "masks": _masks_inputs,
    "gather": lambda study, pool: {},
    "propose": _propose_inputs,
    "backgrounds": _backgrounds_inputs,
    "train": _train_inputs,
    "embed": _embed_inputs,
    "score": _score_inputs,
    "attribute": _attribute_inputs,
    "segment": _segment_inputs,
    "collect": _collect_inputs,
    "table": _table_inputs,
    "figure": _figure_inputs,
}
