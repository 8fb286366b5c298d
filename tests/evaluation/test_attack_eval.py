"""Attacked test photos: a naive twin, batches of any size, and what they do to retrieval (docs/methods.md, section 8)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from adversarial_models import contrastive, model
from in_memory import Pictures, table

from bgbias import attacks, plugins, seeds
from bgbias.attacks import Strength
from bgbias.evaluation.attack_eval import PGD_20, embed_attacked
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.evaluation.retrieval import neighbours
from bgbias.models.inference import embed_views, for_inference
from bgbias.models.model import EmbeddingModel
from bgbias.models.settings import How
from bgbias.training.methods import Batch

pytestmark = pytest.mark.usefixtures("small_plugins")


def drawn(purpose: str, classes: int, each: int) -> list[np.ndarray]:
    """Photos of 32 pixels: coarse blobs of a class's two colours, and a faint tint that is the class's, too."""
    made = []
    for number in range(classes):
        of_class = seeds.generator("class", purpose, number)
        one, two = of_class.uniform(40, 215, (2, 3))
        tint = of_class.normal(0, 6, 3)
        for photo in range(each):
            own = seeds.generator("photo", purpose, number, photo)
            where = (own.random((8, 8, 1)) < own.uniform(0.2, 0.8)).repeat(4, 0).repeat(4, 1)
            light, noise = own.normal(0, 25), own.normal(0, 25, (32, 32, 3))
            levels = np.where(where, one, two) + tint + light + noise
            made.append(levels.clip(0, 255).astype(np.uint8))
    return made


@cache
def shown(classes: int = 12, each: int = 6) -> EvaluationPhotos:
    pictures = {str(n): picture for n, picture in enumerate(drawn("test", classes, each))}
    return EvaluationPhotos(table({name: int(name) // each for name in pictures}), Pictures(pictures), 32)  # type: ignore[arg-type]


def clean(net: EmbeddingModel, photos: EvaluationPhotos) -> np.ndarray:
    return embed_views(net, photos.views([("clean", 0)]))


def trained(name: str, **options: Any) -> EmbeddingModel:
    """A network after 90 steps on twenty other classes."""
    module, net = plugins.load("methods", name), model(frozen=False)
    made = module.Method(net, contrastive(), module.Params(**options))
    for part in made.modules().values():
        part.train()
    weights = [p for part in made.modules().values() for p in part.parameters()]
    optimizer = torch.optim.Adam(weights, lr=5e-3)
    pictures = torch.from_numpy(np.stack(drawn("train", 20, 10))).permute(0, 3, 1, 2).contiguous()
    for step in range(90):
        draw = seeds.generator("step", step)
        rows = np.concatenate([10 * c + draw.permutation(10)[:4] for c in draw.permutation(20)[:8]])
        chosen = torch.from_numpy(rows)
        loss = made.loss(Batch(pictures[chosen], chosen // 10, chosen + 1000 * step))["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net.eval()


@pytest.mark.parametrize("attack", ["stax", "mtax:2"])
def test_agrees_with_its_naive_twin(attack: str) -> None:
    """Photo by photo, in grey levels; a pixel that lies beside a kink of the network may go either way."""
    net, photos, strength = model().eval(), shown(4, 2), Strength(epsilon=0.1, steps=3)
    before = clean(net, photos)
    found = embed_attacked(net, photos, before, attack, strength, draw=1)
    count = 1 if attack == "stax" else 2
    rows = attacks.targets_of_photos(photos.table.labels, photos.table.keys, count, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    reach = 255 * 0.1 * std
    for row, (key_set, item) in enumerate(photos.table.keys):
        photo = torch.from_numpy(photos.clean(str(row))).permute(2, 0, 1).float()
        generator = seeds.torch_generator("attack noise", key_set, 1, item)
        noise = 2 * torch.rand((3, 32, 32), generator=generator) - 1
        x = (photo + 255 * 5e-4 * std * noise).clamp(0, 255)
        for _ in range(3):
            leaf = x.clone().requires_grad_()
            z = net(leaf[None] / 127.5 - 1)[0]
            apart = [(z - torch.from_numpy(before[t])).pow(2).sum() for t in rows[row]]
            (slope,) = torch.autograd.grad(sum(apart, torch.zeros(())), leaf)
            x = x - reach / 3 * slope.sign()
            x = torch.minimum(torch.maximum(x, photo - reach), photo + reach).clamp(0, 255)
        with torch.no_grad():
            np.testing.assert_allclose(found[row], net(x[None] / 127.5 - 1)[0], atol=2e-4)


def test_batches_and_folded_norms_change_nothing() -> None:
    """Within what float32 rounds: a sign that turns where a gradient is almost 0 moves a pixel."""
    net, photos, strength = model().eval(), shown(4, 2), Strength(epsilon=0.1, steps=3)
    before = clean(net, photos)
    whole = embed_attacked(net, photos, before, "stax", strength)
    for other, size in ((net, 1), (net, 3), (for_inference(net), 64)):
        found = embed_attacked(other, photos, before, "stax", strength, how=How(batch_size=size))
        np.testing.assert_allclose(found, whole, atol=1e-3)
    assert np.abs(whole - before).max() > 0.01


def test_draws_have_other_targets_and_without_epsilon_photos_are_embedded_as_they_are() -> None:
    net, photos = model().eval(), shown(4, 2)
    before = clean(net, photos)
    assert np.array_equal(embed_attacked(net, photos, before, "mtax:2", Strength(epsilon=0.0)), before)
    first, again, second = (embed_attacked(net, photos, before, "stax", PGD_20, draw) for draw in (0, 0, 1))
    assert np.array_equal(first, again)
    assert np.abs(first - second).max() > 1e-3


def test_every_model_is_attacked_from_the_same_noise_towards_the_same_photos(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    photos, seen = shown(6, 2), list[tuple[torch.Tensor, torch.Tensor]]()

    def noted(embed: Any, grey: torch.Tensor, aims: torch.Tensor, *rest: Any) -> torch.Tensor:
        seen.append((rest[-1], aims))
        return grey

    monkeypatch.setattr(attacks, "attack", noted)
    for seed in (0, 1):
        # In place of embeddings, the rows themselves: the targets' embeddings tell who they are.
        embed_attacked(model(seed).eval(), photos, np.eye(12, dtype=np.float32), "mtax:3")
    (begun, aims), (other_begun, other_aims) = seen
    assert torch.equal(begun, other_begun)
    assert torch.equal(aims, other_aims)
    labels = photos.table.labels
    classes = np.concatenate([labels[:, None], labels[aims.argmax(2).numpy()]], axis=1)
    assert all(len(set(row)) == 4 for row in classes)


def test_attacks_bring_retrieval_down_and_less_so_after_adversarial_training() -> None:
    """R@1 of new classes by PGD-10: of everything attacked, and of attacked queries in the clean gallery."""
    photos = shown()
    labels = photos.table.labels

    def recall(net: EmbeddingModel, epsilon: float) -> tuple[float, float]:
        before = clean(net, photos)
        z = embed_attacked(net, photos, before, "stax", Strength(epsilon=epsilon, steps=10))
        everything, queries = (
            neighbours(z, labels, gallery, labels).top(1).mean() for gallery in (z, before)
        )
        return float(everything), float(queries)

    plain, cured = trained("plain"), trained("at", epsilon=0.3)
    by_strength = [recall(plain, epsilon) for epsilon in (0.0, 0.1, 0.3)]
    for setting in zip(*by_strength, strict=True):
        assert setting[0] > setting[1] + 0.1 > setting[2] + 0.2
    assert all(ours > theirs for ours, theirs in zip(recall(cured, 0.3), by_strength[-1], strict=True))
