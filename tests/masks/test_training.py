"""Training the toy dataset's saliency net, in miniature, and the weights that the project keeps."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from bgbias import plugins
from bgbias.masks import quality, training
from bgbias.masks.u2net import FULL, U2Net
from bgbias.toy.render import specimens

KEPT = Path(__file__).resolve().parents[2] / "data" / "weights" / "u2netp_toy.safetensors"


def test_deep_supervision_adds_the_cross_entropy_of_every_output() -> None:
    truth = torch.tensor([1.0, 0.0]).view(1, 1, 1, 2)
    sure, unsure = torch.tensor([2.0, -2.0]).view(1, 1, 1, 2), torch.zeros(1, 1, 1, 2)
    loss = training.deep_supervision([sure, unsure], truth)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-2)) + math.log(2))


def test_soft_iou_counts_every_photo_the_same() -> None:
    # Probabilities 0 and 1 up to rounding. Of 2 true and 2 found pixels one is shared: 1 of 3; then all of 4 of 4.
    logits = 50 * torch.tensor([[1.0, 1, -1, -1], [1, 1, 1, 1]]).view(2, 1, 1, 4)
    truth = torch.tensor([[1.0, 0, 1, 0], [1, 1, 1, 1]]).view(2, 1, 1, 4)
    # One is added above and below, so that empty masks of empty photos are right.
    expected = ((1 - (1 + 1) / (3 + 1)) + (1 - (4 + 1) / (4 + 1))) / 2
    assert training.soft_iou(logits, truth).item() == pytest.approx(expected)


def test_steps_do_not_depend_on_how_many_photos_pass_at_once() -> None:
    def trained(at_once: int | None) -> torch.Tensor:
        torch.manual_seed(0)
        net = U2Net(dict.fromkeys(FULL, ((1, 2), 4, 8))).eval()
        feed = [
            (torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(7)), torch.ones(3, 1, 32, 32))
        ]
        training.fit(net, iter(feed), 1, training.deep_supervision, 1e-3, "a step", at_once=at_once)
        return torch.cat([p.grad.flatten() for p in net.parameters() if p.grad is not None])

    together = trained(None)
    # bfloat16 keeps three digits.
    torch.testing.assert_close(trained(2), together, rtol=0, atol=0.03 * together.abs().max().item())


def test_learning_rate_rises_then_falls_to_zero() -> None:
    rates = [training.rate(share) for share in np.linspace(0, 1, 101)]
    assert 0 < rates[0] < 0.1
    assert max(rates) == pytest.approx(1)
    assert np.argmax(rates) == 100 * training.WARM_UP
    assert rates[-1] == pytest.approx(0)


def test_photo_and_mask_are_mirrored_together() -> None:
    # The left half is object and white, the right half black: after any mirroring, white stays object.
    mask = np.repeat([[255] * 16 + [0] * 16], 32, 0).astype(np.uint8)
    photos, masks = np.repeat(np.stack([mask] * 3, -1)[None], 20, 0), np.repeat(mask[None], 20, 0)
    ((x, truth),) = training.toy_batches(photos, masks, 1, 32, 0)
    assert torch.equal(x[:, :1] > 0, truth > 0.5)
    assert 0 < truth[:, 0, 0, 0].mean() < 1  # both ways round


def test_same_seed_gives_same_weights_that_the_masker_loads(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.safetensors", "b.safetensors")]
    scores = [training.train_on_toys(p, steps=1, size=16, input_size=32, photos=8, held_out=1) for p in paths]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert scores[0] == scores[1]
    assert all(t.dtype == torch.float16 for t in load_file(paths[0]).values())


def test_kept_weights_are_small_and_find_unseen_toys() -> None:
    module = plugins.load("maskers", "u2netp")
    assert KEPT.stat().st_size <= 2_500_000
    masker = module.build(module.Params(weights=str(KEPT), input_size=96, batch_size=8), "cpu")
    photos, truths = specimens(8, 64, seed=1)
    ious = [quality.iou(m.alpha, t) for m, t in zip(masker(list(photos)), truths, strict=True)]
    assert np.mean(ious) >= 0.9
