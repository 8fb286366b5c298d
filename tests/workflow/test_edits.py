"""An edit of whatever kind changes the digests of exactly the nodes whose numbers it may move, and the reason names it.

What follows from it is shown by ``engine/test_freshness.py``, and through Snakemake and DVC by ``test_edited_code.py``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import edited_code
import numpy as np
import pytest
import torch
import yaml
from project import ROOT
from safetensors.torch import save_file

from bgbias import plugins, seeds
from bgbias.engine import freshness, graph
from bgbias.files import checksums, code
from bgbias.images import pixels
from bgbias.study import params
from bgbias.study.params import Study

OWN_LOSS = """
from bgbias.training.losses.contrastive import DISTANCE, IMAGES_PER_CLASS, Params
from ._own_parts import scaled


def build(params, classes, dim, generator):
    return scaled(params.neg_margin)
"""
LOSS, METHOD, CODE = "training/losses", "training/methods", "\nADDED = 1\n"
TOYS, MINE = "toys/pixels", "mine/mobilenet_v2"
MODELS = {
    *(
        f"{TOYS}/{loss}/{method}/seed0"
        for loss in ("contrastive", "own")
        for method in ("plain", "gaining", "bgaugment")
    ),
    f"{MINE}/triplet/plain/seed0",
}
FEATURES = {f"{of}/none/{method}/seed0" for of in (TOYS, MINE) for method in ("pretrained", "untrained")}


class Edit(NamedTuple):
    """A passage of a file replaced, or text added; the nodes that read something else then, and a word of the reason."""

    file: str
    changed: set[str]
    why: str = ""
    before: str = ""
    after: str = CODE


def train(of: str = "") -> set[str]:
    return {f"train {m}" for m in MODELS if of in m}


def embed(of: str = "") -> set[str]:
    return {f"embed {m}" for m in MODELS | FEATURES if of in m}


def attribute(of: str = "") -> set[str]:
    return {f"attribute {m}" for m in MODELS if of in m}


def source(file: str, *changed: set[str]) -> Edit:
    """Code added to a file of the package."""
    return Edit(f"src/bgbias/{file}", set().union(*changed), f"{file} changed")


SCORES = {f"score {m}" for m in MODELS | FEATURES}
FEATURES_OF_MINE = {f"embed {m}" for m in FEATURES if MINE in m}
TABLES = {"table table1", "table table2"}  # table3 follows them
RANKED = {"figure retrieval", "figure change"}
# All that looks at photos as models see them, or shows how; no table does.
SEEN = train() | embed() | attribute()
SEEN |= {f"figure {name}" for name in ("photos", "masks", "retrieval", "attribution")}

CODE_OF_PLUGINS = (
    source(f"{LOSS}/contrastive.py", train("contrastive"), train("own")),
    source(f"{LOSS}/_parts.py", train("contrastive"), train("own"), train("triplet")),
    source(f"{METHOD}/plain.py", train("/plain/"), train("bgaugment")),
    source(f"{METHOD}/bgaugment.py", train("bgaugment")),
    source(f"{METHOD}/_sam.py"),
    source("models/backbones/mobilenet_v2.py", train(MINE), embed(MINE), attribute(MINE)),
    source("masks/maskers/files.py", {"masks mine/drawn"}),
    source("datasets/folder.py", {"index mine"}),
    source("datasets/toy.py", {"index toys"}),
    source("evaluation/metrics/_rankings.py", SCORES),
    source("evaluation/metrics/map_at_r.py", train(), SCORES, RANKED),
    Edit("mine/losses/own.py", train("own"), "mine/losses/own.py changed"),
    Edit("mine/losses/_own_parts.py", train("own"), "mine/losses/_own_parts.py changed"),
    Edit("mine/methods/gained.py", train("gaining"), "mine/methods/gained.py changed"),
    Edit("mine/necks/gains.py", train("gaining"), "mine/necks/gains.py changed"),
    Edit(
        "mine/backbones/pixels.py",
        train(TOYS) | embed(TOYS) | attribute(TOYS),
        "mine/backbones/pixels.py changed",
    ),
    source("report/tables/attribution.py", {"table table2"}),
    source("report/figures/photos.py", {"figure photos"}),
)
CODE_OF_THE_ENGINE = (
    source("training/loop.py", train()),
    source("photos/crops.py", SEEN),
    source("attribution/smoothgrad.py", attribute()),
    source("evaluation/retrieval.py", train(), SCORES, RANKED),
    source("evaluation/embedding.py", embed()),
    source("toy/render.py", {"index toys"}),
    source("study/training.py", train()),
    source("models/preprocess.py", SEEN),
)
WITHOUT_NUMBERS = (
    Edit(f"src/bgbias/{LOSS}/contrastive.py", set(), after="\n# Why it is so.\n"),
    Edit("src/bgbias/cli/tools.py", set()),
    Edit("src/bgbias/engine/forecast.py", set()),
    Edit("src/bgbias/tracking/store.py", set()),
    Edit(
        "src/bgbias/nodes/train.py",
        set(),
        before='"""From the epochs that',
        after='"""At least the epochs that',
    ),
    Edit(
        "src/bgbias/nodes/train.py",
        set(),
        before="returned(epochs: int) -> int:",
        after="returned(epochs: int) -> float:",
    ),
    Edit("mine/losses/unused.py", set()),
)
SETTINGS = (
    Edit(
        "params.yaml", train("contrastive"), "neg_margin: 0.5 -> 0.25", "neg_margin: 0.5", "neg_margin: 0.25"
    ),
    Edit("params.yaml", train("gaining"), "rate", "rate: 0.5", "rate: 0.75"),
    Edit(
        "params.yaml",
        train(),
        "iterations_per_epoch: 3 -> 4",
        "iterations_per_epoch: 3",
        "iterations_per_epoch: 4",
    ),
    Edit("params.yaml", embed(), "evaluation.draws: 2 -> 3", "draws: 2", "draws: 3"),
    Edit("params.yaml", attribute(), "attribution.samples: 2 -> 4", "samples: 2", "samples: 4"),
    Edit(
        "params.yaml",
        {"index toys"},
        "photos_per_class: 6 -> 7",
        "photos_per_class: 6",
        "photos_per_class: 7",
    ),
    Edit("params.yaml", {"backgrounds scenes"}, "toy_scenes: 5 -> 6", "toy_scenes: 5", "toy_scenes: 6"),
    Edit("params.yaml", set(), "", "batch_size: 64", "batch_size: 32"),
)
CONTENT = (
    ("data/weights/mine.safetensors", train(MINE) | FEATURES_OF_MINE, "weights"),
    ("photos/c0/0.png", {"fetch mine/photos"}, "sources"),
    ("true_masks/c0/0.png", {"fetch mine/masks"}, "sources"),
    ("drawn/c0/0.png", {"masks mine/drawn"}, "listing"),
    ("walls.zip", {"backgrounds walls"}, "listing"),
    ("walls/w0.png", {"backgrounds walls"}, "listing"),
)


class Project:
    """A grid of toys and of somebody's photos, with own plugins, weights, masks and walls, and its own copy of the package."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.before = self.read()

    def study(self) -> Study:
        return params.load(Path("params.yaml"))

    def read(self) -> dict[str, dict[str, Any]]:
        """What each node reads beside other nodes' products, by its label: settings, libraries, files of code."""
        edited_code.look_again()
        checksums.forget()
        study = self.study()
        with graph.share_lookups():
            return {node.label: _own(study, node) for node in graph.in_order(study)}

    def changes(self) -> dict[str, str]:
        """The nodes that read something else than before, and what."""
        now = self.read()
        assert now.keys() == self.before.keys()
        return {
            label: ", ".join(freshness.differences(self.before[label], own))
            for label, own in now.items()
            if own != self.before[label]
        }


def _own(study: Study, node: graph.Node) -> dict[str, Any]:
    declared = graph.depends(study, node)
    modules = [module.__name__ for module in declared.code]
    by = {"code": code.modules(*modules), "libraries": code.libraries(*modules)}
    return by | dict(declared.settings)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("edits")
    compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", folder / "src", ignore=compiled)
    shutil.copytree(ROOT / "tests/support/plugins", folder / "mine", ignore=compiled)
    shutil.copytree(ROOT / "data/published", folder / "data/published")
    (folder / "mine/losses").mkdir()
    for name, text in {
        "own": OWN_LOSS,
        "_own_parts": "def scaled(by):\n    return 2 * by\n",
        "unused": OWN_LOSS,
    }.items():
        (folder / f"mine/losses/{name}.py").write_text(text)
    noise = seeds.generator("edits")
    for number in range(40):
        picture = pixels.encode_png(noise.integers(0, 256, (24, 24, 3), dtype=np.uint8))
        mask = pixels.encode_png(np.eye(24, dtype=np.uint8) * 255)
        for place, data in (("photos", picture), ("true_masks", mask), ("drawn", mask)):
            path = folder / place / f"c{number % 8}" / f"{number // 8}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    (folder / "walls").mkdir()
    for number in range(6):
        noisy = noise.integers(0, 256, (30, 30, 3), dtype=np.uint8)
        (folder / f"walls/w{number}.png").write_bytes(pixels.encode_png(noisy))
    shutil.make_archive(str(folder / "walls"), "zip", folder / "walls")
    _weights(folder / "data/weights/mine.safetensors")
    (folder / "params.yaml").write_text(yaml.safe_dump(_described(), sort_keys=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(code, "ROOT", folder / "src/bgbias")
        patch.setattr(code, "MEMORY", folder / "code.json")
        patch.syspath_prepend(folder / "libraries")
        yield Project(folder)
    plugins.use()
    edited_code.look_again()


@pytest.mark.parametrize(
    "edit",
    [*CODE_OF_PLUGINS, *CODE_OF_THE_ENGINE, *WITHOUT_NUMBERS, *SETTINGS],
    ids=lambda e: f"{e.file}:{e.after[:24]}",
)
def test_an_edit_changes_the_nodes_whose_numbers_it_may_move_and_no_others(
    project: Project, edit: Edit
) -> None:
    path = project.folder / edit.file
    text = path.read_text()
    assert not edit.before or text.count(edit.before) == 1
    path.write_text(text.replace(edit.before, edit.after) if edit.before else text + edit.after)
    changes = project.changes()
    path.write_text(text)
    assert set(changes) == edit.changed, set(changes) ^ edit.changed
    assert all(edit.why in why for why in changes.values()), changes


@pytest.mark.parametrize(
    ("file", "changed", "why"), CONTENT, ids=lambda value: value if isinstance(value, str) else ""
)
def test_other_content_of_equal_size_is_noticed(
    project: Project, file: str, changed: set[str], why: str
) -> None:
    path = project.folder / file
    content, times = path.read_bytes(), path.stat()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    noticed = project.changes()
    # With the old time, too, whoever forgets what was read finds it.
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    checksums.forget(project.study().files.at("known_files"))
    deep = project.changes()
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert set(noticed) == set(deep) == changed
    assert all(why in reason for reason in noticed.values()), noticed


def test_another_library_is_noticed_where_it_is_imported(project: Project) -> None:
    other = project.folder / "libraries/faiss_gpu-99.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: faiss-gpu\nVersion: 99.0\n")
    changes = project.changes()
    shutil.rmtree(other)
    # Validation ranks as scoring does.
    assert {label.split()[0] for label in changes} <= {"train", "score", "figure"}
    assert train() | SCORES <= set(changes)
    assert all("libraries.faiss" in why and "99.0" in why for why in changes.values())


def test_published_numbers_are_part_of_the_tables_that_show_them(project: Project) -> None:
    path = next((project.folder / "data/published").glob("*.csv"))
    text = path.read_text()
    path.write_text(f"{text}\n")
    changes = project.changes()
    path.write_text(text)
    assert changes
    assert set(changes) <= TABLES
    assert all(path.name in why for why in changes.values())


def _weights(path: Path) -> None:
    from bgbias.models.backbones import mobilenet_v2

    path.parent.mkdir(parents=True)
    with torch.random.fork_rng():
        save_file(mobilenet_v2.build(mobilenet_v2.Params(weights=None)).state_dict(), path)


def _described() -> dict[str, Any]:
    roots = {root: f"data/{root}" for root in ("raw", "downloads", "work", "runs", "report")}
    toys = {"train_classes": 4, "val_classes": 2, "test_classes": 2, "photos_per_class": 6}
    block = {"seeds": [0], "pretrained": True}
    return {
        "grid": "edits",
        "plugins": ["mine"],
        "paths": roots,
        "datasets": {
            "toys": {"kind": "toy", "masker": "ground_truth", "backgrounds": "scenes", "options": toys},
            "mine": {
                "kind": "folder",
                "masker": "drawn",
                "backgrounds": "walls",
                "options": {"source": "photos", "masks": "true_masks"},
            },
        },
        "maskers": {
            "ground_truth": {"kind": "ground_truth"},
            "drawn": {"kind": "files", "options": {"folder": "drawn"}},
        },
        "backgrounds": {
            "scenes": {"train": {"toy_scenes": 5}, "val": {"toy_scenes": 3}, "test": {"toy_scenes": 4}},
            "walls": {
                "train": {"source": "walls.zip"},
                "val": {"toy_scenes": 2},
                "test": {"source": "walls"},
            },
        },
        "backbones": {"pixels": {}, "mobilenet_v2": {"weights": "data/weights/mine.safetensors"}},
        "losses": {
            "contrastive": {"default": {"pos_margin": 0.0, "neg_margin": 0.5}},
            "own": {"default": {"pos_margin": 0.0, "neg_margin": 0.4}},
            "triplet": {"default": {"margin": 0.1}},
        },
        "methods": {"gaining": {"kind": "gained", "rate": 0.5}},
        "train": {"embedding_dim": 8, "batch_size": 8, "iterations_per_epoch": 3, "max_epochs": 2},
        "evaluation": {"draws": 2, "batch_size": 64},
        "attribution": {"images": 3, "samples": 2},
        "grids": {
            "edits": {
                "cells": [
                    block
                    | {
                        "datasets": ["toys"],
                        "backbones": ["pixels"],
                        "losses": ["contrastive", "own"],
                        "methods": ["plain", "gaining", "bgaugment"],
                    },
                    block
                    | {
                        "datasets": ["mine"],
                        "backbones": ["mobilenet_v2"],
                        "losses": ["triplet"],
                        "methods": ["plain"],
                    },
                ]
            }
        },
    }
