"""Attacked test photos: a naive twin, batches of any size, and what they do to retrieval (docs/methods.md, section 8)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from fitting import model
from in_memory import Pictures, table

from bgbias import attacks, seeds
from bgbias.attacks import Strength
from bgbias.evaluation.attack_eval import embed_attacked
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.evaluation.retrieval import neighbours
from bgbias.models.inference import embed_views, for_inference
from bgbias.models.model import EmbeddingModel
from bgbias.models.settings import How

pytestmark = pytest.mark.usefixtures("small_plugins")


@cache
def shown(classes: int = 12, each: int = 6) -> EvaluationPhotos:
    """Photos of 32 pixels: coarse blobs of a class's two colours."""
    pictures = {}
    for label in range(classes):
        one, two = seeds.generator("class", label).uniform(40, 215, (2, 3))
        for number in range(label * each, (label + 1) * each):
            own = seeds.generator("photo", number)
            where = (own.random((8, 8, 1)) < own.uniform(0.2, 0.8)).repeat(4, 0).repeat(4, 1)
            levels = np.where(where, one, two) + own.normal(0, 25) + own.normal(0, 25, (32, 32, 3))
            pictures[str(number)] = levels.clip(0, 255).astype(np.uint8)
    return EvaluationPhotos(table({name: int(name) // each for name in pictures}), Pictures(pictures), 32)  # type: ignore[arg-type]


def clean(net: EmbeddingModel, photos: EvaluationPhotos) -> np.ndarray:
    return embed_views(net, photos.views([("clean", 0)]))


@pytest.mark.parametrize("attack", ["stax", "mtax:2"])
def test_agrees_with_its_naive_twin(attack: str) -> None:
    """Photo by photo, in grey levels; a pixel that lies beside a kink of the network may go either way."""
    net, photos, strength = model().eval(), shown(4, 2), Strength(epsilon=0.1, steps=3)
    before = clean(net, photos)
    found = embed_attacked(net, photos, before, attack, strength)
    count = 1 if attack == "stax" else 2
    rows = attacks.targets_of_photos(photos.table.labels, photos.table.keys, count, 0)
    std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    reach = 255 * 0.1 * std
    for row, (key_set, item) in enumerate(photos.table.keys):
        photo = torch.from_numpy(photos.clean(str(row))).permute(2, 0, 1).float()
        generator = seeds.torch_generator("attack noise", key_set, 0, item)
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
    for other, size in ((net, 3), (for_inference(net), 64)):
        found = embed_attacked(other, photos, before, "stax", strength, how=How(batch_size=size))
        np.testing.assert_allclose(found, whole, atol=1e-3)


def test_without_epsilon_photos_are_embedded_as_they_are() -> None:
    net, photos = model().eval(), shown(4, 2)
    before = clean(net, photos)
    assert np.array_equal(embed_attacked(net, photos, before, "mtax:2", Strength(epsilon=0.0)), before)


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
        embed_attacked(model(seed).eval(), photos, np.eye(12, dtype=np.float32), "mtax:3", Strength(steps=20))
    (begun, aims), (other_begun, other_aims) = seen
    assert torch.equal(begun, other_begun)
    assert torch.equal(aims, other_aims)
    labels = photos.table.labels
    classes = np.concatenate([labels[:, None], labels[aims.argmax(2).numpy()]], axis=1)
    assert all(len(set(row)) == 4 for row in classes)


def test_attacks_bring_retrieval_down_the_more_the_stronger_they_are() -> None:
    """R@1 by PGD-10: of everything attacked, and of attacked queries in the clean gallery."""
    photos, net = shown(), model().eval()
    labels, before = photos.table.labels, clean(net, photos)
    recalls = []
    for epsilon in (0.0, 0.02, 0.1):
        z = embed_attacked(net, photos, before, "stax", Strength(epsilon=epsilon, steps=10))
        recalls.append([neighbours(z, labels, of, labels).top(1).mean() for of in (z, before)])
    for setting in zip(*recalls, strict=True):
        assert setting[0] > setting[1] + 0.03 > setting[2] + 0.2
