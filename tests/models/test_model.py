"""The embedding model, where one backbone is enough to see it; what all of them must do is in test_backbones.py."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from backbone_models import make, photos, unsettle
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bgbias import plugins, seeds
from bgbias.errors import UserError
from bgbias.models import model as models
from bgbias.models.inference import for_inference


def test_free_batch_norm_follows_the_batch() -> None:
    model = make("resnet18", freeze_batch_norm=False).train()
    model(torch.randn(4, 3, 64, 64, generator=seeds.torch_generator("x")))
    assert model.trunk.bn1.running_mean.abs().sum() > 0  # type: ignore[union-attr]


def test_batch_norm_that_is_not_next_to_its_convolution_is_not_folded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Siblings in another order than they are computed in: folding would change the embedding."""

    class Crossed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.second, self.norm_of_first = nn.Conv2d(192, 192, 1), nn.BatchNorm2d(192)
            self.first = nn.Conv2d(3, 192, 8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.norm_of_first(self.first(x)).relu())

    monkeypatch.setattr(plugins.load("backbones", "tiny"), "build", lambda params: Crossed())
    model = make("tiny").eval()
    unsettle(model)
    fast = for_inference(model)
    assert any(isinstance(m, _BatchNorm) for m in fast.modules())
    with torch.no_grad():
        torch.testing.assert_close(fast(photos("tiny")), model(photos("tiny")), rtol=0, atol=1e-5)


def test_damaged_and_missing_models_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model\.safetensors is missing"):
        models.load(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").write_bytes(b"half a file")
    with pytest.raises(UserError, match="damaged"):
        models.load(tmp_path / "model.safetensors")
