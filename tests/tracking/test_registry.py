"""Trained models stand in MLflow's registry, and one call turns photos into the embeddings of ``bgbias embed``."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade_records import Project

from bgbias import plugins, seeds
from bgbias.errors import UserError
from bgbias.evaluation.embedder import Embedder
from bgbias.images import pixels
from bgbias.models import model

NAME = "demo-toy_090-small-contrastive-bgaugment-seed0"
DIMENSION = 16


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def trained(project: Project, seed: int = 0, backbone: str = "tiny", neck: str = "", **more: Any) -> Path:
    """A training's record and its weights."""
    weights = project.data / "runs/demo/models/model.safetensors"
    generator = seeds.torch_generator("model", seed)
    params = plugins.load("backbones", backbone).Params()
    made = model.build_model(backbone, params, DIMENSION, generator)
    if neck:
        made.add_neck(neck, plugins.load("necks", neck).Params(channels=made.embedder.in_features))
    model.save(made, weights)
    checksum = hashlib.sha256(weights.read_bytes()).hexdigest()
    project.history(2)
    spec = {"train": {"embedding_dim": DIMENSION}, "loss": {"margin": 0.5}}
    project.training(spec=spec, outputs={str(weights): checksum}, **more)
    return weights


def photos() -> list[np.ndarray]:
    """Three photos of different sizes."""
    generator = np.random.default_rng(0)
    sizes = ((80, 120), (200, 90), (64, 64))
    return [generator.integers(0, 256, (h, w, 3), dtype=np.uint8) for h, w in sizes]


def naive(weights: Path) -> np.ndarray:
    """The photos one by one through the model as it was saved, with torch alone."""
    import torch

    found = model.load(weights)
    made = []
    for photo in photos():
        seen = pixels.centre_crop(pixels.resize_short(photo, found.resize), found.input_size)
        x = torch.from_numpy(seen.copy()).permute(2, 0, 1)[None].float()
        with torch.inference_mode():
            made.append(found(found.preprocess(x)).numpy()[0])
    return np.stack(made)


def test_a_registered_model_holds_nothing_pickled_and_embeds_encoded_photos_and_files_alike(
    project: Project,
) -> None:
    import mlflow

    weights = trained(project)
    project.sync()
    files = [p for p in (project.root / "mlartifacts").rglob("*") if p.is_file()]
    assert not {p.suffix for p in files} & {".pkl", ".pickle", ".pt", ".pth", ".bin"}
    (kept,) = (p for p in files if p.suffix == ".safetensors")
    assert kept.read_bytes() == weights.read_bytes()
    assert [p.name for p in files if not p.suffix] == ["MLmodel"]
    mlflow.set_tracking_uri(project.uri)
    embedder = mlflow.pyfunc.load_model(f"models:/{NAME}@current")
    frame = pd.DataFrame({"photo": [pixels.encode_png(photo) for photo in photos()]})
    expected = naive(weights)
    np.testing.assert_allclose(embedder.predict(frame), expected, rtol=0, atol=1e-5)

    paths = [project.root / f"{number}.png" for number in range(3)]
    for path, data in zip(paths, frame["photo"], strict=True):
        path.write_bytes(data)
    named = embedder.predict({"path": [str(path) for path in paths]})
    np.testing.assert_array_equal(named, embedder.predict(frame))
    np.testing.assert_array_equal(Embedder(weights, "cpu").embed(photos()), named)

    signature = embedder.metadata.signature
    assert [(c.name, c.type.name) for c in signature.inputs] == [("photo", "binary"), ("path", "string")]
    (made,) = signature.outputs
    assert (made.type, made.shape) == (np.dtype("float32"), (-1, DIMENSION))
    assert np.linalg.norm(embedder.predict(embedder.input_example), axis=1) == pytest.approx(1, abs=1e-5)


def test_wrong_input_is_told_in_words(project: Project) -> None:
    embedder = Embedder(trained(project), "cpu")
    with pytest.raises(UserError, match=r"one column: 'photo'.*found: images"):
        embedder.predict(pd.DataFrame({"images": [1]}))
    with pytest.raises(UserError, match=r"Photo 0: the picture nowhere.jpg is missing"):
        embedder.predict(pd.DataFrame({"path": ["nowhere.jpg"]}))
    with pytest.raises(UserError, match="'photo 1' cannot be decoded"):
        embedder.predict(pd.DataFrame({"photo": [pixels.encode_png(photos()[0]), b"no picture"]}))
    with pytest.raises(UserError, match=r"Photo 0 is float64 \[8, 8, 3\]"):
        embedder.embed([np.zeros((8, 8, 3))])


@pytest.mark.usefixtures("small_plugins")
def test_registered_code_serves_where_neither_bgbias_nor_the_backbones_folder_is(project: Project) -> None:
    weights = trained(project, backbone="pixels", neck="gains")
    project.sync()
    (project.root / "photo.png").write_bytes(pixels.encode_png(photos()[0]))
    code = f"""
import json, mlflow, numpy, sys
mlflow.set_tracking_uri("{project.uri}")
model = mlflow.pyfunc.load_model("models:/{NAME}@current")
numpy.save("made.npy", model.predict({{"path": ["photo.png"]}}))
ours = [m for n, m in sys.modules.items() if n.split(".")[0].startswith("bgbias")]
print(json.dumps([m.__file__ for m in ours]))
"""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    served = json.loads(
        subprocess.check_output([sys.executable, "-c", code], cwd=project.root, env=environment).splitlines()[
            -1
        ]
    )
    (root,) = (p for p in (project.root / "mlartifacts").rglob("code") if p.is_dir())
    assert {str(Path(p).relative_to(root)) for p in served} >= {"bgbias/models/backbones/pixels.py"}
    found = Embedder(weights, "cpu").embed(photos()[:1])
    np.testing.assert_allclose(np.load(project.root / "made.npy"), found, rtol=0, atol=1e-6)


def test_a_training_is_one_version_and_the_last_one_is_current(project: Project) -> None:
    from mlflow import MlflowClient

    weights, client = trained(project), MlflowClient(project.uri)
    elsewhere = weights.rename(project.root / "elsewhere")
    project.sync()
    assert not client.search_registered_models()  # weights that are not here are registered when they come
    elsewhere.rename(weights)
    project.sync()
    project.sync()
    (first,) = client.search_model_versions(f"name = '{NAME}'")
    assert client.get_run(first.run_id).data.tags["bgbias.digest"] == first.tags["digest"]
    assert first.tags["method"] == "bgaugment"

    trained(project, seed=1, started="2025-06-01T13:00:00+00:00")
    project.sync()
    assert len(client.search_model_versions(f"name = '{NAME}'")) == 2
    current = client.get_model_version_by_alias(NAME, "current")
    assert current.version != first.version

    trained(project, seed=0, started="2025-06-01T14:00:00+00:00")
    project.sync()
    assert len(client.search_model_versions(f"name = '{NAME}'")) == 2
    assert client.get_model_version_by_alias(NAME, "current").version == first.version
