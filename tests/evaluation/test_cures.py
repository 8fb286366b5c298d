"""Cures without training: each by its definition (docs/methods.md, section 14), its fits, and the masks it is judged with."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from rankings import embedded, map_at_r, random_unit, unit
from scipy.ndimage import gaussian_filter
from small_study import data_nodes, described, load, run
from torch.nn.functional import normalize

from bgbias import plugins, seeds
from bgbias.errors import UserError
from bgbias.evaluation import conditions, cure_eval, embeddings, late_interaction
from bgbias.evaluation.cures import _projected as erasure
from bgbias.evaluation.cures._pictures import Joined
from bgbias.evaluation.late_interaction import PatchSets, similarity
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.files.store import ImageStore
from bgbias.models.inference import embed_views, for_inference
from bgbias.models.settings import How
from bgbias.nodes import cure, remask
from bgbias.nodes._models import model_of
from bgbias.study.album import Album
from bgbias.study.cell import Cell
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")
SIDE = 32
PHOTO = seeds.generator("cures", "photo").integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)


def box(top: int, left: int, height: int, width: int) -> np.ndarray:
    mask = np.zeros((SIDE, SIDE), np.uint8)
    mask[top : top + height, left : left + width] = 255
    return mask


def test_the_background_becomes_grey_or_a_blur_as_far_as_the_mask_says() -> None:
    mask = seeds.generator("cures", "mask").integers(0, 256, (SIDE, SIDE), dtype=np.uint8)
    soft = mask[..., None] / 255
    exact = soft * PHOTO + (1 - soft) * 127.5  # often half way between two levels
    grey, blur = (plugins.load("cures", name).apply(PHOTO, mask) for name in ("grey", "blurred"))
    assert np.abs(grey - exact).max() <= 0.5 + 1e-9
    blurred = gaussian_filter(PHOTO.astype(float), (SIDE / 8, SIDE / 8, 0), mode="mirror")
    # The blur is rounded, and what is made of it: half a level each.
    assert np.abs(blur - (soft * PHOTO + (1 - soft) * blurred)).max() <= 1 + 0.05


def test_the_picture_is_cut_down_to_a_square_around_the_object() -> None:
    for mask, (top, left, bottom, right) in (
        # 8 high and 2 x .8 more, rounded up; its middle is 14, and 14.5.
        (box(10, 12, 8, 5), (9, 10, 19, 20)),
        (box(0, 0, 6, 4), (0, 0, 8, 8)),  # moved into the picture
        (box(4, 20, 10, 12), (2, 17, 17, 32)),
        (box(0, 0, SIDE, SIDE), (0, 0, SIDE, SIDE)),
        (box(0, 0, 0, 0), (0, 0, SIDE, SIDE)),  # nothing was found
    ):
        how = {"resample": Image.Resampling.BILINEAR, "box": (left, top, right, bottom)}
        part = np.asarray(Image.fromarray(PHOTO).resize((SIDE, SIDE), **how))
        for name in ("cropped", "fused"):
            assert np.array_equal(plugins.load("cures", name).apply(PHOTO, mask), part)


@pytest.mark.parametrize(("name", "tried"), [("background_subtracted", 10), ("fused", 11)])
def test_both_embeddings_are_added_with_the_weight_judged_best(name: str, tried: int) -> None:
    fit, first, second = plugins.load("cures", name).fit, random_unit(0, 7, 5), random_unit(1, 7, 5)
    judged: list[float] = []

    def judge(candidate: Joined) -> float:
        judged.append(candidate.weight)
        return -abs(candidate.weight - 0.3)

    chosen = fit(judge)
    assert judged == [n / 10 for n in range(tried)]
    assert chosen.weight == pytest.approx(0.3)
    sums = first - 0.3 * second if name == "background_subtracted" else 0.7 * first + 0.3 * second
    np.testing.assert_allclose(chosen(first, second), unit(sums), atol=1e-6)
    # Without the second picture it is the embedding of the first, bit for bit.
    neutral = fit(lambda _: 0.5)
    assert neutral.weight == 0
    assert neutral(first, second).tobytes() == first.tobytes()


def test_pooling_on_the_object_is_the_mean_weighted_by_the_mask() -> None:
    pool = plugins.load("cures", "object_pooling").apply
    features = torch.rand(2, 5, 4, 4, generator=torch.Generator().manual_seed(0))
    masks = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    found = pool(features, masks).mean(dim=(2, 3))
    for n in range(2):
        small = masks[n, 0].reshape(4, 2, 4, 2).mean(dim=(1, 3)) + 1e-3
        torch.testing.assert_close(found[n], (features[n] * small).sum(dim=(1, 2)) / small.sum())
    # A mask that says nothing changes nothing.
    torch.testing.assert_close(pool(features, torch.zeros(2, 1, 8, 8)), features)


def test_places_are_kept_of_which_half_is_object() -> None:
    masks = torch.zeros(4, 1, 8, 8)
    masks[0, 0, :4, :4] = 1  # the first four of sixteen places
    masks[1, 0, :2, :1] = 1  # half of the first
    masks[2, 0, 5, 5] = 1  # less than half of any: the one with most of it
    expected = torch.zeros(4, 4, 4, dtype=torch.bool)
    expected[0, :2, :2] = expected[1, 0, 0] = expected[2, 2, 2] = True
    expected[3] = True  # no object: all of the picture
    assert torch.equal(plugins.load("cures", "patchwise").apply(torch.zeros(4, 3, 4, 4), masks), expected)


def patches(seed: int, counts: list[int]) -> PatchSets:
    return PatchSets(random_unit(seed, sum(counts), 6), np.array(counts))


def naive(queries: PatchSets, gallery: PatchSets) -> np.ndarray:
    """The definition, patch by patch."""
    sets = [np.split(of.vectors, np.cumsum(of.counts)[:-1]) for of in (queries, gallery)]
    return np.array(
        [[sum(max(float(a @ k) for k in known) for a in asked) / len(asked) for known in sets[1]] for asked in sets[0]]
    )  # fmt: skip


@pytest.mark.parametrize("block", [1, 60, 2**23])
def test_similarity_is_the_mean_of_each_patchs_nearest(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_interaction, "BLOCK", block)
    queries, gallery = patches(0, [3, 1, 4, 2, 2]), patches(1, [2, 5, 1])
    np.testing.assert_allclose(similarity(queries, gallery), naive(queries, gallery), atol=1e-6)
    np.testing.assert_allclose(similarity(queries.first(2), gallery), naive(queries, gallery)[:2], atol=1e-6)


def test_photos_are_ranked_by_this_similarity_among_each_other_and_by_its_like_in_an_old_gallery() -> None:
    counts, labels = [3, 1, 4, 2, 2, 5, 1, 3, 2, 2], np.arange(10) % 3
    views = {("clean", 0): patches(0, counts), ("random_background", 0): patches(1, counts)}
    old = patches(2, [1] * 10)
    before = embedded(labels, {("clean", 0): old.vectors}, usable=np.arange(10) != 4)
    found = late_interaction.score_queries(before, views, {"cure": "patchwise"})
    assert len(found) == 2 * 2 * 9
    for line in found.itertuples():
        row, own = before.ids.index(line.image_id), views[line.condition, 0]
        alike = naive(own, own if line.setting == "symmetric" else old)[row]
        ranked = [photo for photo in np.argsort(-alike) if photo != row]
        assert line.map_at_r == pytest.approx(map_at_r((labels[ranked] == labels[row]).tolist()))
    late_interaction.refuse_many(10_000, "cub200")
    with pytest.raises(UserError, match=r"'sop' has 60502 test photos; it takes 10000 .* cures\.names"):
        late_interaction.refuse_many(60_502, "sop")


def cross(seed: int, dim: int = 12) -> np.ndarray:
    """Embeddings of 40 objects in front of 6 backgrounds that add to them and turn them."""
    random = np.random.default_rng(seed)
    thing = random.normal(size=(40, 1, dim)) * np.linspace(0.2, 3, dim)
    wall = 2 * random.normal(size=(1, 6, dim))
    both = random.normal(size=(40, 6, dim)) * 0.3
    values = thing + wall + both
    return values / np.linalg.norm(values, axis=2, keepdims=True)


def test_leace_is_the_least_change_that_takes_out_what_is_linear() -> None:
    values = cross(0)
    found = erasure.least_squares(values)
    # The matrix A that minimises E|Ax - x|^2 subject to A S_xz = 0, by Lagrange multipliers; for covariances of full rank.
    x = values.reshape(-1, 12) - values.mean(axis=(0, 1))
    z = np.tile(np.eye(6), (40, 1)) - 1 / 6
    with_z, inverse = x.T @ z, np.linalg.inv(x.T @ x)
    removed = with_z @ np.linalg.pinv(with_z.T @ inverse @ with_z) @ with_z.T @ inverse
    np.testing.assert_allclose(found.removed, removed, atol=1e-9)
    assert found.rank == 5  # one fewer than backgrounds
    left = values - (values - found.mean) @ found.removed.T
    middle = np.broadcast_to(values.mean(axis=(0, 1)), (6, 12))
    np.testing.assert_allclose(left.mean(axis=0), middle, atol=1e-12)
    # Of a network whose last layer has lower rank than width: the covariance has no inverse.
    few, turn = cross(1, dim=8), np.linalg.qr(np.random.default_rng(2).normal(size=(20, 8)))[0]
    flat, deep = erasure.least_squares(few), erasure.least_squares(few @ turn.T)
    np.testing.assert_allclose(deep.removed, turn @ flat.removed @ turn.T, atol=1e-9)
    assert deep.rank == flat.rank == 5


def test_the_direction_of_turning_backgrounds_is_found_though_it_is_none_on_average() -> None:
    """One axis says which background it is, with a sign of its own for each object: least squares cannot see it."""
    values = np.repeat(0.01 * np.random.default_rng(0).normal(size=(4000, 1, 6)), 6, axis=1)
    values[..., 2] += np.repeat([1, -1], 2000)[:, None] * np.array([1, -1, 1, -1, 1, -1])
    assert erasure.least_squares(values).rank == 0
    np.testing.assert_allclose(erasure.largest_within(values, 1).removed[2, 2], 1, atol=0.01)
    # Backgrounds that move nothing cost nothing.
    same = np.repeat(random_unit(0, 30, 1, 10), 4, axis=1)
    found = erasure.least_squares(same)
    assert found.rank == 0
    np.testing.assert_allclose(found(same[:, 0]), same[:, 0], atol=1e-6)


def test_as_many_directions_go_as_validation_photos_want() -> None:
    crossed, judged = cross(0, dim=16).astype(np.float32), list[int]()

    def judge(candidate: erasure.Erasure) -> float:
        judged.append(candidate.rank)
        return -abs(candidate.rank - 4)

    fit = plugins.load("cures", "moved_directions").fit
    assert fit(crossed, judge).rank == 4
    assert judged == [0, 1, 2, 4, 8]
    assert fit(crossed, lambda _: 0.5).rank == 0  # the fewest


# A study whose models are cured.

BY_MASKS = ("grey", "blurred", "cropped", "object_pooling", "background_subtracted", "fused", "patchwise")
MAPPED = ("leace", "moved_directions")
NAMES = (*BY_MASKS, *MAPPED)
PLAIN = Cell("squares", "pixels", "contrastive", "plain", 0)
PRETRAINED = Cell("squares", "pixels", "none", "pretrained", 0)
BOTH = pytest.mark.parametrize("cell", [PLAIN, PRETRAINED], ids=["trained", "pretrained"])
CLEAN = ("clean", 0)
VIEWS = conditions.views(("clean", "random_background"), 2)


def describe(folder: Path) -> dict[str, Any]:
    raw = described(folder)
    raw["cures"] = {"names": list(NAMES), "draws": 2, "objects": 4, "backgrounds": 3}
    raw["grids"]["small"]["cells"][0] |= {"pretrained": True, "methods": ["plain"], "losses": ["contrastive"]}
    return raw


@pytest.fixture(scope="module")
def cured(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study whose models are embedded and cured."""
    folder = tmp_path_factory.mktemp("cured")
    study = load(folder, describe(folder))
    data_nodes(study)
    remask.remask(study, "squares", "pixels", "cpu")
    run(study, PLAIN, "train", "embed", "cure")
    run(study, PRETRAINED, "embed", "cure")
    return study


def album(study: Study) -> Album:
    return Album.seen_by(study, "squares", "pixels")


def photos_of(study: Study) -> EvaluationPhotos:
    return album(study).evaluation(album(study).table("test"), {"masks", "backgrounds"}, "test")


def see(study: Study, view: tuple[str, int]) -> list[cure_eval.Seen]:
    masks = ImageStore(study.files.at("seen_masks", dataset="squares", backbone="pixels"))
    return list(cure_eval.with_found_masks(photos_of(study), view, masks, study.mask_policy))


def model(study: Study, cell: Cell) -> Any:
    return for_inference(model_of(study, cell))


@BOTH
def test_a_model_is_scored_with_every_cure(cured: Study, cell: Cell) -> None:
    queries = pd.read_parquet(cured.files.at("cured", **cell.wildcards))
    facts = pd.read_csv(cured.files.at("cures", **cell.wildcards)).set_index("cure")
    assert facts.index.tolist() == list(NAMES)
    assert (facts["ms"] > 0).all()
    assert facts["index"].to_dict() == dict.fromkeys(BY_MASKS, "again") | dict.fromkeys(MAPPED, "mapped")
    assert facts.index[facts["weight"].notna()].tolist() == ["background_subtracted", "fused"]
    assert facts.loc["leace", "removed"] == 2  # of three backgrounds
    before = embeddings.read(cured.files.at("embeddings", **cell.wildcards))
    expected = {
        (name, setting, *view) for name in NAMES for setting in ("symmetric", "query") for view in VIEWS
    }
    counts = queries.groupby(["cure", "setting", "condition", "draw"]).size()
    assert counts.to_dict() == dict.fromkeys(expected, before.usable.sum())
    shown, how = (picture for picture, _ in see(cured, CLEAN)), How(pooled=cell == PRETRAINED)
    again = embed_views(model(cured, cell), shown, how)
    np.testing.assert_allclose(again, before.views[CLEAN], atol=1e-5)


@BOTH
def test_a_patch_is_what_the_model_makes_of_its_place_alone(cured: Study, cell: Cell) -> None:
    network, patchwise, seen = model(cured, cell), plugins.load("cures", "patchwise"), see(cured, CLEAN)[:3]
    seen[2] = (seen[2][0], None)  # its mask is not trusted
    how, expected = How(pooled=cell == PRETRAINED, batch_size=2), []
    for shown, mask in seen:
        features = network.features(network.preprocess(torch.from_numpy(shown.copy()).permute(2, 0, 1)[None]))
        whole = np.full(shown.shape[:2], 255) if mask is None else mask
        (chosen,) = patchwise.apply(features, torch.from_numpy(whole / 255).float()[None, None])
        places = features[0].permute(1, 2, 0)[chosen]
        expected.append(normalize(places if how.pooled else network.embedder(places), dim=1).detach())
    assert len(expected[2]) == features[0, 0].numel()
    found = cure_eval.embed_patches(network, seen, patchwise, how)
    np.testing.assert_allclose(found.vectors, torch.cat(expected), atol=1e-5)
    assert found.counts.tolist() == [len(vectors) for vectors in expected]


def test_what_is_fitted_has_seen_validation_photos_on_validation_backgrounds_alone(cured: Study) -> None:
    validation = cure.CureFits(cured, album(cured), model(cured, PLAIN), How())
    photos = validation.photos
    assert set(photos.table.ids) == set(album(cured).table("val").ids)
    pool = photos.backgrounds
    behind = [pool.picture(draw, photos.size) for draw in pool.for_all(3)]  # type: ignore[union-attr]
    possible = [photos.photo(row).foreground.before(b) for row in photos.trusted for b in behind]
    vectors = embed_views(validation.model, iter(possible))
    assert validation.crossed.shape[:2] == (4, 3)
    for vector in validation.crossed.reshape(-1, vectors.shape[1]):
        assert np.abs(vectors - vector).max(axis=1).min() < 1e-5


def test_masks_are_found_in_the_pictures_that_models_see(tmp_path: Path) -> None:
    raw = describe(tmp_path)
    raw["maskers"]["red"] = {"kind": "red"}
    raw["datasets"]["squares"]["masker"] = "red"
    study = load(tmp_path, raw | {"mask_policy": {"min_area": 0.0, "max_area": 1.0}})
    data_nodes(study)
    remask.remask(study, "squares", "pixels", "cpu")
    for draw in range(2):
        for shown, mask in see(study, ("random_background", draw)):
            # This masker's masks are the red channel: of the composed picture, not of the photo.
            assert np.array_equal(mask, shown[..., 0])  # type: ignore[arg-type]
    facts = pd.read_csv(study.files.at("remasking", dataset="squares", backbone="pixels")).loc[0]
    assert facts["pictures"] == 3 * len(album(study).table("test"))
    assert facts["predicts"]


def test_true_masks_are_those_that_pictures_were_made_with(cured: Study) -> None:
    photos = photos_of(cured)
    for view in VIEWS:
        seen = zip(see(cured, view), photos.views([view]), strict=True)
        for row, ((shown, mask), expected) in enumerate(seen):
            assert np.array_equal(mask, photos.photo(row).mask)  # type: ignore[arg-type]
            assert np.array_equal(shown, expected)
    facts = pd.read_csv(cured.files.at("remasking", dataset="squares", backbone="pixels")).loc[0]
    assert facts["masker_ms"] == 0
