"""Attribution scores: naive twins, and tables of photos (docs/methods.md, sections 3 and 7)."""

import math
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
import torch
from fitting import model
from in_memory import Pictures, table
from scipy.stats import kstest
from torch import Tensor, nn

from bgbias import plugins, seeds
from bgbias.attribution import explanation, smoothgrad
from bgbias.attribution import similarity as attention
from bgbias.attribution.noise import draw_noise, split_mix
from bgbias.attribution.score import attribute_pairs, normalise, partners, row_of, score, score_maps
from bgbias.attribution.settings import Attribution, SimilarityScore
from bgbias.attribution.smoothgrad import gradient_maps
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.models.model import build_model

DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.gpu))
QUICK = Attribution(samples=5)
KEYS = [f"toy|test|{n}" for n in range(3)]
WEIGHTS = 0.1 * torch.randn(192, 4, generator=seeds.torch_generator("weights"), dtype=torch.float64)


def embed(x: Tensor) -> Tensor:
    """[B, 3, 8, 8] to vectors; any smooth function of the photo would do."""
    return nn.functional.normalize(torch.tanh(x.flatten(1) @ WEIGHTS), dim=1)


def test_maps_are_stretched_up_to_numpys_quantile_each_by_itself() -> None:
    drawn = torch.Generator().manual_seed(0)
    for size in (2, 99, 100, 101, 227**2):
        maps = torch.randn(3, 1, size, generator=drawn).abs()
        for map_, made in zip(maps.double().numpy(), normalise(maps), strict=True):
            high = np.quantile(map_, 0.99)
            expected = ((map_ - map_.min()) / (high - map_.min())).clip(0, 1)
            np.testing.assert_allclose(made, expected, rtol=1e-13, err_msg=str(size))


def test_bits_of_noise_are_those_published_for_split_mix() -> None:
    first = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]  # as in implementations in C and Java
    assert [number % 2**64 for number in split_mix(torch.tensor([1234567]), 3)[0].tolist()] == first


def naive_noise(key: str, count: int) -> list[float]:
    state, numbers = seeds.number(f"attribution|{key}"), list[float]()
    while len(numbers) < count:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        z ^= z >> 31
        numbers += [NormalDist().inv_cdf(((z >> bits) % 2**16 + 0.5) / 2**16) for bits in (0, 16, 32, 48)]
    return numbers[:count]


@pytest.mark.parametrize("device", DEVICES)
def test_noise_is_normal_and_a_photos_own(device: str) -> None:
    shape = (25, 3, 32, 31)
    drawn = draw_noise(["a", "b"], shape, device).cpu()
    assert torch.equal(drawn[1:], draw_noise(["b"], shape, "cpu"))
    both = drawn.flatten(1)
    assert all(kstest(noise, "norm").pvalue > 0.01 for noise in both.numpy())
    # Of two photos and of neighbours in one; each has a standard deviation of .0037.
    correlations = torch.corrcoef(torch.cat((both[:, 1:], both[:, :-1])))
    assert correlations.triu(1).abs().max() < 0.015


def naive_maps(x: Tensor, key: str, reference: Tensor, distance: str, samples: int) -> list[np.ndarray]:
    """docs/methods.md, section 3, with the true distance in place of the shared gradient."""
    draws = torch.tensor(naive_noise(key, samples * x.numel()), dtype=x.dtype).view(samples, *x.shape)
    sigma = 0.15 * (x.max() - x.min())
    made = [np.zeros(x.shape[1:]), np.zeros(x.shape[1:])]
    for draw in draws:
        for number, measure in enumerate((distance, "cosine")):
            view = (x + sigma * draw).requires_grad_()
            f = embed(view[None])[0]
            cosine, gap = torch.cosine_similarity(f, reference, 0), (f - reference).norm()
            (slope,) = torch.autograd.grad((gap if measure == "l2" else cosine) / samples, view)
            g = slope.numpy()
            made[number] += np.abs(g.mean(0)) if number == 0 else np.abs(g).mean(0)
    return made


@pytest.mark.parametrize(("distance", "passes"), [("cosine", 4), ("l2", 12)])
def test_one_backward_pass_serves_both_distances_in_batches_of_any_size(distance: str, passes: int) -> None:
    x = torch.rand(3, 3, 8, 8, generator=seeds.torch_generator("photos"), dtype=torch.float64)
    before, reference = torch.get_rng_state(), embed(torch.full((1, 3, 8, 8), 0.1, dtype=torch.float64))[0]
    made = gradient_maps(embed, x, KEYS, reference, distance, QUICK, passes)
    for i, key in enumerate(KEYS):
        ref, robust = naive_maps(x[i], key, reference, distance, QUICK.samples)
        np.testing.assert_allclose(made["ref"][i], ref, rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(made["robust"][i], robust, rtol=1e-5, atol=1e-9)
    assert torch.equal(before, torch.get_rng_state())


def test_embedding_equal_to_the_reference_gives_no_infinite_gradient() -> None:
    reference = torch.tensor([0.6, 0.8])
    same = lambda x: reference + 0 * x.sum((1, 2, 3))[:, None]  # noqa: E731
    made = gradient_maps(same, torch.rand(1, 3, 8, 8), ["k"], reference, "l2", QUICK)
    assert made["ref"].isfinite().all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("strengths", "mask", "reason"),
    [
        (torch.eye(2), torch.ones(2, 2), "full mask"),
        (
            torch.arange(224.0).expand(224, 224),
            torch.ones(224, 224),
            "full mask",
        ),  # of which a GPU's mean is below 1
        (torch.eye(2), torch.zeros(2, 2), "empty mask"),
        (torch.full((4, 4), 3.0), torch.eye(4), "constant map"),
        # One bright pixel of 1,600: the 0.99-quantile is the minimum, and the published formula divides by zero.
        (torch.eye(40)[:1].T * torch.eye(40)[:1], torch.eye(40), "constant map"),
        (torch.tensor([[1.0, math.nan]]), torch.tensor([[1, 0]]), "gradient not finite"),
        (torch.tensor([[1.0, math.inf]]), torch.tensor([[1, 0]]), "gradient not finite"),
        # What is wrong with the map is said before what is wrong with the mask.
        (torch.zeros(2, 2), torch.ones(2, 2), "constant map"),
    ],
)
def test_what_cannot_be_scored_is_said_not_nan(
    strengths: Tensor, mask: Tensor, reason: str, device: str
) -> None:
    """And says nothing of a photo beside it."""
    good, half = torch.rand(2, *strengths.shape, generator=torch.Generator().manual_seed(0))
    masks = torch.stack((255 * mask, 255 * half)).to(torch.uint8)
    numbers, maps = score_maps(torch.stack((strengths, good)).to(device), masks)
    rows = [row_of("a", "ref", one) for one in numbers]
    assert [row["skipped"] for row in rows] == [reason, ""]
    assert numbers[:, 0].isnan().tolist() == [True, False]
    assert maps.isnan().all(2).all(1).tolist() == [reason not in ("full mask", "empty mask"), False]
    assert maps[1].isfinite().all()


def test_table_has_both_variants_of_every_photo_and_says_why_one_has_no_score() -> None:
    backbone = plugins.load("backbones", "tiny")
    network = build_model("tiny", backbone.Params(), 8, seeds.torch_generator("test"))
    generator = np.random.default_rng(0)
    ids = ["a", "b", "c", "d"]
    pictures = Pictures({i: generator.integers(0, 256, (64, 64, 3), dtype=np.uint8) for i in ids})
    mask = np.zeros((64, 64), np.uint8)
    mask[20:44, 20:44] = 255
    masks = Pictures({"a": mask, "b": np.zeros_like(mask), "c": mask})
    photos = EvaluationPhotos(
        table(dict.fromkeys(ids, 0)), pictures, backbone.FACTS.input_size, masks, frozenset({"a", "b"})
    )  # type: ignore[arg-type]
    frame, maps = smoothgrad.attribute_photos(network, photos, "l2", QUICK, keep=8)
    assert frame["image_id"].tolist() == [i for i in ids for _ in range(2)]
    assert frame["variant"].tolist() == ["ref", "robust"] * 4
    assert frame["skipped"].tolist()[::2] == ["", "empty mask", "untrusted mask", "no mask"]
    assert frame["score"].notna().tolist() == [True, True] + [False] * 6
    assert frame["mask_fraction"][0] == pytest.approx(24 * 24 / 56**2)
    assert maps["ids"].tolist() == ["a", "b"]
    assert (maps["ref"].shape, maps["ref"].dtype) == ((2, 56, 56), np.float16)

    # Where the true object is known, the robust variant goes by it, and by the mask where it is not.
    left = np.zeros((56, 56), bool)
    left[:, :28] = True
    known, _ = smoothgrad.attribute_photos(network, photos, "l2", QUICK, truth={"a": left}.get)
    assert known["mask_fraction"].tolist()[:2] == [frame["mask_fraction"][0], 0.5]
    assert known["score"][0] == frame["score"][0]
    assert known["score"][1] != frame["score"][1]
    pd.testing.assert_frame_equal(known[2:], frame[2:])


def closed_form(rows: Tensor, maps: list[Tensor], same: bool, magnitude: bool) -> list[Tensor]:
    """1/hw W^T (I - f f^T) w / |g| of each tuple (docs/methods.md, section 7); of magnitudes, 1/hw W^T (w sign g) / |g|."""
    vectors = [m.mean((2, 3)) @ rows.T for m in maps]
    lengths = [g.square().sum(1, keepdim=True).sqrt() for g in vectors]
    units = [g / length for g, length in zip(vectors, lengths, strict=True)]
    first, *others = ((units[0] - f).abs() for f in units[1:])
    weight = math.prod(others, start=1 - first if same else first)
    found = []
    for g, f, length in zip(vectors, units, lengths, strict=True):
        toward = weight * g.sign() if magnitude else weight - (weight * f).sum(1, keepdim=True) * f
        found.append(toward @ rows / length / maps[0][0, 0].numel())
    return found


@pytest.mark.parametrize(("roles", "same"), [(2, True), (2, False), (3, True), (4, True)])
@pytest.mark.parametrize("how", ["published", "magnitude"])
def test_importances_are_those_of_the_closed_form(roles: int, same: bool, how: SimilarityScore) -> None:
    generator = seeds.torch_generator("test maps")
    rows = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    maps = [torch.rand(3, 4, 3, 2, generator=generator, dtype=torch.float64) for _ in range(roles)]
    found = attention.importances(lambda a: a.mean((2, 3)) @ rows.T, maps, same, how)
    torch.testing.assert_close(found, closed_form(rows, maps, same, how == "magnitude"))


LABELS = {"a": 0, "b": 0, "c": 0, "d": 1, "e": 1, "alone": 2, "untrusted": 0}


def test_partner_is_another_photo_of_the_class_by_names_alone() -> None:
    found = partners(table(LABELS), LABELS)
    assert found.keys() == LABELS.keys() - {"alone"}
    assert all(LABELS[a] == LABELS[b] and a != b for a, b in found.items())
    backwards = partners(table(dict(reversed(LABELS.items()))), ["b", "d"])
    assert backwards == {name: found[name] for name in ("b", "d")}
    of_three = [partners(table({f"{n}{i}": 0 for i in range(3)}), [f"{n}0"]) for n in "abcdefgh"]
    assert {partner[-1] for chosen in of_three for partner in chosen.values()} == {"1", "2"}


@pytest.mark.parametrize("how", ["magnitude", "published"])
@pytest.mark.usefixtures("small_plugins")
def test_scores_are_those_of_the_explanation_of_the_pair(how: SimilarityScore) -> None:
    """The same maps, made one pair at a time by the other way to them."""
    generator, chosen = np.random.default_rng(0), partners(table(LABELS), LABELS)
    pictures = {i: generator.integers(0, 256, (36, 36, 3), dtype=np.uint8) for i in LABELS}
    masks = {i: 255 * (np.indices((36, 36))[0] % 18 > n).astype(np.uint8) for n, i in enumerate(LABELS)}
    usable = frozenset(LABELS) - {"untrusted"}
    photos = EvaluationPhotos(table(LABELS), Pictures(pictures), 32, Pictures(masks), usable)  # type: ignore[arg-type]
    found = attribute_pairs(model().eval(), photos, table(LABELS), Attribution(similarity=how))
    assert found["image_id"].tolist() == list(LABELS)
    assert set(found["variant"]) == {"similarity"}
    for name in ("a", "b", "c", "d", "e"):
        pair = [photos.photos.get(i) for i in (name, chosen[name])]
        one = explanation.explain(model().eval(), pair, score=how).maps[0]
        mask = torch.from_numpy(photos.mask(name) / 255)
        expected = float(score(normalise(torch.from_numpy(one)), mask))
        row = found.set_index("image_id").loc[name]
        assert row["score"] == pytest.approx(expected, abs=1e-3)
        assert row["mask_fraction"] == pytest.approx(float(mask.mean()))
    reasons = found.set_index("image_id")["skipped"]
    assert reasons[reasons != ""].to_dict() == {"alone": "alone in its class", "untrusted": "untrusted mask"}
    assert found["score"].isna().equals(found["skipped"] != "")
