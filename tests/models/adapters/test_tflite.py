"""Networks as phones run them: published ones of 8 bits, whose pooled features are the embedding."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from brought_models import photos

from bgbias.errors import UserError
from bgbias.models.adapters import Options, load


@pytest.fixture
def folder(shared_data: Path) -> Path:
    """Published networks; skipped where the library or they are absent."""
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    return shared_data / "weights" / "tflite"


@pytest.fixture
def birds(folder: Path) -> Path:
    return folder / "mobilenet_v2_1.0_224_inat_bird_quant.tflite"


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "side", "dim", "tensor"),
    [
        ("mobilenet_v1_0.25_128_quant", 128, 256, "MobilenetV1/Logits/AvgPool_1a/AvgPool"),
        ("mobilenet_v1_0.5_160_quant", 160, 512, "MobilenetV1/Logits/AvgPool_1a/AvgPool"),
        ("mobilenet_v1_0.75_192_quant", 192, 768, "MobilenetV1/Logits/AvgPool_1a/AvgPool"),
        (
            "mobilenet_v1_1.0_224_quant_embedding_extractor",
            224,
            1024,
            "MobilenetV1/Logits/AvgPool_1a/AvgPool",
        ),
        ("mobilenet_v2_1.0_224_inat_bird_quant", 224, 1280, "AvgPool/AvgPool"),
        ("mobilenet_v2_1.0_224_inat_insect_quant", 224, 1280, "AvgPool/AvgPool"),
        ("tf2_mobilenet_v2_1.0_224_ptq", 224, 1280, "GlobalPool/Mean"),
    ],
)
def test_the_pooled_features_are_the_embedding(
    name: str, side: int, dim: int, tensor: str, folder: Path
) -> None:
    found = load(folder / f"{name}.tflite", Options(device="cpu"))
    assert (found.look.size, found.dim, found.network) == (side, dim, None)
    assert any(tensor in line for line in found.told)
    vectors = found.embed(np.stack([found.look(photo) for photo in photos()]))
    assert vectors.min() >= 0, "they lie behind a ReLU"
    assert np.unique(vectors.round(4)).size > 10


@pytest.mark.shared
def test_another_tensor_can_be_named(birds: Path) -> None:
    found = load(f"tflite:{birds}#prediction")
    assert found.dim == 965
    vectors = found.embed(np.stack([found.look(photo) for photo in photos()]))
    assert 0.7 < vectors.sum(1).min() <= vectors.sum(1).max() < 1.1, "probabilities, rounded to 8 bits"
    with pytest.raises(UserError, match=r"no tensor in .*'AvgPool/AvgPol'. Did you mean AvgPool/AvgPool"):
        load(f"tflite:{birds}#AvgPool/AvgPol")


@pytest.mark.shared
def test_what_cannot_be_is_told(birds: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="pictures of 224 pixels and no others; leave --size 192 out"):
        load(birds, Options(size=192))
    with pytest.raises(UserError, match=r"--mean means nothing to .*, which takes grey levels"):
        load(birds, Options(mean=(0.5, 0.5, 0.5)))
    with pytest.raises(UserError, match="computes in its own precision"):
        load(birds, Options(precision="bfloat16"))
    with pytest.raises(UserError, match=r"none.tflite is missing; correct --model"):
        load("none.tflite")
    (tmp_path / "page.tflite").write_text("<html>")
    with pytest.raises(UserError, match=f"{re.escape(str(tmp_path))}.*could not be loaded: "):
        load(tmp_path / "page.tflite")
