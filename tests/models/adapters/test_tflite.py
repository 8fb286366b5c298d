"""Networks as phones run them: published ones of 8 bits, whose pooled features are the embedding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from brought_models import ours

from bgbias.errors import UserError
from bgbias.models.adapters import Options, load


@pytest.fixture
def folder(shared_data: Path) -> Path:
    """Published networks; skipped where the library or they are absent."""
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    return shared_data / "weights" / "tflite"


POOLED = "MobilenetV1/Logits/AvgPool_1a/AvgPool"
BIRDS = "mobilenet_v2_1.0_224_inat_bird_quant"


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "side", "dim", "tensor"),
    [
        ("mobilenet_v1_0.25_128_quant", 128, 256, POOLED),
        (BIRDS, 224, 1280, "AvgPool/AvgPool"),
        ("tf2_mobilenet_v2_1.0_224_ptq", 224, 1280, "GlobalPool/Mean"),
    ],
)
def test_the_pooled_features_are_the_embedding(
    name: str, side: int, dim: int, tensor: str, folder: Path
) -> None:
    found = load(folder / f"{name}.tflite", Options(device="cpu"))
    assert (found.look.size, found.dim, found.network) == (side, dim, None)
    assert any(tensor in line for line in found.notes)
    vectors = ours(found)
    assert vectors.min() >= 0, "they lie behind a ReLU"
    assert np.unique(vectors.round(4)).size > 10


@pytest.mark.shared
def test_another_tensor_can_be_named_and_what_cannot_be_is_reported(folder: Path) -> None:
    birds = folder / f"{BIRDS}.tflite"
    found = load(f"tflite:{birds}#prediction")
    assert found.dim == 965
    vectors = ours(found)
    assert 0.7 < vectors.sum(1).min() <= vectors.sum(1).max() < 1.1, "probabilities, rounded to 8 bits"
    with pytest.raises(UserError, match=r"no tensor in .*'AvgPool/AvgPol'. Did you mean AvgPool/AvgPool"):
        load(f"tflite:{birds}#AvgPool/AvgPol")
    with pytest.raises(UserError, match="pictures of 224 pixels and no others; leave --size 192 out"):
        load(birds, Options(size=192))
    with pytest.raises(UserError, match=r"--mean means nothing to .*, which takes grey levels"):
        load(birds, Options(mean=(0.5, 0.5, 0.5)))
    with pytest.raises(UserError, match="computes in its own precision"):
        load(birds, Options(precision="bfloat16"))
