"""Attribution score: golden values (docs/methods.md, section 11, G3), a naive twin, what must not change it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from in_memory import Pictures, table
from torch import Tensor, nn

from bgbias import plugins, seeds
from bgbias.attribution import smoothgrad
from bgbias.attribution.score import NoScoreError, normalise, score
from bgbias.attribution.settings import Attribution
from bgbias.attribution.smoothgrad import gradient_maps
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.models.model import build_model

CORNER = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
QUICK = Attribution(samples=5)
KEYS = [f"toy|test|{n}" for n in range(3)]


def unit(x: Tensor) -> Tensor:
    return torch.nn.functional.normalize(x, dim=-1)


class SmoothNet(nn.Module):
    """A small differentiable embedding of [B, 3, H, W]; any function of the photo would do."""

    def __init__(self) -> None:
        super().__init__()
        generator = seeds.torch_generator("smooth net", 0)
        self.conv, self.head = nn.Conv2d(3, 8, 3, padding=1).double(), nn.Linear(8, 4).double()
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return unit(self.head(torch.tanh(self.conv(x)).mean((2, 3))))


def photos(count: int, size: int = 8) -> Tensor:
    generator = seeds.torch_generator("photos")
    return torch.rand(count, 3, size, size, generator=generator, dtype=torch.float64)


# Golden values G3 of docs/methods.md, section 11.


@pytest.mark.parametrize(
    ("values", "mask", "expected"),
    [
        ([[0.7, 0.1], [0.1, 0.1]], CORNER, 0.6),
        ([[1.0, 1.0], [1.0, 1.0]], CORNER, 0.0),
        ([[0.0, 1.0], [1.0, 1.0]], CORNER, -0.333333),
        ([[5.0, 0.0], [0.0, 0.0]], CORNER, 1.0),
        ([[0.4, 0.3], [0.2, 0.1]], torch.tensor([[1.0, 0.5], [0.5, 0.0]]), 0.3),
    ],
)
def test_golden_scores(values: list[list[float]], mask: Tensor, expected: float) -> None:
    assert score(torch.tensor(values), mask) == pytest.approx(expected, abs=5e-7)


def test_the_quantile_is_that_of_torch_to_the_last_bit() -> None:
    drawn = torch.Generator().manual_seed(0)
    for size in (2, 99, 100, 101, 227**2):
        map_ = torch.randn(size, generator=drawn).abs().double()[None]
        high = torch.quantile(map_, 0.99)
        expected = ((map_ - map_.min()) / (high - map_.min())).clamp(0, 1)
        assert torch.equal(normalise(map_), expected), size


# The whole map against docs/methods.md, section 3 written as loops, with the true distance in place of the shared
# gradient.


def naive_maps(
    net: nn.Module, x: Tensor, key: str, reference: Tensor, distance: str, samples: int
) -> list[np.ndarray]:
    generator = seeds.torch_generator("attribution", key)
    draws = torch.randn(samples, *x.shape, generator=generator).to(x.dtype)
    sigma = 0.15 * (x.max() - x.min())
    made = [np.zeros(x.shape[1:]), np.zeros(x.shape[1:])]
    for draw in draws:
        for number, measure in enumerate((distance, "cosine")):
            view = (x + sigma * draw).requires_grad_()
            f = net(view[None])[0]
            d = (
                torch.sqrt(((f - reference) ** 2).sum())
                if measure == "l2"
                else torch.cosine_similarity(f, reference, 0)
            )
            (d / samples).backward()
            assert view.grad is not None
            g = view.grad.numpy()
            made[number] += np.abs(g.mean(0)) if number == 0 else np.abs(g).mean(0)
    return made


@pytest.mark.parametrize(("distance", "passes"), [("cosine", 4), ("l2", 12)])
def test_one_backward_pass_serves_both_distances_in_batches_of_any_size(distance: str, passes: int) -> None:
    net, x, before = SmoothNet(), photos(3), torch.get_rng_state()
    reference = net(torch.zeros(1, 3, 8, 8, dtype=torch.float64))[0].detach()
    made = gradient_maps(net, x, KEYS, reference, distance, QUICK, passes)
    for i, key in enumerate(KEYS):
        ref, robust = naive_maps(net, x[i], key, reference, distance, QUICK.samples)
        np.testing.assert_allclose(made["ref"][i], ref, rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(made["robust"][i], robust, rtol=1e-5, atol=1e-9)
    assert torch.equal(before, torch.get_rng_state())


def test_embedding_equal_to_the_reference_gives_no_infinite_gradient() -> None:
    reference = torch.tensor([0.6, 0.8])
    made = gradient_maps(
        lambda x: reference + 0 * x.sum((1, 2, 3))[:, None], photos(1).float(), ["k"], reference, "l2", QUICK
    )
    assert made["ref"].isfinite().all()


@pytest.mark.parametrize(
    ("attempt", "reason"),
    [
        (lambda: score(torch.ones(2, 2), torch.ones(2, 2)), "full mask"),
        (lambda: score(torch.ones(2, 2), torch.zeros(2, 2)), "empty mask"),
        (lambda: score(torch.zeros(2, 2), CORNER), "empty map"),
        (lambda: normalise(torch.full((4, 4), 3.0)), "constant map"),
        # One bright pixel of 1,600: the 0.99-quantile is the minimum, and the published formula divides by zero.
        (lambda: normalise(torch.eye(40)[:1].T * torch.eye(40)[:1]), "constant map"),
        (lambda: normalise(torch.tensor([[1.0, math.nan]])), "not finite"),
    ],
)
def test_what_cannot_be_scored_is_said_not_nan(attempt: Callable[[], object], reason: str) -> None:
    with pytest.raises(NoScoreError, match=reason):
        attempt()


# From photos to the table.


def test_table_has_both_variants_of_every_photo_and_says_why_one_has_no_score() -> None:
    backbone = plugins.load("backbones", "tiny")
    model = build_model("tiny", backbone.Params(), 8, seeds.torch_generator("test"))
    generator = np.random.default_rng(0)
    ids = ["a", "b", "c", "d"]
    pictures = Pictures({i: generator.integers(0, 256, (64, 64, 3), dtype=np.uint8) for i in ids})
    mask = np.zeros((64, 64), np.uint8)
    mask[20:44, 20:44] = 255
    masks = Pictures({"a": mask, "b": np.zeros_like(mask), "c": mask})
    photos = EvaluationPhotos(
        table(dict.fromkeys(ids, 0)), pictures, backbone.FACTS.input_size, masks, frozenset({"a", "b"})
    )  # type: ignore[arg-type]
    frame, maps = smoothgrad.attribute_photos(model, photos, "l2", QUICK, keep=8)
    assert frame["image_id"].tolist() == [i for i in ids for _ in range(2)]
    assert frame["variant"].tolist() == ["ref", "robust"] * 4
    assert frame["skipped"].tolist()[::2] == ["", "empty mask", "untrusted mask", "no mask"]
    assert frame["score"].notna().tolist() == [True, True] + [False] * 6
    assert frame["mask_fraction"][0] == pytest.approx(24 * 24 / 56**2)
    assert np.isnan(frame["mask_fraction"].to_numpy()[-1])
    assert maps["ids"].tolist() == ["a", "b"]
    assert maps["ref"].shape == (2, 56, 56)
    assert maps["ref"].dtype == np.float16
    assert (maps["ref"].min(), maps["ref"].max()) == (0, 1)

    # Where the true object is known, the robust variant goes by it, and by the mask where it is not.
    left = np.zeros((56, 56), bool)
    left[:, :28] = True
    known, _ = smoothgrad.attribute_photos(model, photos, "l2", QUICK, truth={"a": left}.get)
    assert known["mask_fraction"].tolist()[:2] == [frame["mask_fraction"][0], 0.5]
    assert known["score"][0] == frame["score"][0]
    assert known["score"][1] != frame["score"][1]
    pd.testing.assert_frame_equal(known[2:], frame[2:])
    unknown, _ = smoothgrad.attribute_photos(model, photos, "l2", QUICK, truth={"z": left}.get)
    pd.testing.assert_frame_equal(unknown, frame)
