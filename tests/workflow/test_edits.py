"""After an edit of whatever kind exactly the nodes are out of date whose numbers it may move, and the reason is told."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import yaml
from player import ROOT, Player
from safetensors.torch import save_file

from bgbias import seeds
from bgbias.images import pixels

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
    """A passage of a file replaced, or text added; which nodes are out of date by themselves then, and a word of the reason."""

    file: str
    stale: set[str]
    why: str = ""
    before: str = ""
    after: str = CODE


def train(of: str = "") -> set[str]:
    return {f"train {m}" for m in MODELS if of in m}


def embed(of: str = "") -> set[str]:
    """Of networks that nobody trained: the others follow their training."""
    return {f"embed {m}" for m in FEATURES if of in m}


def source(file: str, *stale: set[str]) -> Edit:
    """Code added to a file of the package."""
    return Edit(f"src/bgbias/{file}", set().union(*stale), f"{file} changed")


SCORES = {f"score {m}" for m in MODELS | FEATURES}
EMBEDS = {f"embed {m}" for m in MODELS | FEATURES}
ATTRIBUTES = {f"attribute {m}" for m in MODELS}
TABLES = {"table table1", "table table2"}  # table3 follows them
SHOWN = {"figure photos", "figure masks"}  # made of photos alone, as models see them

CODE_OF_PLUGINS = (
    source(f"{LOSS}/contrastive.py", train("contrastive"), train("own")),
    source(f"{LOSS}/_parts.py", train("contrastive"), train("own"), train("triplet")),
    source(f"{METHOD}/plain.py", train("/plain/"), train("bgaugment")),
    source(f"{METHOD}/bgaugment.py", train("bgaugment")),
    source(f"{METHOD}/_sam.py"),
    source("models/backbones/mobilenet_v2.py", train(MINE), embed(MINE)),
    source("masks/maskers/files.py", {"masks mine/drawn"}),
    source("datasets/folder.py", {"index mine"}),
    source("datasets/toy.py", {"index toys"}),
    source("evaluation/metrics/_rankings.py", SCORES),
    source("evaluation/metrics/map_at_r.py", train(), {f"score {m}" for m in FEATURES}),
    Edit("mine/losses/own.py", train("own"), "mine/losses/own.py changed"),
    Edit("mine/losses/_own_parts.py", train("own"), "mine/losses/_own_parts.py changed"),
    Edit("mine/methods/gained.py", train("gaining"), "mine/methods/gained.py changed"),
    Edit("mine/necks/gains.py", train("gaining"), "mine/necks/gains.py changed"),
    Edit("mine/backbones/pixels.py", train(TOYS) | embed(TOYS), "mine/backbones/pixels.py changed"),
    source("report/tables/attribution.py", {"table table2"}),
    source("report/figures/drop.py", {"figure drop"}),
)
CODE_OF_THE_ENGINE = (
    source("training/loop.py", train()),
    source("photos/crops.py", train(), embed(), SHOWN),
    source("attribution/smoothgrad.py", ATTRIBUTES),
    source("evaluation/retrieval.py", train(), {f"score {m}" for m in FEATURES}),
    source("evaluation/embedding.py", EMBEDS),
    source("toy/render.py", {"index toys"}),
    source("study/training.py", train()),
    source("models/preprocess.py", train(), embed(), SHOWN),
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
    Edit("params.yaml", EMBEDS, "evaluation.draws: 2 -> 3", "draws: 2", "draws: 3"),
    Edit("params.yaml", ATTRIBUTES, "attribution.samples: 2 -> 4", "samples: 2", "samples: 4"),
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
    ("data/weights/mine.safetensors", train(MINE) | embed(MINE), "weights"),
    ("photos/c0/0.png", {"fetch mine/photos"}, "sources"),
    ("true_masks/c0/0.png", {"fetch mine/masks"}, "sources"),
    ("drawn/c0/0.png", {"masks mine/drawn"}, "listing"),
    ("walls.zip", {"backgrounds walls"}, "listing"),
    ("walls/w0.png", {"backgrounds walls"}, "listing"),
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    """A grid of toys and of somebody's photos, with own plugins, weights, masks and walls, as if it had been run."""
    made = Player(tmp_path_factory.mktemp("edits") / "project")
    folder = made.folder
    shutil.copytree(
        ROOT / "tests/support/plugins", folder / "mine", ignore=shutil.ignore_patterns("__pycache__")
    )
    (folder / "mine/losses").mkdir()
    for name, text in {
        "own": OWN_LOSS,
        "_own_parts": "def scaled(by):\n    return 2 * by\n",
        "unused": OWN_LOSS,
    }.items():
        (folder / f"mine/losses/{name}.py").write_text(text)
    shutil.copytree(ROOT / "data/published", folder / "data/published")
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
    made.start()
    yield made
    made.stop()


def test_nothing_is_out_of_date_before_an_edit(project: Player) -> None:
    assert project.stale() == {}


@pytest.mark.parametrize(
    "edit",
    [*CODE_OF_PLUGINS, *CODE_OF_THE_ENGINE, *WITHOUT_NUMBERS, *SETTINGS],
    ids=lambda e: f"{e.file}:{e.after[:24]}",
)
def test_an_edit_makes_out_of_date_what_it_may_move_and_nothing_else(project: Player, edit: Edit) -> None:
    with project.edited(edit.file, edit.before, edit.after):
        stale = project.stale()
    assert set(stale) == edit.stale
    assert all(edit.why in why for why in stale.values()), stale


@pytest.mark.parametrize(
    ("file", "stale", "why"), CONTENT, ids=lambda value: value if isinstance(value, str) else ""
)
def test_other_content_of_equal_size_is_noticed(
    project: Player, file: str, stale: set[str], why: str
) -> None:
    path = project.folder / file
    known, times = path.read_bytes(), path.stat()
    path.write_bytes(known[:-1] + bytes([known[-1] ^ 1]))
    noticed = project.stale()
    # With the old time, too, whoever looks at everything finds it.
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    deep = project.stale(deep=True)
    path.write_bytes(known)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert set(noticed) == set(deep) == stale
    assert all(why in reason for reason in noticed.values()), noticed


def test_another_library_is_noticed_where_it_is_imported(project: Player) -> None:
    other = project.folder / "libraries/faiss_gpu-99.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: faiss-gpu\nVersion: 99.0\n")
    try:
        stale = project.stale()
    finally:
        shutil.rmtree(other)
    # Validation ranks as scoring does.
    assert {label.split()[0] for label in stale} <= {"train", "score", "figure"}
    assert train() | {f"score {m}" for m in FEATURES} <= set(stale)
    assert all("libraries.faiss" in why and "99.0" in why for why in stale.values())


def test_published_numbers_are_part_of_the_tables_that_show_them(project: Player) -> None:
    file = next((project.folder / "data/published").glob("*.csv")).relative_to(project.folder)
    with project.edited(str(file), "", "\n"):
        stale = project.stale()
    assert set(stale) <= TABLES
    assert stale
    assert all(file.name in why for why in stale.values())


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
