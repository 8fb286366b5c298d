"""Networks in files: what beside photos (test_contract.py) decides their vectors, and files that are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from adapter_cases import CPU, SMALL, exported, graph, run_file, small_network
from brought_models import ours, photos, saved

from bgbias.errors import UserError
from bgbias.evaluation.embedder import Embedder
from bgbias.models.adapters import Options, load


def test_graphs_that_are_no_image_encoders_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    several = load(graph(path, outputs=("map", "image_embeds")))
    assert "output: 'image_embeds' of map, image_embeds" in several.notes
    with pytest.raises(UserError, match=r"outputs map, other, none of which is called as vectors"):
        load(graph(path, outputs=("map", "other")))
    with pytest.raises(UserError, match=r"2 inputs \(pixels, words\); export the part that embeds images"):
        load(graph(path, inputs=("pixels", "words")))
    with pytest.raises(UserError, match=r"takes tensor\(int64\) .*, not pictures"):
        load(graph(path, ("batch", 3, 32, 32), "INT64"))
    with pytest.raises(UserError, match="any size; say which one it was trained with: --size 224"):
        load(graph(path, ("batch", 3, "height", "width")))
    with pytest.raises(UserError, match=r"--mean means nothing to .*, which takes grey levels"):
        load(graph(path, kind="UINT8"), Options(mean=(0.5, 0.5, 0.5)))
    with pytest.raises(UserError, match="pictures of 32 pixels and no others; leave --size 48 out"):
        load(graph(path), Options(size=48))
    with pytest.raises(UserError, match=r"cannot use a GPU here: --device cuda cannot be"):
        load(graph(path), Options(device="cuda"))


# Files that are missing, or of another kind.


@pytest.mark.parametrize("kind", ["onnx", "tflite", "exported", "torchscript", "run"])
def test_a_file_that_is_missing_or_none_of_its_kind_is_named(kind: str, tmp_path: Path) -> None:
    if kind == "tflite":
        pytest.importorskip("ai_edge_litert")
    with pytest.raises(UserError, match=r"none.bin is missing[;.]"):
        load(f"{kind}:none.bin")
    (tmp_path / "half.bin").write_text("half a file")
    with pytest.raises(UserError, match=r"half.bin (could not be loaded: |is of an unknown kind|is damaged)"):
        load(f"{kind}:{tmp_path / 'half.bin'}")
    weights = saved(small_network(), tmp_path / "weights.bin")
    with pytest.raises(UserError, match=r"weights.bin (could not be loaded: |is a state dict)"):
        load(f"{kind}:{weights}")


def test_a_network_that_was_saved_for_other_pictures_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is a state dict.*--model timm:resnet50 --weights .*weights.pt"):
        load(f"torchscript:{saved(small_network(), tmp_path / 'weights.pt')}")
    torch.jit.save(torch.jit.trace(small_network(), torch.zeros(2, 3, 32, 32)), tmp_path / "model.pt")
    with pytest.raises(UserError, match=r"fails on a picture of 224 x 224 pixels.*give --size"):
        load(f"torchscript:{tmp_path / 'model.pt'}", CPU)
    with pytest.raises(UserError, match="takes 2 pictures at once and no other number"):
        load(exported(tmp_path, pictures=2), CPU)
    with pytest.raises(UserError, match="32 pixels and no others; leave --size 64 out"):
        load(exported(tmp_path), Options(size=64))


# Runs of bgbias, and models that MLflow keeps.


def test_what_bgbias_loads_is_taken_as_it_is(tmp_path: Path) -> None:
    embedder = Embedder(run_file(tmp_path), "cpu")
    expected = embedder.embed(photos())
    for given in (embedder, embedder.model):
        assert np.array_equal(ours(load(given, CPU)), expected)
        with pytest.raises(UserError, match="lies on cpu, and --device says cuda: move it, or leave"):
            load(given, Options(device="cuda"))
    for photo in photos():
        assert np.array_equal(load(embedder, CPU).look(photo), embedder.view(photo))
    with pytest.raises(UserError, match=r"--size means nothing to .*model.safetensors"):
        load(f"run:{tmp_path / 'model.safetensors'}", Options(size=96))


def test_a_run_of_bgbias_in_a_store_embeds_as_ever(tmp_path: Path) -> None:
    import mlflow

    file = run_file(tmp_path)
    mlflow.pyfunc.save_model(
        str(tmp_path / "model"),
        loader_module="bgbias.evaluation.embedder",
        data_path=str(file),
        pip_requirements=[],
    )
    address = (tmp_path / "model").as_uri()
    found = load(f"mlflow:{address}", CPU)
    assert found.name == f"mlflow:{address}"
    assert np.array_equal(ours(found), ours(load(file, CPU)))
    with pytest.raises(UserError, match="--size means nothing to run:"):
        load(f"mlflow:{address}", SMALL)


def test_what_is_no_model_of_mlflow_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    # What another test of this process named goes before the environment.
    monkeypatch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
    monkeypatch.setattr("mlflow.tracking._model_registry.utils._registry_uri", None)
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(UserError, match="holds no model"):
        load(f"mlflow:{tmp_path}")
    with pytest.raises(UserError, match=r"models:/none@best could not be fetched .*MLFLOW_TRACKING_URI"):
        load("mlflow:models:/none@best")
    mlflow.pyfunc.save_model(
        str(tmp_path / "other"), python_model=lambda model_input: model_input, pip_requirements=[]
    )
    with pytest.raises(UserError, match="was saved as python_function, which is not taken here"):
        load(f"mlflow:{tmp_path / 'other'}")
