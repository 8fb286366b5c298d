"""Attribution regularisation: golden values (docs/methods.md, section 11, G6), naive twins, neutral weights, any backbone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from backbone_models import BACKBONES, make, photos
from torch import Tensor

from bgbias import plugins, seeds
from bgbias.attribution.smoothgrad import reference_embedding
from bgbias.models import model as models
from bgbias.training import loop
from bgbias.training.methods import Batch
from bgbias.training.methods._attribution_penalty import AttributionPenalty, fraction_outside, spread_rows
from bgbias.training.settings import Train

pytestmark = pytest.mark.usefixtures("small_plugins")

METHODS = ("attr_loss", "attr_frac", "attr_emb")
LABELS = torch.tensor([0, 0, 1, 1])
LOSSES: dict[str, dict[str, float]] = {
    "contrastive": {"pos_margin": -0.2, "neg_margin": 1.5},
    "triplet": {"margin": 0.5},
    "quadruplet": {"margin": 1.0},
    "multi_similarity": {"alpha": 2, "beta": 5, "base": 0.5},
    "arcface": {"margin": 20, "scale": 4, "lr": 1},
    "normalized_softmax": {"temperature": 0.5, "lr": 1},
    "cosface": {"margin": 0.35, "scale": 4, "lr": 1},
    # Every pair counts: which do is no smooth function of photos.
    "roth_multi_similarity": {"alpha": 2, "beta": 4, "base": 0.5, "epsilon": 2},
    "roth_arcface": {"margin": 0.5, "scale": 4, "lr": 1},
}
GRADIENTS = torch.tensor([[[[1.0, 2.0], [0.0, -1.0]]]])
MASKS = torch.tensor([[[[1.0, 0.5], [0.0, 0.0]]]])


def built(
    method: str,
    model: models.EmbeddingModel,
    loss: str = "contrastive",
    weight: float = 1,
    photos: int | None = None,
) -> Any:
    module, kind = plugins.load("losses", loss), plugins.load("methods", method)
    base = module.build(module.Params(**LOSSES[loss]), 2, model.dim, seeds.torch_generator("loss"))
    return kind.Method(model, base.to(model.embedder.weight.dtype), kind.Params(weight=weight, photos=photos))


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
    method = built("attr_loss", exact_model())
    assert method.penalty(GRADIENTS, MASKS).item() == 2.0
    assert fraction_outside(GRADIENTS, MASKS).item() == pytest.approx(0.5)
    # Of two photos the mean; the fraction alone does not see that one has gradients a thousand times as large.
    both, masks = torch.cat((GRADIENTS, 1000 * GRADIENTS)), MASKS.expand(2, -1, -1, -1)
    assert method.penalty(both, masks).item() == 1_000_001.0
    assert fraction_outside(both, masks).item() == pytest.approx(0.5)
    assert fraction_outside(0 * GRADIENTS, MASKS).item() == 0


# Naive twins: gradients pixel by pixel as differences of two passes, sums as loops over Python numbers.


def naive_gradients(method: Any, batch: Batch, of_black: bool) -> list[list[tuple[float, float]]]:
    """(g, M) of every channel of every pixel, by photo."""
    step, model = 1e-5, method.model
    seen = model.preprocess(batch.images)
    black = model(model.preprocess(torch.zeros_like(batch.images[:1])))[0]

    def value(x: Tensor) -> float:
        z = model(x)
        if of_black:
            return sum(sum(a * b for a, b in zip(row, black.tolist(), strict=True)) for row in z.tolist())
        return float(method.base_loss(z, batch.labels))

    found = []
    for n in range(len(seen)):
        rows = []
        for place in torch.cartesian_prod(*(torch.arange(size) for size in seen.shape[1:])).tolist():
            moved = [seen.clone(), seen.clone()]
            moved[0][n, *place] += step
            moved[1][n, *place] -= step
            gradient = (value(moved[0]) - value(moved[1])) / (2 * step)
            rows.append((gradient, float(batch.masks[n, 0, place[1], place[2]])))  # type: ignore[index]
        found.append(rows)
    return found


def naive_penalty(name: str, gradients: list[list[tuple[float, float]]]) -> float:
    total = 0.0
    for photo in gradients:
        if name == "attr_loss":
            total += sum(((1 - m) * g) ** 2 for g, m in photo)
        else:
            total += sum((1 - m) * g**2 for g, m in photo) / sum(g**2 for g, _ in photo)
    return total / len(gradients)


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("attr_loss", "contrastive"),
        ("attr_loss", "cosface"),
        ("attr_frac", "triplet"),
        ("attr_emb", "arcface"),
    ],
)
@torch.no_grad()
def test_penalty_agrees_with_its_naive_twin(name: str, loss: str) -> None:
    method, batch = built(name, exact_model().eval(), loss), small_batch()
    expected = naive_penalty(name, naive_gradients(method, batch, name == "attr_emb"))
    with torch.enable_grad():
        found = method.loss(batch)
    assert found["penalty"].item() == pytest.approx(expected, rel=1e-6)
    base = method.base_loss(method.model(method.model.preprocess(batch.images)), LABELS)
    assert found["loss"].item() == pytest.approx(base.item() + expected, rel=1e-6)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("loss", plugins.names("losses"))
def test_training_follows_the_penaltys_own_slope(
    name: str, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The derivative of the penalty along a random direction of all weights, against the difference of two penalties."""
    method, batch = built(name, exact_model().eval(), loss), small_batch()
    black = reference_embedding(method.model)  # no part of what is differentiated
    monkeypatch.setattr("bgbias.attribution.smoothgrad.reference_embedding", lambda model: black)
    weights = [p for m in method.modules().values() for p in m.parameters()]
    generator, step = seeds.torch_generator("direction"), 1e-5
    directions = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in weights]
    slopes = torch.autograd.grad(method.loss(batch)["penalty"], weights, allow_unused=True)
    found = sum(float((s * d).sum()) for s, d in zip(slopes, directions, strict=True) if s is not None)

    def moved(by: float) -> float:
        for weight, direction in zip(weights, directions, strict=True):
            weight.data.add_(direction, alpha=by)
        value = method.loss(batch)["penalty"].item()
        for weight, direction in zip(weights, directions, strict=True):
            weight.data.sub_(direction, alpha=by)
        return float(value)

    assert found == pytest.approx((moved(step) - moved(-step)) / (2 * step), rel=1e-4, abs=1e-9)
    assert abs(found) > 1e-7


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
    whole = Batch(batch.images, batch.labels, batch.index, torch.ones_like(batch.masks))  # type: ignore[arg-type]
    assert built(name, exact_model()).loss(whole)["penalty"].item() == 0
    with pytest.raises(ValueError, match="batches with masks"):
        built(name, exact_model()).loss(Batch(batch.images, batch.labels, batch.index))


@pytest.mark.parametrize("name", METHODS)
def test_penalty_falls_when_it_is_trained_on(name: str) -> None:
    batch = small_batch()
    method = built(name, exact_model(), weight=0)
    before = method.loss(batch)["penalty"].item()
    method.weight = 1 / before
    optimizer = torch.optim.Adam(method.model.parameters(), 0.01)
    for _ in range(30):
        optimizer.zero_grad()
        method.loss(batch)["loss"].backward()
        optimizer.step()
    assert method.loss(batch)["penalty"].item() < 0.8 * before


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


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("some", [None, 2])
def test_mixed_precision_reaches_the_base_loss_and_not_the_penalty(name: str, some: int | None) -> None:
    batch = small_batch(56, torch.float32)
    method = built(name, make("tiny"), photos=some)
    exact = method.loss(batch)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = method.loss(batch)
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


def test_penalties_share_one_pass_whose_masks_are_needed() -> None:
    for name in METHODS:
        module = plugins.load("methods", name)
        assert {"masks"} == module.NEEDS
        assert issubclass(module.Method, AttributionPenalty)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("loss", ["contrastive", "cosface"])
def test_penalty_of_some_photos_is_the_mean_over_these(name: str, loss: str) -> None:
    """Each one's gradient is that of the whole batch, also where batch norm follows the batch in training."""
    batch, model = small_batch(), exact_model().train()
    assert batch.masks is not None
    every, some, whole = (built(name, model, loss, photos=count) for count in (None, 2, len(LABELS)))
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
