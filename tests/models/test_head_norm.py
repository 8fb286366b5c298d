"""A batch norm before the embedding layer, as DCML's released code has one: what it computes, its statistics, and its file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from dcml_models import KINDS, built, one_batch, unlike
from torch import Tensor

from bgbias import plugins, seeds
from bgbias.models import inference
from bgbias.models import model as models
from bgbias.training import loop
from bgbias.training.settings import Train

pytestmark = pytest.mark.usefixtures("small_plugins")


def frozen_model() -> models.EmbeddingModel:
    params = plugins.load("backbones", "pixels").Params()
    return models.build_model("pixels", params, 6, seeds.torch_generator("model"), True)


def normalised(x: Tensor) -> Tensor:
    return (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()


def test_it_is_not_frozen_where_the_trunks_are() -> None:
    model = frozen_model()
    norm = model.add_head_norm()
    model.train()
    assert [m.training for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)] == [False]
    features = torch.rand(12, 8, 7, 7, generator=seeds.torch_generator("maps"))
    pooled = features.mean((2, 3))
    expected = F.normalize(normalised(pooled) @ model.embedder.weight.T + model.embedder.bias, dim=1)
    torch.testing.assert_close(model.embed_features(features), expected)
    model.eval()
    assert not norm.training
    seen = (pooled - norm.running_mean) / (norm.running_var + 1e-5).sqrt()
    expected = F.normalize(seen @ model.embedder.weight.T + model.embedder.bias, dim=1)
    torch.testing.assert_close(model.embed_features(features), expected)


def test_it_is_saved_with_the_model(tmp_path: Path) -> None:
    model, x = frozen_model(), torch.rand(5, 3, 32, 32, generator=seeds.torch_generator("photos"))
    without = model.eval()(x)
    norm = model.add_head_norm()
    norm.running_mean = torch.rand(8, generator=seeds.torch_generator("mean"))
    norm.running_var = 1 + norm.running_mean
    models.save(model.eval(), tmp_path / "model.safetensors")
    found = models.load(tmp_path / "model.safetensors")
    assert torch.equal(found(x), model(x))
    assert not torch.allclose(found(x), without, atol=1e-3)
    torch.testing.assert_close(inference.for_inference(found)(x), model(x), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_dcml_calls_it_for_all_photos_alike_and_for_each_environment(kind: str) -> None:
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


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_none_unless_asked_for(kind: str) -> None:
    assert built(kind).model.head_norm is None
