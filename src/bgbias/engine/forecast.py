"""What a grid will cost before anything runs: photos, passes through a network, room on the disk.

Passes are counted exactly where the study fixes them. Trainings stop early, so that theirs are a range: from the epochs that
patience alone takes to all that are allowed. Disk is an estimate; what it rests on stands beside each constant.
"""

from __future__ import annotations

from dataclasses import dataclass

from bgbias import plugins
from bgbias.backgrounds import pools
from bgbias.engine import graph, records
from bgbias.engine.graph import Node
from bgbias.files import places
from bgbias.files.fetch import Source
from bgbias.models import backbones
from bgbias.segmentation.episodes import SHOTS
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study, options
from bgbias.study.sources import parts_of

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


@dataclass(frozen=True)
class Cost:
    """One kind of node: how many there are, images they read, passes at least and at most, bytes on the disk."""

    step: str
    nodes: int
    images: int
    forward: tuple[int, int]
    backward: tuple[int, int]
    disk: float
    unknown: bool = False

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.step,
            self.nodes + other.nodes,
            self.images + other.images,
            _sum(self.forward, other.forward),
            _sum(self.backward, other.backward),
            self.disk + other.disk,
            self.unknown or other.unknown,
        )


def forecast(study: Study) -> list[Cost]:
    """The cost of each kind of node of the grid, in the order in which they run, finished ones included."""
    found: dict[str, Cost] = {}
    for node in graph.in_order(study):
        cost = _cost(study, node)
        if node.name == "train" and "prepared" not in found:
            found["prepared"] = _prepared(study)
        found[node.name] = found[node.name] + cost if node.name in found else cost
    return list(found.values())


def told(study: Study) -> str:
    """The forecast as a text table."""
    costs = forecast(study)
    lines = [f"forecast of grid {study.grid} (trainings end early: from .. to)"]
    lines.append(
        f"  {'step':<12}{'nodes':>6}{'images':>12}{'forward passes':>20}{'of these backward':>20}{'disk':>10}"
    )
    for c in [*costs, _total(costs)]:
        images = _count(c.images) + ("+?" if c.unknown else "")
        lines.append(
            f"  {c.step:<12}{c.nodes:>6}{images:>12}{_range(c.forward):>20}{_range(c.backward):>20}{_size(c.disk):>10}"
        )
    if any(c.unknown for c in costs):
        lines.append(
            "  +?: and those of datasets and backgrounds that are not counted yet; `snakemake --cores all data` counts them"
        )
    return "\n".join(lines)


def _cost(study: Study, node: Node) -> Cost:
    cell = node.keywords.get("cell")
    if cell is not None:
        return _of_cell(study, node.name, cell)
    if node.name in ("fetch", "index", "masks"):
        return _of_dataset(study, node)
    if node.name == "weights":
        return Cost(node.name, 1, 0, (0, 0), (0, 0), MODEL_BYTES)
    return Cost(node.name, 1, 0, (0, 0), (0, 0), NODE_BYTES)


def _of_dataset(study: Study, node: Node) -> Cost:
    dataset = node.keywords["dataset"]
    counts = photos(study, dataset)
    number = sum(counts.values()) if counts else 0
    unknown = counts is None
    module = plugins.load("datasets", study.datasets[dataset].kind)
    guess = number * getattr(module, "PHOTO_BYTES", PHOTO_BYTES)
    if node.name == "fetch":
        return Cost(
            "fetch", 1, 0, (0, 0), (0, 0), _bytes(parts_of(study, dataset)[node.keywords["part"]], guess)
        )
    if node.name == "index":
        # The photos once more, in a store of our own.
        size = sum(_bytes(sources, guess) for sources in parts_of(study, dataset).values())
        return Cost("index", 1, number, (0, 0), (0, 0), size, unknown)
    return Cost("masks", 1, number, (number, number), (0, 0), number * MASK_BYTES, unknown)


def _prepared(study: Study) -> Cost:
    """What is decoded once and kept beside the nodes' products, at each short side that a backbone wants."""
    sides = {c.backbone: _side(study, c.backbone) for c in plan.cells(study)}
    wanted = {(c.dataset, sides[c.backbone]) for c in plan.cells(study)}
    behind = {(study.datasets[dataset].backgrounds, side) for dataset, side in wanted}
    total = Cost("prepared", 0, 0, (0, 0), (0, 0), 0.0)
    for dataset, side in wanted:
        counts = photos(study, dataset)
        number = sum(counts.values()) if counts else 0
        size = number * side**2 * PREPARED_BYTES
        total += Cost("prepared", 0, number, (0, 0), (0, 0), size, counts is None)
    for pool, side in behind:
        found = _backgrounds(study, pool)
        size = (found or 0) * side**2 * BACKGROUND_BYTES
        total += Cost("prepared", 0, found or 0, (0, 0), (0, 0), size, found is None)
    return total


def _side(study: Study, backbone: str) -> int:
    chosen = options(study, "backbones", backbone, study.backbones[backbone])
    variant = plugins.variant(backbone)
    if variant:
        likely: int = plugins.load("backbones", backbone).likely_resize(variant, chosen)
        return likely
    return backbones.facts(backbone, chosen).resize


def _backgrounds(study: Study, pool: str) -> int | None:
    """Photos of a background set's three pools: as counted when they were made, else as params.yaml tells, else None."""
    record = study.files.at("backgrounds_record", pool=pool)
    counted = records.of_now(study, record, "backgrounds", pool=pool).get("metrics", {})
    if counted:
        return sum(int(counted[f"photos_{role}"]) for role in pools.ROLES)
    described = study.backgrounds[pool]
    numbers = [pools.expected(source) for source in described.pools.values() if source]
    known = [number for number in numbers if number is not None]
    return sum(known) if numbers and len(known) == len(numbers) else None


def _of_cell(study: Study, name: str, cell: Cell) -> Cost:
    counts = photos(study, cell.dataset)
    known = counts or {}
    if name == "train":
        t = study.train
        epochs = (min(t.patience + 1, t.max_epochs), t.max_epochs)
        named = plan.method(study, cell)
        method, params = named.module.Method, named.params()
        a_step = method.photos_a_step(params, t.batch_size)
        least, most = (e * t.iterations_per_epoch * a_step[0] + e * known.get("val", 0)
                       + method.photos_between_epochs(params, known.get("train", 0), e) for e in epochs)  # fmt: skip
        backward = (
            epochs[0] * t.iterations_per_epoch * a_step[1],
            epochs[1] * t.iterations_per_epoch * a_step[1],
        )
        images = known.get("train", 0) + known.get("val", 0)
        return Cost(name, 1, images, (least, most), backward, _model_bytes(study, cell), counts is None)
    test = known.get("test", 0)
    if name == "embed":
        views = test * len(study.evaluation.views)
        size = views * study.train.embedding_dim * FLOAT
        if parts := plan.folds_of(study, cell):
            return Cost(name, 1, 0, (0, 0), (0, 0), len(parts) * size, counts is None)
        return Cost(name, 1, test, (views, views), (0, 0), size, counts is None)
    if name == "attribute":
        images = min(test, study.attribution.images or test)
        noisy = images * study.attribution.samples
        seen = noisy + (2 * images if study.attribution.similarity else 0)
        return Cost(name, 1, images, (seen, seen), (noisy, noisy), NODE_BYTES, counts is None)
    if name == "segment":
        images = min(test, study.segmentation.episodes or 0)
        seen = images * (1 + 2 * SHOTS)
        return Cost(name, 1, images, (seen, seen), (0, 0), NODE_BYTES, counts is None)
    return Cost(name, 1, 0, (0, 0), (0, 0), NODE_BYTES)


def photos(study: Study, dataset: str) -> dict[str, int] | None:
    """Photos of each split: as counted by ``index``, else as the dataset is known to have them, else nothing."""
    counted = _counted(study, dataset)
    if counted:
        return counted
    described = study.datasets[dataset]
    module = plugins.load("datasets", described.kind)
    expected = getattr(module, "expected", None)
    return expected(options(study, "datasets", described.kind, described.options)) if expected else None


def _counted(study: Study, dataset: str) -> dict[str, int]:
    """What ``index`` counted with the settings of now, if it has."""
    record = study.files.at("index_record", dataset=dataset)
    found = records.of_now(study, record, "index", dataset=dataset).get("metrics", {})
    return {s: int(found[f"photos_{s}"]) for s in ("train", "val", "test") if f"photos_{s}" in found}


def _bytes(sources: tuple[Source, ...], guess: float) -> float:
    """The size of a part: as stated, as it lies here, or a guess for archives."""
    for source in sources:
        if source.size:
            return float(source.size)
        if source.place and not source.remote and places.source(source.place).is_file():
            return float(places.source(source.place).stat().st_size)
    return guess if sources[0].called.endswith((".tgz", ".zip", ".tar")) else 0.0


def _model_bytes(study: Study, cell: Cell) -> float:
    made = study.files.at("model", **cell.wildcards)
    if made.exists():
        return float(made.stat().st_size)
    return MODEL_BYTES


def _total(costs: list[Cost]) -> Cost:
    total = Cost("total", 0, 0, (0, 0), (0, 0), 0.0)
    for cost in costs:
        total = total + cost
    return total


def _sum(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] + b[0], a[1] + b[1]


def _count(number: int) -> str:
    return f"{number:,}" if number else "-"


def _range(passes: tuple[int, int]) -> str:
    low, high = (_short(n) for n in passes)
    return (low if low == high else f"{low} .. {high}") if passes[1] else "-"


def _short(number: float) -> str:
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return f"{number:.0f}"


def _size(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"
