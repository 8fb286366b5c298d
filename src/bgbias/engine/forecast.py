"""What a grid will cost before anything runs: photos, passes through a network, room on the disk, time.

Trainings stop early: their passes are a range. Disk and time are estimates; finished nodes of a kind correct its time.
"""

from collections.abc import Collection
from dataclasses import dataclass
from statistics import fmean

from bgbias.backgrounds import pools
from bgbias.engine import graph, records
from bgbias.engine.node import Node, step
from bgbias.errors import for_this_study
from bgbias.files import json_checksum, places
from bgbias.files.fetch import Source
from bgbias.models import backbones
from bgbias.progress import minutes, size
from bgbias.study import Cell, Study, plan

# PNG of a soft mask: 9 kB at a short side of 256 (CUB200); the archives' photos are about twice as wide and as high.
MASK_BYTES = 40_000
# A photo of an archive whose size nobody states, where its file does not know better: CUB200's mean.
PHOTO_BYTES = 98_000
# Raw pixels at short side s, pictures being 4:3 in the mean: a photo and its mask, a background.
PREPARED_BYTES, BACKGROUND_BYTES = 4 * 4 / 3, 3 * 4 / 3
# A model whose size is not known before it is made: ResNet-50's.
MODEL_BYTES = 95e6
# Record, log, curve and MLflow's copy of them.
NODE_BYTES = 60_000
FLOAT = 4
# Seconds on one core: of a pass forward of MobileNetV2 at short side 256 (backward takes two more), of an image that is only
# read, of a node at all.
PASS_SECONDS, IMAGE_SECONDS, NODE_SECONDS, SIDE = 0.012, 0.01, 1.5, 256
SETTLED_SECONDS = 100.0
MANY_PHOTOS = 2000

Passes = tuple[int, int]
Paces = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Cost:
    """What a node takes: images that it reads, passes through a network at least and at most, bytes on the disk;
    ``unknown``: more than these, of datasets that nobody has counted yet; ``seconds``: of other work on photos than reading.
    """

    images: int = 0
    forward: Passes = (0, 0)
    backward: Passes = (0, 0)
    disk: float = NODE_BYTES
    unknown: bool = False
    nodes: int = 1
    seconds: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.images + other.images,
            (self.forward[0] + other.forward[0], self.forward[1] + other.forward[1]),
            (self.backward[0] + other.backward[0], self.backward[1] + other.backward[1]),
            self.disk + other.disk,
            self.unknown or other.unknown,
            self.nodes + other.nodes,
            self.seconds + other.seconds,
        )


NONE = Cost(disk=0.0, nodes=0)


def forecast(study: Study) -> dict[str, Cost]:
    """The cost of each kind of node of the grid, in the order in which they run, finished ones included."""
    costs: dict[str, Cost] = {}
    for node, cost in _each(study).items():
        if node.name == "train" and "prepared" not in costs:
            costs["prepared"] = _preparation_cost(study)
        costs[node.name] = costs.get(node.name, NONE) + cost
    return costs


def _each(study: Study) -> dict[Node, Cost]:
    costs = {node: getattr(node.module, "cost", None) for node in graph.in_order(study)}
    return {n: cost(n.study(study), **n.keywords) if cost else Cost() for n, cost in costs.items()}


def format_forecast(study: Study, current: Collection[Node]) -> str:
    """The forecast as a text table, and the time that is left; ``current``: the finished nodes."""
    costs = forecast(study)
    row = "  {:<12}{:>6}{:>12}{:>20}{:>20}{:>10}"
    remaining, paces = _estimate_remaining(study, current)
    seconds = sum(sum(guesses) * pace_of(name, paces) for name, guesses in remaining.items())
    about = f"about {minutes(seconds)} for one step after the other (estimate)"
    takes = about if remaining else "nothing is left"
    lines = [
        f"forecast of grid {study.grid}: {takes}",
        "trainings end early: from .. to",
        row.format("step", "nodes", "images", "forward passes", "of these backward", "disk"),
    ]
    total = sum(costs.values(), NONE)
    for name, c in {**costs, "total": total}.items():
        images = (f"{c.images:,}" if c.images else "-") + ("+?" if c.unknown else "")
        lines.append(row.format(name, c.nodes, images, _range(c.forward), _range(c.backward), size(c.disk)))
    if total.unknown:
        lines.append(
            "  +?: and those of datasets and backgrounds that are not counted yet;"
            f" `snakemake --cores all --config grid={study.grid} -- data` counts them"
        )
    return for_this_study("\n".join(lines))


def seconds_each(study: Study, current: Collection[Node]) -> dict[str, float]:
    """What a node of each kind may take that has to run, in the mean, in seconds: by passes, and as finished ones took."""
    remaining, paces = _estimate_remaining(study, current)
    return {name: fmean(seconds) * pace_of(name, paces) for name, seconds in remaining.items()}


def pace_of(name: str, paces: Paces) -> float:
    """By how much longer than guessed nodes take, by ``paces``: of each kind the seconds taken and those guessed. Where none of
    a kind is finished, by all others, and ``SETTLED_SECONDS`` that were guessed well: a few short nodes say little.
    """
    settled = (SETTLED_SECONDS, SETTLED_SECONDS)
    took, guessed = zip(*([paces[name]] if name in paces else [settled, *paces.values()]), strict=True)
    return sum(took) / sum(guessed)


def _estimate_remaining(study: Study, current: Collection[Node]) -> tuple[dict[str, list[float]], Paces]:
    """By kind, the guessed seconds of the nodes to run; and what finished ones took, outdated ones too, beside the guess."""
    remaining: dict[str, list[float]] = {}
    paces: Paces = {}
    sides = _sides(study)
    for node, cost in _each(study).items():
        cell = node.keywords.get("cell")
        guess = _seconds(cost, sides.get(cell.backbone, SIDE) if cell else SIDE)
        record = json_checksum.read_any(node.record(study))
        if "seconds" in record:
            took, before = paces.get(node.name, (0.0, 0.0))
            paces[node.name] = took + record["seconds"], before + guess
        if node not in current:
            remaining.setdefault(node.name, []).append(guess)
    return remaining, paces


def _seconds(cost: Cost, side: int) -> float:
    passes = cost.forward[1] + 2 * cost.backward[1]
    work = PASS_SECONDS * passes * (side / SIDE) ** 2 if passes else IMAGE_SECONDS * cost.images
    return NODE_SECONDS * cost.nodes + work + cost.seconds


def _preparation_cost(study: Study) -> Cost:
    sides = _sides(study)
    photographed = {(d, sides[c.backbone]) for c in plan.cells(study) for d in plan.list_datasets(study, c)}
    pools = {(study.datasets[c.dataset].backgrounds, sides[c.backbone]) for c in plan.cells(study)}
    stored = [(photos_of(study, dataset), side**2 * PREPARED_BYTES) for dataset, side in photographed]
    stored += [(_backgrounds(study, pool), side**2 * BACKGROUND_BYTES) for pool, side in pools]
    costs = (Cost(n, disk=n * each, unknown=unknown, nodes=0) for (n, unknown), each in stored)
    return sum(costs, NONE)


def _sides(study: Study) -> dict[str, int]:
    return {name: side_of(study, name) for name in {c.backbone for c in plan.cells(study)}}


def side_of(study: Study, backbone: str) -> int:
    """The short side in pixels that a backbone's photos are likely to have; of a library's network without building it."""
    network = plan.backbone(study, backbone)
    if network.variant:
        return int(network.module.likely_resize(network.variant, network.params()))
    return backbones.facts(network.kind, network.params()).resize


def _backgrounds(study: Study, pool: str) -> tuple[int, bool]:
    """Photos of a background set's three pools: as counted when they were made, else as params.yaml tells; and whether nobody
    knows.
    """
    counted = records.read_current(study, step("backgrounds", pool=pool)).get("metrics", {})
    if counted:
        return sum(int(counted[f"photos_{role}"]) for role in pools.ROLES), False
    numbers = [pools.expected_count(source) for source in study.backgrounds[pool].pools.values() if source]
    unknown = not numbers or None in numbers
    return (0 if unknown else sum(filter(None, numbers))), unknown


def photos_of(study: Study, dataset: str, *splits: str) -> tuple[int, bool]:
    """How many photos some splits have (all if none is named), 0 where nobody knows; and whether nobody does."""
    counts = photos(study, dataset)
    return sum(n for split, n in (counts or {}).items() if split in splits or not splits), counts is None


def threads_by_photos(study: Study, dataset: str) -> int:
    """One for few photos: a job of several begins when so many cores are free, and short ones wait longer than they gain."""
    number, unknown = photos_of(study, dataset)
    return 4 if unknown or number > MANY_PHOTOS else 1


def photos(study: Study, dataset: str) -> dict[str, int] | None:
    """Photos of each split: as counted by ``index``, else as the dataset is known to have them, else nothing."""
    counted = records.read_current(study, step("index", dataset=dataset)).get("metrics", {})
    splits = [s for s in ("train", "val", "test") if f"photos_{s}" in counted]
    if splits:
        return {split: int(counted[f"photos_{split}"]) for split in splits}
    return study.dataset(dataset).fact("expected")  # type: ignore[no-any-return]


def size_of(study: Study, dataset: str, sources: tuple[Source, ...]) -> float:
    """The bytes of one of a dataset's files: as stated, as it lies here, or a guess for archives."""
    for source in sources:
        if source.size:
            return float(source.size)
        if source.place and not source.remote and places.source(source.place).is_file():
            return float(places.source(source.place).stat().st_size)
    if not sources[0].called.endswith((".tgz", ".zip", ".tar")):
        return 0.0
    each = getattr(study.dataset(dataset).module, "PHOTO_BYTES", PHOTO_BYTES)
    return photos_of(study, dataset)[0] * float(each)


def model_bytes(study: Study, cell: Cell) -> float:
    """The size of a cell's trained model, or of a large one before it is made."""
    model = study.files.at("model", **cell.wildcards)
    return float(model.stat().st_size) if model.exists() else MODEL_BYTES


def _range(passes: Passes) -> str:
    low, high = (_short(n) for n in passes)
    return (low if low == high else f"{low} .. {high}") if passes[1] else "-"


def _short(number: float) -> str:
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * unit:  # what three digits round to a thousand is one of the next
            return f"{number / unit:.3g} {name}"
    return f"{number:.0f}"
