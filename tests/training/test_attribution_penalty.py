"""Attribution regularisation: its formula, any backbone, its precision (docs/methods.md, section 4)."""

from dataclasses import replace

import pytest
import torch
from backbone_models import BACKBONES, make, photos
from fitting import EIGHT, batch, in_double, method

from bgbias.training import loop
from bgbias.training.settings import Train

pytestmark = pytest.mark.usefixtures("small_plugins")


@pytest.mark.parametrize("count", [None, 2])
@pytest.mark.parametrize(
    ("name", "of"), [("attr_loss", "cosface"), ("attr_frac", "triplet"), ("attr_emb", "arcface")]
)
def test_penalty_is_what_gradients_make_beside_the_object(name: str, of: str, count: int | None) -> None:
    """By one differentiation of the whole batch, whose photos do not see one another, also where batch norm follows the batch
    in training. A photo without a trusted mask has no penalty.
    """
    options = {"weight": 0.7, "photos": count, "frozen": False}
    made, twin = (in_double(method(name, of, **options)) for _ in range(2))
    given = batch()
    found = made.loss(given)
    base = twin.base_loss(twin.model(twin.photos(given)), EIGHT)
    net = twin.model.eval()
    seen = twin.photos(given).requires_grad_()
    embeddings = net(seen)
    black = net(net.preprocess(torch.zeros_like(seen[:1])))[0].detach()
    value = (embeddings @ black).sum() if name == "attr_emb" else twin.base_loss(embeddings, EIGHT)
    (slope,) = torch.autograd.grad(value, seen)
    outside, dims = 1 - given.masks, (1, 2, 3)  # type: ignore[operator]
    fractions = (outside * slope**2).sum(dims) / (slope**2).sum(dims)
    each = ((outside * slope) ** 2).sum(dims) if name == "attr_loss" else fractions
    expected = each[:: len(each) // (count or len(each))].mean().item()  # evenly spread
    assert found["penalty"].item() == pytest.approx(expected, rel=1e-6)
    assert found["loss"].item() == pytest.approx(base.item() + 0.7 * expected, rel=1e-6)
    with pytest.raises(ValueError, match="batches with masks"):
        made.loss(replace(given, masks=None))


@pytest.mark.parametrize("name", BACKBONES)
def test_any_backbone_can_be_differentiated_twice(name: str) -> None:
    made, shown = method("attr_frac", net=make(name)), photos(name, 4)
    gradients = made.gradients(shown, EIGHT[:4], range(4))
    masks = torch.zeros_like(shown[:, :1])
    masks[..., : shown.shape[3] // 2] = 1
    made.penalty(gradients, masks).backward()
    first = next(made.model.trunk.parameters())
    assert first.grad is not None
    assert first.grad.abs().sum() > 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in made.model.parameters())


def test_mixed_precision_reaches_the_base_loss_and_not_the_penalty() -> None:
    made, given = method("attr_frac", photos=2), batch()
    exact = made.loss(given)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = made.loss(given)
    assert torch.equal(mixed["penalty"], exact["penalty"])
    assert not torch.equal(mixed["base_loss"], exact["base_loss"])


def test_a_gpu_takes_no_tf32_where_gradients_are_differentiated_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second differentiation is in training's own backward pass; without a penalty, training is plain's."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    seen = list[bool]()
    for weight, allowed in ((1.0, False), (0.0, True)):
        made = method("attr_frac", weight=weight)
        made.model.embedder.weight.register_hook(lambda _: seen.append(torch.backends.cudnn.allow_tf32))
        loop.train_epoch(made, iter([batch()]), loop.make_optimizer(made, Train()), Train(), "cpu", 1)
        assert set(seen) == {allowed}
        seen.clear()
    assert torch.backends.cudnn.allow_tf32
