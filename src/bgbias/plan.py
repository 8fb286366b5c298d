"""The study as nodes: what each one reads and the digest of that; `reading.py` says in which files.

``spec(study, node, ...)`` holds only what the node reads, the digests of the nodes before it included. Its digest stands in
the Snakemake rule's ``params``, so that an edited margin reruns that loss's cells and nothing else, and a new masker does not
retrain a method that reads no masks. A change of code that changes numbers bumps the node's entry in ``VERSIONS``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bgbias import paths, plugins, pretrained
from bgbias.dataset_parts import identity, listing, parts_of, sources_of
from bgbias.errors import UserError
from bgbias.params import Study, loss_options, options

VERSIONS = {
    "fetch": 1,
    "index": 1,
    "weights": 1,
    "masks": 1,
    "gather": 1,
    "propose": 1,
    "backgrounds": 1,
    "train": 1,
    "embed": 1,
    "score": 1,
    "attribute": 1,
    "collect": 1,
    "table": 1,
    "figure": 1,
}
PRETRAINED = "pretrained"
OWN_WEIGHTS = Path("data/weights")


@dataclass(frozen=True, order=True)
class Cell:
    """One model of the study. The row of a backbone's own features has loss ``none`` and method ``pretrained``."""

    dataset: str
    backbone: str
    loss: str
    method: str
    seed: int

    @property
    def wildcards(self) -> dict[str, Any]:
        """The cell as the wildcards of its paths."""
        return {
            "dataset": self.dataset,
            "backbone": self.backbone,
            "loss": self.loss,
            "method": self.method,
            "seed": self.seed,
        }

    @property
    def name(self) -> str:
        """The cell as one readable string, e.g. ``cub50/mobilenet_v2_tf/contrastive/plain/seed0``."""
        return paths.CELL.format(**self.wildcards)


def cells(study: Study) -> tuple[Cell, ...]:
    """Every model of the study's grid, without repetition, in reading order of params.yaml."""
    made: dict[Cell, None] = {}
    for block in study.cells:
        for dataset in block.datasets:
            for backbone in block.backbones:
                if block.pretrained:
                    made[Cell(dataset, backbone, "none", PRETRAINED, 0)] = None
                for loss in block.losses:
                    for method in block.methods:
                        for seed in block.seeds:
                            made[Cell(dataset, backbone, loss, method, seed)] = None
    return tuple(made)


def checked_cells(study: Study) -> tuple[Cell, ...]:
    """The grid's cells, each one's names and options checked before anything runs."""
    chosen = cells(study)
    for cell in chosen:
        check_cell(study, cell)
        parts_of(study, cell.dataset)
        described = study.maskers[study.datasets[cell.dataset].masker]
        options(study, "maskers", described.kind, described.options)
    return chosen


def figures(study: Study) -> tuple[str, ...]:
    """The figures that make sense for the grid: a pair of models to compare, several toy datasets for the curve."""
    toys = {c.dataset for c in cells(study) if study.datasets[c.dataset].kind == "toy"}
    paired = ("retrieval", "attribution") if pair(study) else ()
    return ("photos", "masks", *paired, "drop", *(("calibration",) if len(toys) > 1 else ()))


def shown_dataset(study: Study) -> str:
    """The dataset whose photos figures show: the last one of the grid's first block."""
    return study.cells[0].datasets[-1]


def pair(study: Study) -> tuple[Cell, Cell] | None:
    """A plain and a bgaugment model of the shown dataset that differ in nothing else, if the grid has them."""
    chosen = cells(study)
    for plain in chosen:
        cured = replace(plain, method="bgaugment")
        if plain.dataset == shown_dataset(study) and plain.method == "plain" and cured in chosen:
            return plain, cured
    return None


def check_cell(study: Study, cell: Cell) -> None:
    """Refuse a cell whose parts params.yaml and the plugins do not know, or whose options they reject."""
    if cell.backbone not in study.backbones:
        raise UserError(
            f"params.yaml has no backbone '{cell.backbone}'; there are: {', '.join(study.backbones)}."
        )
    options(study, "backbones", cell.backbone, study.backbones[cell.backbone])
    if trains(cell):
        plugins.load("losses", cell.loss)
        options(study, "losses", cell.loss, loss_options(study, cell.dataset, cell.loss))


def trains(cell: Cell) -> bool:
    """Whether the cell has a model of its own to train."""
    return bool(plugins.load("methods", cell.method).TRAINS)


def selection_condition(study: Study, cell: Cell) -> str:
    """Which validation score stops and picks: ``clean`` or ``corrupted``.

    ``published`` selects as the paper did: on clean photos for plain training, on corrupted ones for methods that replace
    backgrounds (METHODS section 1).
    """
    if study.train.selection == "published":
        return "corrupted" if "backgrounds" in plugins.load("methods", cell.method).NEEDS else "clean"
    return study.train.selection


def needs(study: Study, cell: Cell) -> frozenset[str]:
    """What training the cell reads beside photos: masks, backgrounds, both or nothing."""
    own = plugins.load("methods", cell.method).NEEDS
    return own | {"masks", "backgrounds"} if selection_condition(study, cell) == "corrupted" else own


def gathers(study: Study, pool: str) -> bool:
    """Whether the pools of a background set hold photos that a list names one by one."""
    return bool(_listed(study, pool))


def _listed(study: Study, pool: str) -> dict[str, Any]:
    return {r: p for r, p in study.backgrounds[pool].pools.items() if p and p.listed}


def digest(study: Study, node: str, **subject: Any) -> str:
    """A short fingerprint of everything the node reads."""
    text = json.dumps(spec(study, node, **subject), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def spec(study: Study, node: str, **subject: Any) -> dict[str, Any]:
    """What the node reads, resolved: options, upstream digests, and its version."""
    return {"node": node, "version": VERSIONS[node], **subject, **_SPECS[node](study, **subject)}


def _fetch(study: Study, dataset: str, part: str) -> dict[str, Any]:
    return {"sources": identity(sources_of(study, dataset, part))}


def _index(study: Study, dataset: str) -> dict[str, Any]:
    described = study.datasets[dataset]
    return {
        "kind": described.kind,
        "options": described.options,
        "fetch": {p: digest(study, "fetch", dataset=dataset, part=p) for p in parts_of(study, dataset)},
    }


def _weights(study: Study, owner: str) -> dict[str, Any]:
    return pretrained.published(study, owner).identity


def _fetched_weights(study: Study, owner: str) -> dict[str, Any]:
    """What a node that reads fetched weights adds to its digest: nothing where they are random or a file of one's own."""
    return (
        {"fetched_weights": digest(study, "weights", owner=owner)} if pretrained.fetched(study, owner) else {}
    )


def masker_identity(study: Study, masker: str) -> dict[str, Any]:
    """What a masker's masks depend on beside the photos: its kind, its options, its own files' fingerprints."""
    described = study.maskers[masker]
    module = plugins.load("maskers", described.kind)
    read: dict[str, Any] = {
        "kind": described.kind,
        "options": {k: v for k, v in described.options.items() if k not in module.SPEED},
    }
    weights = own_weights(described.options)
    given = {k: listing(str(described.options[k])) for k in module.FILES if described.options.get(k)}
    read |= _fetched_weights(study, pretrained.owner("maskers", masker))
    return read | ({"weights": weights} if weights else {}) | ({"listing": given} if given else {})


def _masks(study: Study, dataset: str, masker: str) -> dict[str, Any]:
    return masker_identity(study, masker) | {"index": digest(study, "index", dataset=dataset)}


def _gather(study: Study, pool: str) -> dict[str, Any]:
    lists = _listed(study, pool)
    return {
        "lists": {role: {"group": p.group, "sha256": _sha256(Path(p.source))} for role, p in lists.items()}
    }


def _propose(study: Study, pool: str) -> dict[str, Any]:
    proposal = study.backgrounds[pool].propose
    assert proposal is not None  # lineage asks for no other
    return {
        "source": proposal.source,
        "listing": listing(proposal.source),
        "names": {"keep": proposal.keep, "drop": proposal.drop},
        "masker": masker_identity(study, proposal.masker),
    }


def _backgrounds(study: Study, pool: str) -> dict[str, Any]:
    described = study.backgrounds[pool]
    if described.propose:
        return {"propose": described.propose.model_dump(), "proposal": digest(study, "propose", pool=pool)}
    # Only what is set, so that a new kind of source leaves the other pools as they are.
    pools = {
        r: p.model_dump(exclude_defaults=True, exclude={"copies"}) for r, p in described.pools.items() if p
    }
    found = {r: listing(p.source) for r, p in described.pools.items() if p and p.source and not p.listed}
    gathered = {"gather": digest(study, "gather", pool=pool)} if gathers(study, pool) else {}
    return {"pools": pools, "listing": found, **gathered}


def _train(study: Study, cell: Cell) -> dict[str, Any]:
    if not trains(cell):
        raise UserError(f"{cell.name} is not trained: it is the backbone as it comes.")
    read: dict[str, Any] = {
        "train": study.train.model_dump(exclude={"selection"}),
        "selection": selection_condition(study, cell),
        **_backbone(study, cell),
        "loss": loss_options(study, cell.dataset, cell.loss),
        "index": digest(study, "index", dataset=cell.dataset),
    }
    return read | _corruption(study, cell.dataset, needs(study, cell))


def _corruption(study: Study, dataset: str, needed: frozenset[str] | set[str]) -> dict[str, Any]:
    described = study.datasets[dataset]
    read: dict[str, Any] = {}
    if "masks" in needed:
        read["masks"] = digest(study, "masks", dataset=dataset, masker=described.masker)
        read["mask_policy"] = _policy(study)
    if "backgrounds" in needed:
        read["backgrounds"] = digest(study, "backgrounds", pool=described.backgrounds)
    return read


def _backbone(study: Study, cell: Cell) -> dict[str, Any]:
    chosen = study.backbones[cell.backbone]
    fetched = _fetched_weights(study, pretrained.owner("backbones", cell.backbone))
    if fetched:  # the same file from another mirror is no other backbone
        chosen = {k: v for k, v in chosen.items() if k not in ("weights", "sha256")}
    return {"backbone": chosen} | fetched


def _policy(study: Study) -> dict[str, Any]:
    # Soft masks are used as they are, and read no threshold.
    soft = study.mask_policy.kind == "soft"
    return study.mask_policy.model_dump(exclude={"kind", "threshold"} if soft else None)


def _model(study: Study, cell: Cell) -> dict[str, Any]:
    if trains(cell):
        return {"model": digest(study, "train", cell=cell)}
    return _backbone(study, cell) | {"index": digest(study, "index", dataset=cell.dataset)}


def _embed(study: Study, cell: Cell) -> dict[str, Any]:
    return {
        "evaluation": study.evaluation.model_dump(exclude={"batch_size"}),
        **_model(study, cell),
        **_corruption(study, cell.dataset, {"masks", "backgrounds"}),
    }


def _score(study: Study, cell: Cell) -> dict[str, Any]:
    return {"embed": digest(study, "embed", cell=cell), "metrics": plugins.names("metrics")}


def _attribute(study: Study, cell: Cell) -> dict[str, Any]:
    return {
        "attribution": study.attribution.model_dump(),
        **_model(study, cell),
        **_corruption(study, cell.dataset, {"masks"}),
    }


def _collect(study: Study) -> dict[str, Any]:
    chosen = cells(study)
    return {
        "scores": {c.name: digest(study, "score", cell=c) for c in chosen},
        "attribution": {c.name: digest(study, "attribute", cell=c) for c in chosen if trains(c)},
    }


def _table(study: Study, name: str) -> dict[str, Any]:
    return {"collect": digest(study, "collect")}


def _figure(study: Study, name: str) -> dict[str, Any]:
    shown = pair(study)
    if name in ("drop", "calibration"):
        return {"table1": digest(study, "table", name="table1")}
    if name == "masks":
        return _corruption(study, shown_dataset(study), {"masks"})
    if name == "photos" or shown is None:
        return _corruption(study, shown_dataset(study), {"masks", "backgrounds"})
    node = "embed" if name == "retrieval" else "attribute"
    return {c.method: digest(study, node, cell=c) for c in shown}


_SPECS: dict[str, Callable[..., dict[str, Any]]] = {
    "fetch": _fetch,
    "index": _index,
    "weights": _weights,
    "masks": _masks,
    "gather": _gather,
    "propose": _propose,
    "backgrounds": _backgrounds,
    "train": _train,
    "embed": _embed,
    "score": _score,
    "attribute": _attribute,
    "collect": _collect,
    "table": _table,
    "figure": _figure,
}


def own_weights(values: dict[str, Any]) -> str:
    """A fingerprint of weights that are kept with the project, so that newly trained ones are noticed; else empty.

    Published weights are known by their name; whether their file is here must not change what is planned.
    """
    path = Path(str(values.get("weights", "")))
    if path.parent != OWN_WEIGHTS or not path.exists():
        return ""
    return _sha256(path)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""
