"""Which node reads from which, and every node of a study in such an order."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bgbias.study import plan, weights
from bgbias.study.cell import Cell
from bgbias.study.params import Study
from bgbias.study.sources import parts_of


@dataclass(frozen=True)
class Node:
    """A node and what it works on: a cell, a dataset, its part or masker, a pool, an owner of weights or a name."""

    name: str
    subject: tuple[tuple[str, Any], ...] = ()

    @property
    def keywords(self) -> dict[str, Any]:
        """The subject as keyword arguments of ``digests.spec``, ``digests.digest`` and ``reading.inputs``."""
        return dict(self.subject)

    @property
    def label(self) -> str:
        """The node as people call it: ``train toy_090/tiny/contrastive/plain/seed0``."""
        return " ".join([self.name, *(v.name if isinstance(v, Cell) else str(v) for _, v in self.subject)])

    def record(self, study: Study) -> Path:
        """Where the node's record lies."""
        if self.name == "table":
            return study.files.at("table_record", table=self.keywords["name"])
        if self.name == "figure":
            return study.files.at("figures_record", figure=self.keywords["name"])
        cell = self.keywords.get("cell")
        return study.files.at(f"{self.name}_record", **(cell.wildcards if cell else self.keywords))


def node(name: str, /, **subject: Any) -> Node:
    """The node ``name`` for a subject."""
    return Node(name, tuple(sorted(subject.items())))


def reads_from(study: Study, reader: Node) -> list[Node]:
    """The nodes whose outputs ``reader`` reads."""
    keywords = reader.keywords
    if reader.name in ("fetch", "gather", "weights"):
        return []
    if reader.name == "propose":
        proposal = study.backgrounds[keywords["pool"]].propose
        return _weights(study, weights.owner("maskers", proposal.masker)) if proposal else []
    if reader.name == "backgrounds":
        pool = keywords["pool"]
        if study.backgrounds[pool].propose:
            return [node("propose", pool=pool)]
        return [node("gather", pool=pool)] if plan.gathers(study, pool) else []
    if reader.name == "index":
        return [node("fetch", part=p, **keywords) for p in parts_of(study, keywords["dataset"])]
    if reader.name == "masks":
        masker = weights.owner("maskers", keywords["masker"])
        return [node("index", dataset=keywords["dataset"]), *_weights(study, masker)]
    if reader.name in ("train", "embed", "score", "attribute", "segment"):
        return _read_by_cell(study, reader.name, keywords["cell"])
    if reader.name == "collect":
        return list(_collected(study))
    if reader.name == "figure":
        return list(_shown(study, keywords["name"]))
    return list(_tabulated(study, keywords["name"]))


def in_order(study: Study) -> list[Node]:
    """Every node of the study's grid once, each after those it reads from."""
    tables = [node("table", name=name) for name in plan.tables(study)]
    figures = [node("figure", name=name) for name in plan.figures(study)]
    found: dict[Node, None] = {}

    def visit(reader: Node) -> None:
        if reader not in found:
            for upstream in reads_from(study, reader):
                visit(upstream)
            found[reader] = None

    for last in tables + figures:
        visit(last)
    return list(found)


def _read_by_cell(study: Study, name: str, cell: Cell) -> list[Node]:
    if name == "score":
        return [node("embed", cell=cell)]
    if name == "embed" and (parts := plan.folds_of(study, cell)):
        return [node("embed", cell=part) for part in parts]
    evaluated = {"embed": {"masks", "backgrounds"}, "attribute": {"masks"}, "segment": set[str]()}
    found = _photos(study, cell.dataset, evaluated[name] if name in evaluated else plan.needs(study, cell))
    if name == "segment":
        found += _boxes(study, cell.dataset)
    if name != "train" and plan.trains(study, cell):
        return [*found, node("train", cell=cell)]
    return found + _weights(study, weights.owner("backbones", cell.backbone))


def _weights(study: Study, owner: str) -> list[Node]:
    return [node("weights", owner=owner)] if weights.fetched(study, owner) else []


def _photos(study: Study, dataset: str, needed: Collection[str]) -> list[Node]:
    described = study.datasets[dataset]
    found = [node("index", dataset=dataset)]
    if "masks" in needed:
        found.append(node("masks", dataset=dataset, masker=described.masker))
    if "backgrounds" in needed:
        found.append(node("backgrounds", pool=described.backgrounds))
    return found


def _boxes(study: Study, dataset: str) -> list[Node]:
    """What brings the boxes of objects; the index brings their masks."""
    if plan.truth(study, dataset) != "boxes":
        return []
    return [node("fetch", dataset=dataset, part=p) for p in parts_of(study, dataset)]


def _collected(study: Study) -> Iterator[Node]:
    chosen = plan.cells(study)
    for cell in chosen:
        yield node("score", cell=cell)
        if plan.trains(study, cell):
            yield node("attribute", cell=cell)
    for dataset in dict.fromkeys(c.dataset for c in chosen):
        yield from _photos(study, dataset, {"masks"})


def _tabulated(study: Study, table: str) -> Iterator[Node]:
    if table == plan.SEGMENTATION_TABLE:
        yield from (node("segment", cell=cell) for cell in plan.networks(study))
        return
    yield node("collect")
    if table == "table3":
        yield from (node("table", name=name) for name in ("table1", "table2"))
        yield from (node("train", cell=cell) for cell in plan.cells(study) if plan.trains(study, cell))


def _shown(study: Study, figure: str) -> Iterator[Node]:
    if figure in ("drop", "calibration"):
        yield node("table", name="table1")
        return
    if figure == "masks":
        yield from _photos(study, plan.shown_dataset(study), {"masks"})
        return
    dataset = plan.shown_dataset(study)
    if figure == "segmentation":
        yield from [*_photos(study, dataset, ()), *_boxes(study, dataset)]
    else:
        yield from _photos(study, dataset, {"masks", "backgrounds"})
    of_cell = {"retrieval": "embed", "attribution": "attribute", "segmentation": "segment"}.get(figure)
    for cell in plan.pair(study) or ():
        if of_cell:
            yield node(of_cell, cell=cell)
