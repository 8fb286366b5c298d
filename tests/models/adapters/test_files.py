"""Networks in files: what beside photos (test_contract.py) decides their vectors, and files that are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adapter_cases import CPU, SMALL, exported, graph, run_file, scripted, small_network
from brought_models import ours, photos, saved

from bgbias.errors import UserError
from bgbias.evaluation.embedder import Embedder
from bgbias.models.adapters import Options, load


@pytest.mark.parametrize(
    ("made", "options", "said"),
    [
        ({"outputs": ("map", "other")}, {}, "outputs map, other, none of which is called as vectors"),
        ({"inputs": ("pixels", "words")}, {}, r"2 inputs \(pixels, words\); export the part that embeds"),
        ({"kind": "INT64"}, {}, r"takes tensor\(int64\) .*, not pictures"),
        ({"shape": ("batch", 3, "height", "width")}, {}, "any size; say which one .*: --size 224"),
        ({"kind": "UINT8"}, {"mean": (0.5, 0.5, 0.5)}, "--mean means nothing to .* takes grey levels"),
        ({}, {"size": 48}, "pictures of 32 pixels and no others; leave --size 48 out"),
        ({}, {"device": "cuda"}, "cannot use a GPU here: --device cuda cannot be"),
    ],
)
def test_graphs_that_are_no_image_encoders_are_reported(
    tmp_path: Path, made: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        load(graph(tmp_path / "model.onnx", **made), Options(**options))
    several = load(graph(tmp_path / "model.onnx", outputs=("map", "image_embeds")))
    assert "output: 'image_embeds' of map, image_embeds" in several.notes


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
    with pytest.raises(UserError, match=r"fails on a picture of 224 x 224 pixels.*give --size"):
        load(scripted(tmp_path), CPU)
    with pytest.raises(UserError, match="takes 2 pictures at once and no other number"):
        load(exported(tmp_path, pictures=2), CPU)
    with pytest.raises(UserError, match="32 pixels and no others; leave --size 64 out"):
        load(exported(tmp_path), Options(size=64))


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

    file, module = run_file(tmp_path), "bgbias.evaluation.embedder"
    place = tmp_path / "model"
    mlflow.pyfunc.save_model(str(place), loader_module=module, data_path=str(file), pip_requirements=[])
    found = load(f"mlflow:{place.as_uri()}", CPU)
    assert found.name == f"mlflow:{place.as_uri()}"
    assert np.array_equal(ours(found), ours(load(file, CPU)))
    with pytest.raises(UserError, match="--size means nothing to run:"):
        load(f"mlflow:{place.as_uri()}", SMALL)


def test_what_is_no_model_of_mlflow_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    # What another test of this process named goes before the environment.
    monkeypatch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
    monkeypatch.setattr("mlflow.tracking._model_registry.utils._registry_uri", None)
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    other = tmp_path / "other"
    mlflow.pyfunc.save_model(str(other), python_model=lambda model_input: model_input, pip_requirements=[])
    for place, said in (
        (tmp_path, "holds no model"),
        ("models:/none@best", r"models:/none@best could not be fetched .*MLFLOW_TRACKING_URI"),
        (other, "was saved as python_function, which is not taken here"),
    ):
        with pytest.raises(UserError, match=said):
            load(f"mlflow:{place}")


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "side", "dim", "tensor"),
    [
        ("mobilenet_v1_0.25_128_quant", 128, 256, "MobilenetV1/Logits/AvgPool_1a/AvgPool"),
        ("mobilenet_v2_1.0_224_inat_bird_quant", 224, 1280, "AvgPool/AvgPool"),
        ("tf2_mobilenet_v2_1.0_224_ptq", 224, 1280, "GlobalPool/Mean"),
    ],
)
def test_the_pooled_features_are_the_embedding_unless_another_tensor_is_named(
    name: str, side: int, dim: int, tensor: str, shared_data: Path
) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    file = shared_data / "weights" / "tflite" / f"{name}.tflite"
    found = load(file, CPU)
    assert (found.look.size, found.dim, found.network) == (side, dim, None)
    assert any(tensor in line for line in found.notes)
    vectors = ours(found)
    assert vectors.min() >= 0, "they lie behind a ReLU"
    assert np.unique(vectors.round(4)).size > 10
    if "bird" in name:
        named = load(f"tflite:{file}#prediction")
        assert named.dim == 965
        sums = ours(named).sum(1)
        assert 0.7 < sums.min() <= sums.max() < 1.1, "probabilities, rounded to 8 bits"
        for spec, options, said in (
            (f"tflite:{file}#AvgPool/AvgPol", CPU, r"no tensor in .*AvgPol'. Did you mean AvgPool/AvgPool"),
            (file, Options(size=192), "pictures of 224 pixels and no others; leave --size 192 out"),
            (file, Options(mean=(0.5, 0.5, 0.5)), r"--mean means nothing to .*, which takes grey levels"),
            (file, Options(precision="bfloat16"), "computes in its own precision"),
        ):
            with pytest.raises(UserError, match=said):
                load(spec, options)
