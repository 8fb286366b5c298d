"""Attribution regularisation: its formula, its slope, any backbone (docs/methods.md, section 4)."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from backbone_models import BACKBONES, make, photos
from fitting import gradients

from bgbias import plugins, seeds
from bgbias.attribution.smoothgrad import reference_embedding
from bgbias.models import model as models
from bgbias.training import loop
from bgbias.training.methods import Batch
from bgbias.training.settings import Train

pytestmark = pytest.mark.usefixtures("small_plugins")

METHODS = ("attr_loss", "attr_frac", "attr_emb")
LABELS = torch.tensor([0, 0, 1, 1])
# With which every pair counts: which do is no smooth function of photos.
SMOOTH: dict[str, dict[str, float]] = {
    "contrastive": {"pos_margin": -0.2, "neg_margin": 1.5},
    "triplet": {"margin": 0.5},
    "quadruplet": {"margin": 1.0},
    "multi_similarity": {"alpha": 2, "beta": 5, "base": 0.5},
    "arcface": {"margin": 20, "scale": 4, "lr": 1},
    "normalized_softmax": {"temperature": 0.5, "lr": 1},
    "cosface": {"margin": 0.35, "scale": 4, "lr": 1},
    "roth_multi_similarity": {"alpha": 2, "beta": 4, "base": 0.5, "epsilon": 2},
    "roth_arcface": {"margin": 0.5, "scale": 4, "lr": 1},
}


def built(
    name: str, net: models.EmbeddingModel, of: str = "contrastive", weight: float = 1, **options: Any
) -> Any:
    module, kind = plugins.load("losses", of), plugins.load("methods", name)
    base = module.build(module.Params(**SMOOTH[of]), 2, net.dim, seeds.torch_generator("loss"))
    return kind.Method(net, base.to(net.embedder.weight.dtype), kind.Params(weight=weight, **options))


def exact_model() -> models.EmbeddingModel:
    """In float64, for photos of 9 pixels."""
    backbone = plugins.load("backbones", "pixels").Params()
    made = models.build_model("pixels", backbone, 3, seeds.torch_generator("model"), False).double()
    made.input_size = 9
    return made


def small_batch(side: int = 9, dtype: torch.dtype = torch.float64) -> Batch:
    generator = seeds.torch_generator("photos")
    grey = 255 * torch.rand(4, 3, side, side, generator=generator, dtype=dtype)
    masks = torch.rand(4, 1, side, side, generator=generator, dtype=dtype)
    return Batch(grey, LABELS, torch.arange(4), masks)


@pytest.mark.parametrize(
    ("name", "of"), [("attr_loss", "cosface"), ("attr_frac", "triplet"), ("attr_emb", "arcface")]
)
def test_penalty_is_what_gradients_make_beside_the_object(name: str, of: str) -> None:
    """By one differentiation of the whole batch, whose photos do not see one another."""
    made, batch = built(name, exact_model().eval(), of), small_batch()
    seen = made.model.preprocess(batch.images).requires_grad_()
    embeddings = made.model(seen)
    black = made.model(made.model.preprocess(torch.zeros_like(batch.images[:1])))[0].detach()
    base = made.base_loss(embeddings, LABELS)
    value = (embeddings @ black).sum() if name == "attr_emb" else base
    (slope,) = torch.autograd.grad(value, seen, retain_graph=True)
    outside, dims = 1 - batch.masks, (1, 2, 3)  # type: ignore[operator]
    fractions = (outside * slope**2).sum(dims) / (slope**2).sum(dims)
    expected = ((outside * slope) ** 2).sum(dims) if name == "attr_loss" else fractions
    found = made.loss(batch)
    assert found["penalty"].item() == pytest.approx(expected.mean().item(), rel=1e-6)
    assert found["loss"].item() == pytest.approx((base + expected.mean()).item(), rel=1e-6)
    assert made.penalty(0 * slope, batch.masks) == 0


@pytest.mark.parametrize(
    ("name", "of"),
    [
        *(("attr_loss", of) for of in plugins.names("losses")),
        ("attr_frac", "contrastive"),
        ("attr_emb", "arcface"),
    ],
)
def test_training_follows_the_penaltys_own_slope(name: str, of: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The derivative of the penalty along a random direction of all weights, against the difference of two penalties."""
    made, batch, step = built(name, exact_model().eval(), of), small_batch(), 1e-5
    black = reference_embedding(made.model)  # no part of what is differentiated
    monkeypatch.setattr("bgbias.attribution.smoothgrad.reference_embedding", lambda model: black)
    named = {f"{n}.{k}": p for n, m in made.modules().items() for k, p in m.named_parameters()}
    generator = seeds.torch_generator("direction")
    directions = {k: torch.randn(p.shape, generator=generator, dtype=p.dtype) for k, p in named.items()}
    slopes = gradients(made, made.loss(batch)["penalty"])
    found = sum(float((slopes[k] * d).sum()) for k, d in directions.items())
    values = []
    for by in (step, -2 * step):
        for k, weight in named.items():
            weight.data.add_(directions[k], alpha=by)
        values.append(made.loss(batch)["penalty"].item())
    assert found == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-4, abs=1e-9)
    assert abs(found) > 1e-7


@pytest.mark.parametrize("name", METHODS)
def test_photo_without_a_trusted_mask_has_no_penalty(name: str) -> None:
    batch = small_batch()
    whole = replace(batch, masks=torch.ones_like(batch.masks))  # type: ignore[arg-type]
    assert built(name, exact_model()).loss(whole)["penalty"].item() == 0
    with pytest.raises(ValueError, match="batches with masks"):
        built(name, exact_model()).loss(replace(batch, masks=None))


@pytest.mark.parametrize("name", BACKBONES)
def test_any_backbone_can_be_differentiated_twice(name: str) -> None:
    model = make(name).train()
    shown = photos(name, 4)
    method = built("attr_frac", model)
    gradients = method.gradients(shown, LABELS, range(4))
    masks = torch.zeros_like(shown[:, :1])
    masks[..., : shown.shape[3] // 2] = 1
    method.penalty(gradients, masks).backward()
    first = next(model.trunk.parameters())
    assert first.grad is not None
    assert first.grad.abs().sum() > 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_mixed_precision_reaches_the_base_loss_and_not_the_penalty() -> None:
    batch, made = small_batch(56, torch.float32), built("attr_frac", make("tiny"), photos=2)
    exact = made.loss(batch)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = made.loss(batch)
    assert torch.equal(mixed["penalty"], exact["penalty"])
    assert not torch.equal(mixed["base_loss"], exact["base_loss"])


def test_a_gpu_takes_no_tf32_where_gradients_are_differentiated_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second differentiation is in training's own backward pass; without a penalty, training is plain's."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    seen = list[bool]()
    for weight, allowed in ((1.0, False), (0.0, True)):
        method = built("attr_frac", exact_model(), weight=weight)
        method.model.embedder.weight.register_hook(lambda _: seen.append(torch.backends.cudnn.allow_tf32))
        optimizer = loop.make_optimizer(method, Train())
        loop.train_epoch(method, iter([small_batch()]), optimizer, Train(), "cpu", 1)
        assert set(seen) == {allowed}
        seen.clear()
    assert torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize("name", METHODS)
def test_penalty_of_some_photos_is_the_mean_over_these(name: str) -> None:
    """Each one's gradient is that of the whole batch, also where batch norm follows the batch in training."""
    batch, model = small_batch(), exact_model().train()
    assert batch.masks is not None
    every, some = (built(name, model, photos=count) for count in (None, 2))
    found = some.loss(batch)
    gradients = every.gradients(every.photos(batch), batch.labels, range(4))
    expected = every.penalty(gradients[::2], batch.masks[::2])  # one photo of each class
    assert found["penalty"].item() == pytest.approx(expected.item(), rel=1e-9)
    found["penalty"].backward()
    assert next(model.trunk.parameters()).grad.abs().sum() > 0
    model.eval()
    assert some.loss(batch)["base_loss"].item() == every.loss(batch)["base_loss"].item()
