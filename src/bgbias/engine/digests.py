"""What each node reads, and the fingerprint of that: a node whose digest is another one has to run again.

``spec(study, node, ...)`` holds only what the node reads, the digests of the nodes before it included. Its digest stands in
the Snakemake rule's ``params``, so that an edited margin reruns that loss's cells and nothing else, and a new masker does not
retrain a method that reads no masks. A change of code that changes numbers bumps the node's entry in ``VERSIONS``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.files.fingerprint import elsewhere, fingerprint, recorded
from bgbias.files.places import PUBLISHED, project_root
from bgbias.study import plan
from bgbias.study import weights as pretrained
from bgbias.study.cell import Cell
from bgbias.study.params import Study, loss_options
from bgbias.study.sources import identity, parts_of, sources_of

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
    "attribute": 2,
    "segment": 2,
    "collect": 1,
    "table": 5,
    "figure": 2,
}
OWN_WEIGHTS = Path("data/weights")


def digest(study: Study, node: str, **subject: Any) -> str:
    """A short fingerprint of everything the node reads."""
    text = json.dumps(spec(study, node, **subject), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def spec(study: Study, node: str, **subject: Any) -> dict[str, Any]:
    """What the node reads, resolved: options, upstream digests, and its version."""
    return {"node": node, "version": VERSIONS[node], **subject, **_SPECS[node](study, **subject)}


def _fetch(study: Study, dataset: str, part: str) -> dict[str, Any]:
    sources = sources_of(study, dataset, part)
    planned = identity(sources)
    if all(elsewhere(s.place) for s in sources):
        before = recorded(study.files.at("fetch_record", dataset=dataset, part=part)).get("sources", [])
        if _without_listing(before) == _without_listing(planned):
            return {"sources": before}
    return {"sources": planned}


def _without_listing(sources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # As JSON has it, which knows no tuples.
    return json.loads(json.dumps([{k: v for k, v in s.items() if k != "listing"} for s in sources]))


def _index(study: Study, dataset: str) -> dict[str, Any]:
    described = study.datasets[dataset]
    fetched = {p: digest(study, "fetch", dataset=dataset, part=p) for p in parts_of(study, dataset)}
    before = recorded(study.files.at("index_record", dataset=dataset)).get("fetch", {})
    for part, sources in parts_of(study, dataset).items():
        here = study.files.at("fetch_record", dataset=dataset, part=part).exists()
        if part in before and not here and all(elsewhere(s.place) for s in sources):
            fetched[part] = before[part]
    return {"kind": described.kind, "options": described.options, "fetch": fetched}


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
    given = {k: fingerprint(str(described.options[k])) for k in module.FILES if described.options.get(k)}
    read |= _fetched_weights(study, pretrained.owner("maskers", masker))
    return read | ({"weights": weights} if weights else {}) | ({"listing": given} if given else {})


def _masks(study: Study, dataset: str, masker: str) -> dict[str, Any]:
    read = masker_identity(study, masker) | {"index": digest(study, "index", dataset=dataset)}
    before = recorded(study.files.at("masks_record", dataset=dataset, masker=masker)).get("listing", {})
    for option in read.get("listing", {}):
        if option in before and elsewhere(str(study.maskers[masker].options[option])):
            read["listing"][option] = before[option]
    return read


def _gather(study: Study, pool: str) -> dict[str, Any]:
    lists = plan.listed_pools(study, pool)
    return {
        "lists": {
            role: {"group": p.group, "sha256": _sha256(Path(str(p.source)))} for role, p in lists.items()
        }
    }


def _propose(study: Study, pool: str) -> dict[str, Any]:
    proposal = study.backgrounds[pool].propose
    assert proposal is not None  # lineage asks for no other
    before = recorded(study.files.at("propose_record", pool=pool))
    gone = elsewhere(proposal.source) and before.get("source") == proposal.source
    return {
        "source": proposal.source,
        "listing": before["listing"] if gone else fingerprint(proposal.source),
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
    before = recorded(study.files.at("backgrounds_record", pool=pool))
    found = {
        role: before["listing"][role]
        if elsewhere(p.source) and role in before.get("listing", {})
        else fingerprint(p.source)
        for role, p in described.pools.items()
        if p and p.source and not p.listed
    }
    gathered = {"gather": digest(study, "gather", pool=pool)} if plan.gathers(study, pool) else {}
    return {"pools": pools, "listing": found, **gathered}


def _train(study: Study, cell: Cell) -> dict[str, Any]:
    if not plan.trains(study, cell):
        raise UserError(f"{cell.name} is not trained: {_made_of(study, cell)}.")
    read: dict[str, Any] = {
        "train": study.train.model_dump(exclude={"selection"}),
        "selection": plan.selection_condition(study, cell),
        **_backbone(study, cell),
        "loss": loss_options(study, cell.dataset, cell.loss),
        "index": digest(study, "index", dataset=cell.dataset),
    }
    method = plan.method(study, cell).identity
    read |= {"method": method} if method else {}
    return read | _corruption(study, cell.dataset, plan.needs(study, cell))


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
    if plan.trains(study, cell):
        return {"model": digest(study, "train", cell=cell)}
    if plan.folds_of(study, cell):
        raise UserError(f"{cell.name} is no single model: {_made_of(study, cell)}.")
    return _backbone(study, cell) | {"index": digest(study, "index", dataset=cell.dataset)}


def _made_of(study: Study, cell: Cell) -> str:
    """What a cell without a training of its own is."""
    parts = plan.folds_of(study, cell)
    return (
        f"it is {len(parts)} models side by side, {parts[0].name} and so on"
        if parts
        else "it is the backbone as it comes"
    )


def _embed(study: Study, cell: Cell) -> dict[str, Any]:
    if parts := plan.folds_of(study, cell):
        return {"folds": [digest(study, "embed", cell=part) for part in parts]}
    return {
        "evaluation": study.evaluation.model_dump(exclude={"batch_size"}),
        **_model(study, cell),
        **_corruption(study, cell.dataset, {"masks", "backgrounds"}),
    }


def _score(study: Study, cell: Cell) -> dict[str, Any]:
    return {"embed": digest(study, "embed", cell=cell), "metrics": plugins.names("metrics")}


def _attribute(study: Study, cell: Cell) -> dict[str, Any]:
    # Scores that were made before there was a choice stay what they are.
    similarity = study.attribution.similarity
    return {
        "attribution": study.attribution.model_dump(exclude=None if similarity else {"similarity"}),
        **_model(study, cell),
        **_corruption(study, cell.dataset, {"masks"}),
    }


def _segment(study: Study, cell: Cell) -> dict[str, Any]:
    return {"segmentation": study.segmentation.model_dump(), **_model(study, cell)}


def _collect(study: Study) -> dict[str, Any]:
    chosen = plan.cells(study)
    return {
        "scores": {c.name: digest(study, "score", cell=c) for c in chosen},
        "attribution": {c.name: digest(study, "attribute", cell=c) for c in chosen if plan.trains(study, c)},
    }


def _table(study: Study, name: str) -> dict[str, Any]:
    if name == plan.SEGMENTATION_TABLE:
        segmented = {c.name: digest(study, "segment", cell=c) for c in plan.networks(study)}
        return {"segmentation": segmented, "selection": study.train.selection}
    return {
        "collect": digest(study, "collect"),
        "published": {p.name: _sha256(p) for p in sorted((project_root() / PUBLISHED).glob("*.csv"))},
        "selection": study.train.selection,
    }


def _figure(study: Study, name: str) -> dict[str, Any]:
    shown = plan.pair(study)
    if name in ("drop", "calibration"):
        return {"table1": digest(study, "table", name="table1")}
    if name == "masks":
        return _corruption(study, plan.shown_dataset(study), {"masks"})
    if name == "photos" or shown is None:
        return _corruption(study, plan.shown_dataset(study), {"masks", "backgrounds"})
    node = {"retrieval": "embed", "segmentation": "segment"}.get(name, "attribute")
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
    "segment": _segment,
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
