"""Photos and a model, as somebody has them who has nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import bgbias
from bgbias import plugins, seeds
from bgbias.models import model as models
from bgbias.toy import render, scenes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rendered toys with their masks, scenes, and a model with random weights."""
    folder = tmp_path_factory.mktemp("library")
    for number in range(2):
        scene = scenes.photograph(scenes.scene("api", number), scenes.glance("api", number), 64)
        Image.fromarray((255 * scene).astype(np.uint8)).save(folder / f"scene_{number}.png")
    for name, c, n in (("mug_0", 0, 0), ("mug_1", 0, 1), ("house", 1, 0)):
        shot = render.shoot(render.toy(0, "test", c), render.pose(0, "test", c, n), 64)
        Image.fromarray(render.expose(shot, scene)).save(folder / f"{name}.png")
        Image.fromarray(render.mask_pixels(shot)).save(folder / f"{name}_mask.png")
    params = plugins.load("backbones", "tiny").Params()
    model = models.build_model("tiny", params, 16, seeds.torch_generator("api"))
    models.save(model, folder / "model.safetensors", {"cell": {"loss": "contrastive"}})
    return folder


@pytest.fixture(autouse=True)
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


@pytest.fixture(scope="module")
def model(folder: Path) -> bgbias.Embedder:
    return bgbias.load(folder / "model.safetensors", "cpu")
