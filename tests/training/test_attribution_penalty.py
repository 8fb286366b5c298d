"""Attribution regularisation: golden values (docs/methods.md, section 11, G6), naive twins, any backbone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from backbone_models import BACKBONES, make, photos
from fitting import gradients
from torch import Tensor

from bgbias import plugins, seeds
from bgbias.attribution.smoothgrad import reference_embedding
from bgbias.models import model as models
from bgbias.training import loop
from bgbias.training.methods import Batch
from bgbias.training.methods._attribution_penalty import fraction_outside, spread_rows
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


def test_golden_sum_of_squares_and_fraction() -> None:
    gradient, mask = torch.tensor([[[[1.0, 2.0], [0.0, -1.0]]]]), torch.tensor([[[[1.0, 0.5], [0.0, 0.0]]]])
    made = built("attr_loss", exact_model())
    assert made.penalty(gradient, mask).item() == 2.0
    assert fraction_outside(gradient, mask).item() == pytest.approx(0.5)
    # Of two photos the mean; the fraction alone does not see that one has gradients a thousand times as large.
    both, masks = torch.cat((gradient, 1000 * gradient)), mask.expand(2, -1, -1, -1)
    assert made.penalty(both, masks).item() == 1_000_001.0
    assert fraction_outside(both, masks).item() == pytest.approx(0.5)
    assert fraction_outside(0 * gradient, mask).item() == 0


def naive_penalty(made: Any, batch: Batch, name: str) -> float:
    """Gradients pixel by pixel as differences of two passes, sums as loops over Python numbers."""
    step, model, total = 1e-5, made.model, 0.0
    seen = model.preprocess(batch.images)
    black = model(model.preprocess(torch.zeros_like(batch.images[:1])))[0]

    def value(x: Tensor) -> float:
        z = model(x)
        return float((z @ black).sum() if name == "attr_emb" else made.base_loss(z, batch.labels))

    for n in range(len(seen)):
        outside, whole = 0.0, 0.0
        for place in torch.cartesian_prod(*(torch.arange(size) for size in seen.shape[1:])).tolist():
            moved = [seen.clone(), seen.clone()]
            moved[0][n, *place] += step
            moved[1][n, *place] -= step
            g = (value(moved[0]) - value(moved[1])) / (2 * step)
            m = float(batch.masks[n, 0, place[1], place[2]])  # type: ignore[index]
            outside += ((1 - m) * g) ** 2 if name == "attr_loss" else (1 - m) * g**2
            whole += g**2
        total += outside if name == "attr_loss" else outside / whole
    return total / len(seen)


@pytest.mark.parametrize(
    ("name", "of"), [("attr_loss", "cosface"), ("attr_frac", "triplet"), ("attr_emb", "arcface")]
)
@torch.no_grad()
def test_penalty_agrees_with_its_naive_twin(name: str, of: str) -> None:
    made, batch = built(name, exact_model().eval(), of), small_batch()
    expected = naive_penalty(made, batch, name)
    with torch.enable_grad():
        found = made.loss(batch)
    assert found["penalty"].item() == pytest.approx(expected, rel=1e-6)
    base = made.base_loss(made.model(made.model.preprocess(batch.images)), LABELS)
    assert found["loss"].item() == pytest.approx(base.item() + expected, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "of"),
    [*(("attr_loss", of) for of in SMOOTH), ("attr_frac", "contrastive"), ("attr_emb", "arcface")],
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


def test_every_loss_is_followed() -> None:
    assert {*SMOOTH} == {*plugins.names("losses")}


def test_fraction_of_the_embedding_is_the_same_for_both_distances() -> None:
    method, batch = built("attr_emb", exact_model()), small_batch()
    method.model.eval()
    seen = method.model.preprocess(batch.images).requires_grad_()
    far = (method.model(seen) - reference_embedding(method.model)).norm(dim=1).sum()
    euclidean = fraction_outside(torch.autograd.grad(far, seen)[0], batch.masks)  # type: ignore[arg-type]
    assert method.loss(batch)["penalty"].item() == pytest.approx(euclidean.item(), rel=1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_photo_without_a_trusted_mask_has_no_penalty(name: str) -> None:
    batch = small_batch()
    whole = replace(batch, masks=torch.ones_like(batch.masks))  # type: ignore[arg-type]
    assert built(name, exact_model()).loss(whole)["penalty"].item() == 0
    with pytest.raises(ValueError, match="batches with masks"):
        built(name, exact_model()).loss(replace(batch, masks=None))


@pytest.mark.parametrize(
    "name", [name for name in BACKBONES if name != "resnet152"]
)  # resnet50's blocks, thrice
def test_any_backbone_can_be_differentiated_twice(name: str) -> None:
    model = make(name).train()
    shown = photos(name, 4)
    method = built("attr_frac", model)
    gradients = method.gradients(shown, LABELS, range(4))
    assert model.training
    assert gradients.shape == shown.shape
    masks = torch.zeros_like(shown[:, :1])
    masks[..., : shown.shape[3] // 2] = 1
    method.penalty(gradients, masks).backward()
    first = next(model.trunk.parameters())
    assert first.grad is not None
    assert first.grad.abs().sum() > 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("some", [None, 2])
def test_mixed_precision_reaches_the_base_loss_and_not_the_penalty(some: int | None) -> None:
    batch, made = small_batch(56, torch.float32), built("attr_frac", make("tiny"), photos=some)
    exact = made.loss(batch)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = made.loss(batch)
    assert torch.equal(mixed["penalty"], exact["penalty"])
    assert not torch.equal(mixed["base_loss"], exact["base_loss"])


@pytest.mark.parametrize(("weight", "allowed"), [(1.0, False), (0.0, True)])
def test_a_gpu_takes_no_tf32_where_gradients_are_differentiated_again(
    weight: float, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second differentiation is in training's own backward pass; without a penalty, training is plain's."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    method, seen = built("attr_frac", exact_model(), weight=weight), list[bool]()
    method.model.embedder.weight.register_hook(lambda _: seen.append(torch.backends.cudnn.allow_tf32))
    settings = Train(iterations_per_epoch=1)
    optimizer = loop.make_optimizer(method, settings)
    loop.train_epoch(method, iter([small_batch()]), optimizer, settings, "cpu", 1)
    assert set(seen) == {allowed}
    assert torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize("name", METHODS)
def test_penalty_of_some_photos_is_the_mean_over_these(name: str) -> None:
    """Each one's gradient is that of the whole batch, also where batch norm follows the batch in training."""
    batch, model = small_batch(), exact_model().train()
    assert batch.masks is not None
    every, some, whole = (built(name, model, photos=count) for count in (None, 2, len(LABELS)))
    found = some.loss(batch)
    gradients = every.gradients(every.photos(batch), batch.labels, range(4))
    expected = every.penalty(gradients[::2], batch.masks[::2])  # one photo of each class
    assert found["penalty"].item() == pytest.approx(expected.item(), rel=1e-9)
    found["penalty"].backward()
    assert next(model.trunk.parameters()).grad.abs().sum() > 0
    model.eval()
    assert some.loss(batch)["base_loss"].item() == every.loss(batch)["base_loss"].item()
    assert whole.loss(batch)["penalty"].item() == every.loss(batch)["penalty"].item()


@pytest.mark.parametrize(("photos", "wanted"), [(32, 8), (33, 8), (12, 5), (4, 1), (3, 8), (6, None)])
def test_penalised_photos_lie_evenly_in_the_batch(photos: int, wanted: int | None) -> None:
    rows = spread_rows(photos, wanted)
    assert len(rows) == min(photos, wanted or photos)
    apart = np.diff([*rows, photos])
    assert apart.min() >= 1
    assert np.ptp(apart) <= 1
    if (photos, wanted) == (32, 8):
        assert [row // 4 for row in rows] == list(range(8))  # eight classes of four
