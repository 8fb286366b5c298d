"""What the library's face refuses, and that it needs nothing of the study's tools."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from project import ROOT

import bgbias
from bgbias import UserError

SHOWN = ["mug_0.png", "mug_1.png", "house.png"]


def colours(batch: list[np.ndarray]) -> list[np.ndarray]:
    return [photo.mean((0, 1)) for photo in batch]


TWO_MASKS = ["mug_0_mask.png", "mug_1_mask.png"]
MISTAKES: list[tuple[Callable[[Any], object], str]] = [
    (lambda _: bgbias.load("nowhere.safetensors"), r"nowhere\.safetensors"),
    (lambda _: bgbias.load("timm:resnet50"), r"was given 'timm:resnet50'.*go into bgbias\.audit"),
    (lambda _: bgbias.load(torch.nn.Identity()), r"was given a Identity\..*go into bgbias\.audit"),  # type: ignore[arg-type]
    (
        lambda model: bgbias.embed(model, ["mug_0.png", "nowhere.png"]),
        r"photos\[1\]: the picture nowhere\.png is missing",
    ),
    (
        lambda model: bgbias.embed(model, ["mug_0.png", np.zeros((8, 8, 3))]),
        r"photos\[1\] is float64 \[8, 8, 3\], not uint8",
    ),
    (lambda model: bgbias.embed(model, [3]), r"photos\[0\] is a int"),  # type: ignore[list-item]
    (lambda model: bgbias.embed(model, []), "no photos to embed"),
    (
        lambda _: bgbias.embed(lambda batch: np.ones(3), SHOWN[:2]),
        r"gave \[3\] for 2 photos, not a vector of each",
    ),
    (lambda _: bgbias.embed(lambda batch: np.zeros((len(batch), 3)), SHOWN), "zero or not finite"),
    (lambda _: bgbias.embed("model.safetensors", SHOWN, size=64), r"^(?!.*--).*size= means nothing to"),
    (lambda _: bgbias.embed(colours, SHOWN, batch_size=0), "batch_size= is 0; it is at least 1"),
    (
        lambda _: bgbias.embed(colours, SHOWN, out="vectors.txt"),
        r"out=vectors.txt: embeddings are saved as .npy",
    ),
    (
        lambda _: bgbias.corrupt("mug_0.png", np.zeros((40, 64), np.uint8), "scene_0.png", "mug"),
        r"mask is uint8 \[40, 64\], not uint8 or bool \[64, 64\]",
    ),
    (lambda _: bgbias.corrupt("mug_0.png", "mug_0_mask.png", [], "mug"), "no background"),
    (
        lambda _: bgbias.corrupt(SHOWN, TWO_MASKS, "scene_0.png", SHOWN),
        "there are 3 photos, 2 masks and 3 keys",
    ),
    (
        lambda _: bgbias.corrupt(SHOWN[:2], ["mug_0_mask.png", "nowhere.png"], "scene_0.png", SHOWN[:2]),
        r"masks\[1\]: the picture nowhere.png is missing",
    ),
    (
        lambda _: bgbias.rank(np.array([[2.0, 0]], np.float32), ["a"]),
        r"image 0 has length 2, not 1 \(1 of 1.*Divide each vector",
    ),
    (
        lambda _: bgbias.rank(np.array([[1.0, 0]], np.float32), ["a", "b"]),
        r"queries \[1, 2\] and labels \[2\]",
    ),
    (lambda _: bgbias.rank(np.eye(2), ["a", "b"], np.eye(2)), "gallery comes with its labels"),
    (lambda _: bgbias.rank(np.eye(2, dtype=np.float32), ["a", "b"], size=3), "give model=, too"),
    (lambda model: bgbias.attribute(model, SHOWN, [None]), "3 photos, 1 masks and 3 names"),
    (lambda model: bgbias.explain(model, SHOWN[:1]), "two, three or four photos, not 1"),
    (
        lambda _: bgbias.explain(colours, SHOWN[:2], size=64),
        r"colours has no feature map .*What is possible: bgbias.attribute",
    ),
    (lambda _: bgbias.explain(timm.create_model("test_vit.r160_in1k"), SHOWN[:2]), "it pools tokens"),
]


@pytest.mark.parametrize(("mistake", "words"), MISTAKES)
def test_mistakes_are_told_in_words(
    model: bgbias.Embedder, mistake: Callable[[Any], object], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        mistake(model)


def test_an_argument_that_nobody_knows_is_one_of_python() -> None:
    with pytest.raises(TypeError, match="unexpected argument sizes; there are weights, size"):
        bgbias.embed(colours, SHOWN, sizes=3)


WITHOUT_TOOLS = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"snakemake", "dvc", "mlflow", "alembic", "sqlalchemy"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""
EVERYTHING = """
import bgbias
model = bgbias.load("model.safetensors", "cpu")
vectors = bgbias.embed(model, ["mug_0.png", "mug_1.png"])
bgbias.corrupt("mug_0.png", "mug_0_mask.png", "scene_0.png", "mug")
bgbias.rank(vectors, ["mug", "mug"])
bgbias.attribute(model, ["mug_0.png"], ["mug_0_mask.png"], samples=1)
bgbias.explain(model, ["mug_0.png", "mug_1.png"])
from bgbias.masks import saliency
from bgbias.training import batches, loop
for family in bgbias.plugins.REQUIRED:
    for name in bgbias.plugins.names(family):
        bgbias.plugins.load(family, name + ":any" * ((family, name) in (("backbones", "timm"), ("attacks", "mtax"))))
from bgbias.cli import main
for words in ("--help", "explain model.safetensors mug_0.png mug_1.png", "resume --params PARAMS"):
    sys.argv = ["bgbias", *words.split()]
    try:
        main()
    except SystemExit as ended:
        print(words.split()[0], ended.code)
"""


def test_the_core_needs_neither_snakemake_nor_dvc_nor_mlflow(tmp_path: Path) -> None:
    """And what does need them says how to get them."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TOOLS + EVERYTHING.replace("PARAMS", str(ROOT / "params.yaml"))],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "--help 0" in lines
    assert "explain 0" in lines
    assert Path("explanation.png").stat().st_size > 1000
    assert "resume 2" in lines
    assert "this needs snakemake, which is not installed: pip install 'bgbias[workflow]'" in done.stderr
    assert "Traceback" not in done.stderr
