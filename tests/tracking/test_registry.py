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


pytestmark = pytest.mark.usefixtures("small_plugins")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def trained(project: Project, seed: int = 0, **more: Any) -> Path:
    """A training's record and its weights: of a backbone and a neck that are somebody's own."""
    weights = project.data / "runs/demo/models/model.safetensors"
    params = plugins.load("backbones", "pixels").Params()
    made = model.build_model("pixels", params, DIMENSION, seeds.torch_generator("model", seed))
    made.add_neck("gains", plugins.load("necks", "gains").Params(channels=made.embedder.in_features))
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


SERVED = """
import json, mlflow, numpy, pandas, pathlib, sys
files = ["0.png", "1.png", "2.png"]
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model(sys.argv[2])
encoded = pandas.DataFrame({"photo": [pathlib.Path(file).read_bytes() for file in files]})
numpy.savez("made.npz", path=model.predict({"path": files}), photo=model.predict(encoded),
            example=model.predict(model.input_example))
ours = [m.__file__ for n, m in sys.modules.items() if n.split(".")[0].startswith("bgbias")]
print(json.dumps([ours, model.metadata.signature.to_dict()]))
"""


def test_a_registered_model_holds_nothing_pickled_and_embeds_where_neither_bgbias_nor_plugins_are(
    project: Project,
) -> None:
    weights = trained(project)
    project.sync()
    files = [p for p in (project.root / "mlartifacts").rglob("*") if p.is_file()]
    assert not {p.suffix for p in files} & {".pkl", ".pickle", ".pt", ".pth", ".bin"}
    (kept,) = (p for p in files if p.suffix == ".safetensors")
    assert kept.read_bytes() == weights.read_bytes()
    assert [p.name for p in files if not p.suffix] == ["MLmodel"]
    for number, photo in enumerate(photos()):
        (project.root / f"{number}.png").write_bytes(pixels.encode_png(photo))

    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-c", SERVED, project.uri, f"models:/{NAME}@current"]
    said = subprocess.check_output(command, cwd=project.root, env=environment)
    loaded, signature = json.loads(said.splitlines()[-1])
    (root,) = (p for p in (project.root / "mlartifacts").rglob("code") if p.is_dir())
    assert {str(Path(p).relative_to(root)) for p in loaded} >= {"bgbias/models/backbones/pixels.py"}
    inputs, (output,) = (json.loads(signature[part]) for part in ("inputs", "outputs"))
    assert [(c["name"], c["type"]) for c in inputs] == [("photo", "binary"), ("path", "string")]
    assert output["tensor-spec"] == {"dtype": "float32", "shape": [-1, DIMENSION]}
    made = np.load(project.root / "made.npz")
    np.testing.assert_array_equal(made["path"], made["photo"])
    np.testing.assert_allclose(made["path"], Embedder(weights, "cpu").embed(photos()), rtol=0, atol=1e-6)
    np.testing.assert_allclose(made["path"], naive(weights), rtol=0, atol=1e-5)
    assert np.linalg.norm(made["example"], axis=1) == pytest.approx(1, abs=1e-5)


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
