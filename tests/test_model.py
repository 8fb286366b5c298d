"""The embedding model around any backbone: randomness, frozen batch norm, inference copies, files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from backbone_models import make, photos, unsettle
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bgbias import model as models
from bgbias import plugins, seeds
from bgbias.errors import UserError
from bgbias.model import for_inference

FAMILY = plugins.names("backbones")


@pytest.mark.parametrize("name", FAMILY)
def test_model_comes_from_the_generator_alone(name: str) -> None:
    before = torch.get_rng_state()
    first, second, other = make(name, 1).state_dict(), make(name, 1).state_dict(), make(name, 2).state_dict()
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(first[k], second[k]) for k in first)
    assert not torch.equal(first["embedder.weight"], other["embedder.weight"])
    convolutions = [k for k in first if first[k].ndim == 4]
    assert not any(torch.equal(first[k], other[k]) for k in convolutions)


@pytest.mark.parametrize("name", FAMILY)
def test_inference_copy_gives_the_same_embeddings(name: str) -> None:
    model = make(name).eval()
    unsettle(model)
    x = photos(name)
    fast = for_inference(model)
    assert not any(isinstance(m, _BatchNorm) for m in fast.modules())
    assert not any(p.requires_grad for p in fast.parameters())
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x), rtol=0, atol=1e-4)
        with torch.autocast("cpu", torch.bfloat16):
            rounded = fast(x)
        assert rounded.dtype == torch.float32
        assert torch.cosine_similarity(rounded, model(x)).min() > 0.99
    view = x.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        total = fast(view)[:, 0].sum()
    assert torch.autograd.grad(total, view)[0].isfinite().all()


@pytest.mark.parametrize("name", FAMILY)
def test_saved_model_describes_itself(name: str, tmp_path: Path) -> None:
    model = make(name, dim=5, freeze_batch_norm=False).eval()
    unsettle(model)
    models.save(model, tmp_path / "model.safetensors", {"epoch": 3})
    loaded = models.load(tmp_path / "model.safetensors")
    assert (loaded.backbone, loaded.dim, loaded.freeze_batch_norm) == (name, 5, False)
    assert models.metadata(tmp_path / "model.safetensors") == {"epoch": 3}
    assert not loaded.training
    with torch.no_grad():
        assert torch.equal(loaded(photos(name)), model(photos(name)))


# Batch norm.


def test_frozen_batch_norm_keeps_its_statistics_and_trains_its_gain() -> None:
    model = make("resnet18")
    unsettle(model)
    model.train()
    before = {k: v.clone() for k, v in model.named_buffers()}
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(4, 3, 64, 64, generator=seeds.torch_generator("x")))[:, 0].sum().backward()
    gain = model.trunk.bn1.weight.detach().clone()  # type: ignore[union-attr]
    optimiser.step()
    assert all(torch.equal(before[k], v) for k, v in model.named_buffers())
    assert not torch.equal(gain, model.trunk.bn1.weight)  # type: ignore[union-attr]
    assert model.trunk.layer1.training  # type: ignore[union-attr]


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
