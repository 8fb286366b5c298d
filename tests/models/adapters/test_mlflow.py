"""Models that MLflow keeps are read as the kind that they were saved as."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from brought_models import assert_equal, ours, theirs
from torch import nn
from torchvision.transforms import CenterCrop, Compose, Normalize, Resize, ToTensor

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.evaluation.embedder import Embedder
from bgbias.models.adapters import Options, load
from bgbias.models.backbones.tiny import Params
from bgbias.models.model import build_model, save

SMALL = Options(size=32, device="cpu")
USUAL = Compose(
    [Resize(36), CenterCrop(32), ToTensor(), Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
)


@pytest.fixture
def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 6, 8, 8), nn.ReLU(), nn.Flatten(), nn.Linear(96, 5)).eval()


@pytest.mark.parametrize("kind", ["pickle", "pt2"])
def test_networks_of_torch_embed_as_they_were_saved(kind: Any, network: nn.Module, tmp_path: Path) -> None:
    import mlflow

    example = np.zeros((1, 3, 32, 32), np.float32)
    mlflow.pytorch.save_model(
        network,
        str(tmp_path / "model"),
        serialization_format=kind,
        input_example=example,
        pip_requirements=[],
    )
    found = load(f"mlflow:{tmp_path / 'model'}", SMALL)
    assert_equal(ours(found), theirs(USUAL, network))
    assert found.name == f"mlflow:{tmp_path / 'model'}"


def test_a_run_of_bgbias_embeds_as_ever(tmp_path: Path) -> None:
    """From a store, by an address."""
    import mlflow

    save(build_model("tiny", Params(), 16, seeds.torch_generator("mlflow")), tmp_path / "model.safetensors")
    mlflow.pyfunc.save_model(
        str(tmp_path / "model"),
        loader_module="bgbias.evaluation.embedder",
        data_path=str(tmp_path / "model.safetensors"),
        pip_requirements=[],
    )
    address = (tmp_path / "model").as_uri()
    found = load(f"mlflow:{address}", Options(device="cpu"))
    photos = ours(load(tmp_path / "model.safetensors", Options(device="cpu")))
    assert np.array_equal(ours(found), photos)
    assert found.look.size == Embedder(tmp_path / "model.safetensors", "cpu").model.input_size
    with pytest.raises(UserError, match="--size means nothing to run:"):
        load(f"mlflow:{address}", SMALL)


def test_what_is_no_model_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    # What another test of this process named goes before the environment.
    monkeypatch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
    monkeypatch.setattr("mlflow.tracking._model_registry.utils._registry_uri", None)
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(UserError, match="holds no model"):
        load(f"mlflow:{tmp_path}")
    with pytest.raises(
        UserError, match=r"mlflow:models:/none@best could not be fetched .*MLFLOW_TRACKING_URI"
    ):
        load("mlflow:models:/none@best")
    mlflow.pyfunc.save_model(
        str(tmp_path / "other"), python_model=lambda model_input: model_input, pip_requirements=[]
    )
    with pytest.raises(UserError, match="was saved as python_function, which is not taken here"):
        load(f"mlflow:{tmp_path / 'other'}")
