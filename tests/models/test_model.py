"""The embedding model, where one backbone is enough to see it; what all of them must do is in test_backbones.py.

A batch norm before the embedding layer is DCML's, as its released code has one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from backbone_models import make, photos, unsettle
from dcml_models import KINDS, built, one_batch, unlike
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bgbias import plugins, seeds
from bgbias.models import model as models
from bgbias.models.inference import for_inference
from bgbias.training import loop
from bgbias.training.settings import Train

pytestmark = pytest.mark.usefixtures("small_plugins")


def test_free_batch_norm_follows_the_batch() -> None:
    model = make("tiny_batch_norm", freeze_batch_norm=False).train()
    model(photos("tiny_batch_norm", 4))
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    assert all(norm.running_mean.abs().sum() > 0 for norm in norms)


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


def frozen_model() -> models.EmbeddingModel:
    params = plugins.load("backbones", "pixels").Params()
    return models.build_model("pixels", params, 6, seeds.torch_generator("model"), True)


def normalised(x: Tensor) -> Tensor:
    return (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()


def test_head_norm_is_not_frozen_where_the_trunks_are() -> None:
    model = frozen_model()
    norm = model.add_head_norm()
    model.train()
    assert [m.training for m in model.modules() if isinstance(m, nn.BatchNorm2d)] == [False]
    features = torch.rand(12, 8, 7, 7, generator=seeds.torch_generator("maps"))
    pooled = features.mean((2, 3))
    expected = F.normalize(normalised(pooled) @ model.embedder.weight.T + model.embedder.bias, dim=1)
    torch.testing.assert_close(model.embed_features(features), expected)
    model.eval()
    assert not norm.training
    seen = (pooled - norm.running_mean) / (norm.running_var + 1e-5).sqrt()
    expected = F.normalize(seen @ model.embedder.weight.T + model.embedder.bias, dim=1)
    torch.testing.assert_close(model.embed_features(features), expected)


def test_head_norm_is_saved_with_the_model(tmp_path: Path) -> None:
    model, x = frozen_model(), torch.rand(5, 3, 32, 32, generator=seeds.torch_generator("photos"))
    without = model.eval()(x)
    norm = model.add_head_norm()
    norm.running_mean = torch.rand(8, generator=seeds.torch_generator("mean"))
    norm.running_var = 1 + norm.running_mean
    models.save(model.eval(), tmp_path / "model.safetensors")
    found = models.load(tmp_path / "model.safetensors")
    assert torch.equal(found(x), model(x))
    assert not torch.allclose(found(x), without, atol=1e-3)
    torch.testing.assert_close(for_inference(found)(x), model(x), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_dcml_calls_the_head_norm_for_all_photos_alike_and_for_each_environment(kind: str) -> None:
    """Its statistics are those of every call, one after the other; it learns, and does not decay."""
    method, batch = unlike(built(kind, head_bn=True, environments=3)), one_batch()
    for module in method.modules().values():
        module.train()
    norm, pooled = method.model.head_norm, list[Tensor]()
    norm.register_forward_pre_hook(lambda _, inputs: pooled.append(inputs[0].detach()))
    mean, var = norm.running_mean.clone(), norm.running_var.clone()
    method.loss(batch)["loss"].backward()
    assert len(pooled) == 1 + 3
    for seen in pooled:
        mean, var = 0.9 * mean + 0.1 * seen.mean(0), 0.9 * var + 0.1 * seen.var(0)
    torch.testing.assert_close(norm.running_mean, mean)
    torch.testing.assert_close(norm.running_var, var)
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in norm.parameters())
    groups = loop.make_optimizer(method, Train(lr=1e-3, weight_decay=0.1)).param_groups
    (own,) = (g for g in groups if any(p is norm.weight for p in g["params"]))
    assert (len(own["params"]), own["weight_decay"], own["lr"]) == (2, 0, 1e-3)
