"""A study small enough for a test: squares before noise, a backbone of one layer, three pools of noise.

Dataset and backbone are plugins under ``tests/support/plugins``, which the study's params.yaml names.
"""

import csv
import importlib
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from miniatures import as_folder

from bgbias import seeds
from bgbias.engine import graph, records
from bgbias.images import pixels
from bgbias.nodes import backgrounds, index, masks, textures
from bgbias.study import params
from bgbias.study.cell import Cell
from bgbias.study.params import Study

POOLS = {"train": 5, "val": 3, "test": 4}
STUDY = """
grid: small
plugins: [PLUGINS]
paths:
  {raw: HERE/raw, downloads: HERE/downloads, work: HERE/work, runs: HERE/runs, report: HERE/report,
   checksums: HERE/checksums.csv}
datasets:
  squares: {kind: squares, masker: ground_truth, backgrounds: noise}
maskers:
  ground_truth: {kind: ground_truth}
  other: {kind: ground_truth}
backgrounds:
  noise: {train: {source: HERE/train}, val: {source: HERE/val}, test: {source: HERE/test}}
backbones: {pixels: {}}
losses:
  contrastive: {default: {pos_margin: 0.0, neg_margin: 0.5}}
  triplet: {default: {margin: 0.1}}
  arcface: {default: {margin: 20, scale: 16, lr: 0.01}}
train:
  {embedding_dim: 8, batch_size: 8, iterations_per_epoch: 3, max_epochs: 4, lr: 0.001, freeze_batch_norm: false}
evaluation: {draws: 2}
attribution: {images: 3, samples: 2}
grids:
  small:
    cells:
    - {datasets: [squares], backbones: [pixels], losses: [contrastive, arcface], methods: [plain, bgaugment],
       seeds: [0]}
"""


def described(folder: Path) -> dict[str, Any]:
    """The study's params.yaml as a mapping, with all its artefacts and sources below ``folder``."""
    for role, number in ((role, number) for role, count in POOLS.items() for number in range(count)):
        generator = seeds.generator("noise", role, number)
        noise = generator.integers(0, 256, (44, 60 - 5 * number, 3), dtype=np.uint8)
        as_folder(folder / role, {f"{role}{number}.png": pixels.encode_png(noise)})
    plugins = str(Path(__file__).parent / "plugins")
    return dict(yaml.safe_load(STUDY.replace("PLUGINS", plugins).replace("HERE", str(folder))))


def load(folder: Path, raw: dict[str, Any], grid: str | None = None) -> Study:
    """The study of a mapping, through a file as every study goes."""
    path = folder / "params.yaml"
    path.write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    return params.load(path, grid)


def put(raw: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A copy with ``value`` at the dotted ``key``; numbers are places in lists."""
    changed = deepcopy(raw)
    *way, last = key.split(".")
    place: Any = changed
    for step in way:
        place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
    place[last] = value
    return changed


def with_weights(folder: Path, **weights: Any) -> Study:
    """The study with MobileNetV2 in place of its backbone, trained and not; ``weights``: that one's options."""
    raw = described(folder)
    raw["backbones"]["mobilenet_v2"] = weights
    raw["grids"]["small"]["cells"][0] |= {"backbones": ["mobilenet_v2"], "pretrained": True}
    return load(folder, raw)


def options(raw: dict[str, Any], **values: Any) -> dict[str, Any]:
    """The same mapping, with these options of the dataset."""
    raw["datasets"]["squares"]["options"] = values
    return raw


def data_nodes(study: Study) -> None:
    """Run all that training reads from."""
    index.index(study, "squares")
    masks.masks(study, "squares")
    backgrounds.backgrounds(study, "noise")
    for made in (node for node in graph.in_order(study) if node.name == "textures"):
        textures.textures(study, **made.keywords)


def run(study: Study, cell: Cell, *nodes: str) -> None:
    """Run these nodes of a model."""
    for node in nodes:
        device = () if node == "score" else ("cpu",)
        getattr(importlib.import_module(f"bgbias.nodes.{node}"), node)(study, cell, *device)


def record(study: Study, name: str, **wildcards: object) -> dict[str, Any]:
    """What a node certified."""
    return records.read(study.files.at(name, **wildcards))


def history(path: Path) -> list[dict[str, str]]:
    """The rows of a training curve, without those that tell the time."""
    with path.open() as file:
        return [{k: v for k, v in row.items() if "seconds" not in k} for row in csv.DictReader(file)]


def outputs(study: Study) -> dict[str, bytes]:
    """All data that data nodes made, without records (they hold times) and locks."""
    root = Path(study.paths.work)
    found = {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}
    return {
        n: b
        for n, b in found.items()
        if not n.endswith(".json") and not n.startswith(("locks", "running", "known_files"))
    }
