"""Cures without training: each as its definition has it, fitted on validation photos alone, judged on masks that are found."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from scipy.ndimage import distance_transform_edt, gaussian_filter
from small_study import data_nodes, described, load, record, run

from bgbias import plugins, seeds
from bgbias.errors import UserError
from bgbias.evaluation import cure_eval, embeddings
from bgbias.evaluation.conditions import random_background
from bgbias.evaluation.cures import _projected as erasure
from bgbias.evaluation.cures._pictures import Joined
from bgbias.evaluation.masked_photos import masked_views, views_of
from bgbias.evaluation.metrics import map_at_r
from bgbias.evaluation.retrieval import neighbours
from bgbias.files.store import ImageStore
from bgbias.images import pixels
from bgbias.models.settings import How
from bgbias.nodes import cure, remask
from bgbias.study.album import Album
from bgbias.study.cell import Cell
from bgbias.study.params import Study

SIDE = 32
BY_MASKS = ("grey", "blurred", "cropped", "object_pooling", "background_subtracted", "fused", "patchwise")
MAPPED = ("leace", "moved_directions")
NAMES = (*BY_MASKS, *MAPPED)
PLAIN, PRETRAINED = (
    Cell("squares", "pixels", "contrastive", "plain", 0),
    Cell("squares", "pixels", "none", "pretrained", 0),
)


def picture(name: str, *shape: int) -> np.ndarray:
    return seeds.generator("cures", name).integers(0, 256, shape, dtype=np.uint8)


def box(top: int, left: int, height: int, width: int) -> np.ndarray:
    mask = np.zeros((SIDE, SIDE), np.uint8)
    mask[top : top + height, left : left + width] = 255
    return mask


def apply(name: str, photo: np.ndarray, mask: np.ndarray) -> np.ndarray:
    made: np.ndarray = plugins.load("cures", name).apply(photo, mask)
    return made


def test_the_background_becomes_grey_or_a_blur_as_far_as_the_mask_says() -> None:
    photo, mask = picture("photo", SIDE, SIDE, 3), picture("mask", SIDE, SIDE)
    soft = mask[..., None] / 255
    exact = soft * photo + (1 - soft) * 127.5  # often half way between two levels
    assert np.abs(apply("grey", photo, mask) - exact).max() <= 0.5 + 1e-9
    blurred = gaussian_filter(photo.astype(float), (SIDE / 8, SIDE / 8, 0), mode="mirror")
    # The blur is rounded, and what is made of it: half a level each.
    assert np.abs(apply("blurred", photo, mask) - (soft * photo + (1 - soft) * blurred)).max() <= 1 + 0.05


@pytest.mark.parametrize(
    ("mask", "square"),
    [
        (
            box(10, 12, 8, 5),
            (9, 10, 19, 20),
        ),  # 8 high and 2 x .8 more, rounded up; its middle is 14, and 14.5
        (box(0, 0, 6, 4), (0, 0, 8, 8)),  # moved into the picture
        (box(4, 20, 10, 12), (2, 17, 17, 32)),
        (box(0, 0, SIDE, SIDE), (0, 0, SIDE, SIDE)),
        (box(0, 0, 0, 0), (0, 0, SIDE, SIDE)),  # nothing was found
    ],
)
def test_the_picture_is_cut_down_to_a_square_around_the_object(
    mask: np.ndarray, square: tuple[int, ...]
) -> None:
    photo = picture("photo", SIDE, SIDE, 3)
    top, left, bottom, right = square
    part = Image.fromarray(photo).resize(
        (SIDE, SIDE), Image.Resampling.BILINEAR, box=(left, top, right, bottom)
    )
    assert np.array_equal(apply("cropped", photo, mask), np.asarray(part))


def test_pooling_on_the_object_is_the_mean_weighted_by_the_mask() -> None:
    features = torch.rand(2, 5, 4, 4, generator=torch.Generator().manual_seed(0))
    masks = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    found = plugins.load("cures", "object_pooling").apply(features, masks).mean(dim=(2, 3))
    for n in range(2):
        small = masks[n, 0].reshape(4, 2, 4, 2).mean(dim=(1, 3)) + 1e-3
        expected = (features[n] * small).sum(dim=(1, 2)) / small.sum()
        torch.testing.assert_close(found[n], expected)
    # A mask that says nothing changes nothing.
    same = plugins.load("cures", "object_pooling").apply(features, torch.zeros(2, 1, 8, 8))
    torch.testing.assert_close(same, features)


def test_as_many_directions_go_as_validation_photos_want() -> None:
    crossed = seeds.generator("crossed").normal(size=(30, 6, 16)).astype(np.float32)
    judged: list[int] = []

    def judge(candidate: erasure.Erasure) -> float:
        judged.append(candidate.rank)
        return -abs(candidate.rank - 4)

    chosen = plugins.load("cures", "moved_directions").fit(crossed, judge)
    assert judged == [0, 1, 2, 4, 8]
    assert chosen.rank == 4
    assert plugins.load("cures", "moved_directions").fit(crossed, lambda _: 0.5).rank == 0  # the fewest


def unit(*shape: int) -> np.ndarray:
    vectors = seeds.generator("unit", *shape).normal(size=shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_the_second_picture_is_the_background_or_the_crop() -> None:
    photo, mask = picture("photo", SIDE, SIDE, 3), box(10, 12, 8, 5)
    hole = distance_transform_edt(mask <= 127) <= 7
    filled = cv2.inpaint(photo, hole.astype(np.uint8), 3, cv2.INPAINT_TELEA)
    assert np.array_equal(apply("background_subtracted", photo, mask), filled)
    assert np.array_equal(apply("fused", photo, mask), apply("cropped", photo, mask))
    # Where nothing is found the second picture is the first.
    for name in ("background_subtracted", "fused"):
        assert np.array_equal(apply(name, photo, np.zeros_like(mask)), photo)


@pytest.mark.parametrize(("name", "tried"), [("background_subtracted", 10), ("fused", 11)])
def test_embeddings_of_both_pictures_are_added_with_the_weight_that_is_judged_best(
    name: str, tried: int
) -> None:
    fit = plugins.load("cures", name).fit
    own, other = unit(7, 5), unit(7, 6)[:, :5]
    judged: list[float] = []

    def judge(candidate: Joined) -> float:
        judged.append(candidate.weight)
        return -abs(candidate.weight - 0.3)

    chosen = fit(judge)
    assert judged == [n / 10 for n in range(tried)]
    assert chosen.weight == pytest.approx(0.3)
    for row, found in enumerate(chosen(own, other)):
        naive = (
            own[row] - 0.3 * other[row]
            if name == "background_subtracted"
            else 0.7 * own[row] + 0.3 * other[row]
        )
        np.testing.assert_allclose(found, naive / math.sqrt(sum(naive**2)), atol=1e-6)
    # The smallest of several; without the second picture it is the embedding of the first, bit for bit.
    neutral = fit(lambda _: 0.5)
    assert neutral.weight == 0
    assert neutral(own, other).tobytes() == own.tobytes()
    # Of a picture without an object both are alike, and it stays where it is whatever the weight.
    strongest = fit(lambda candidate: candidate.weight)
    np.testing.assert_allclose(strongest(own, own), own, atol=1e-5)


def test_what_objects_and_backgrounds_add_up_to_is_taken_apart() -> None:
    """Embeddings that are sums of an object's and a background's: without the background, all classes are found."""
    objects, backgrounds = unit(8, 16), unit(40, 16)
    labels = np.arange(40) % 8
    seen = objects[labels] + 2 * backgrounds
    seen /= np.linalg.norm(seen, axis=1, keepdims=True)

    def judge(candidate: Joined) -> float:
        vectors = candidate(seen, backgrounds)
        return float(np.mean(map_at_r.per_query(neighbours(vectors, labels, vectors, labels))))

    fitted = plugins.load("cures", "background_subtracted").fit(judge)
    assert fitted.weight > 0.5
    assert judge(Joined(1, 0)) < 0.5
    assert judge(fitted) > 0.9


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    raw = described(tmp_path)
    raw["cures"] = {"names": list(NAMES), "draws": 2, "objects": 4, "backgrounds": 3}
    raw["grids"]["small"]["cells"][0] |= {"pretrained": True, "methods": ["plain"], "losses": ["contrastive"]}
    return raw


@pytest.fixture
def study(tmp_path: Path, raw: dict[str, Any], small_plugins: None) -> Study:
    study = load(tmp_path, raw)
    data_nodes(study)
    return study


def made(study: Study, cell: Cell) -> tuple[pd.DataFrame, pd.DataFrame]:
    run(study, cell, *(["train"] if cell == PLAIN else []), "embed", "cure")
    files = study.files
    return pd.read_parquet(files.at("cured", **cell.wildcards)), pd.read_csv(
        files.at("cures", **cell.wildcards)
    )


@pytest.mark.parametrize("cell", [PLAIN, PRETRAINED], ids=["trained", "pretrained"])
def test_a_model_is_scored_with_every_cure(study: Study, cell: Cell) -> None:
    remask.remask(study, "squares", "pixels", "cpu")
    queries, facts = made(study, cell)
    assert facts["cure"].tolist() == list(NAMES)
    assert (facts["ms"] > 0).all()
    of_index = facts.set_index("cure")["index"].to_dict()
    assert of_index == dict.fromkeys(BY_MASKS, "again") | dict.fromkeys(MAPPED, "mapped")
    assert facts[facts["weight"].notna()]["cure"].tolist() == ["background_subtracted", "fused"]
    views = {("clean", 0), ("random_background", 0), ("random_background", 1)}
    before = embeddings.read(study.files.at("embeddings", **cell.wildcards))
    for name in NAMES:
        own = queries[queries["cure"] == name]
        assert set(zip(own["condition"], own["draw"], strict=True)) == views
        assert set(own["setting"]) == {"symmetric", "query"}
        assert len(own) == 2 * 3 * before.usable.sum()
    # A projection that takes nothing out leaves every score as it was.
    removed = facts.set_index("cure")["removed"]
    assert removed["leace"] == 2  # of three backgrounds
    pictures = _seen(study, ("clean", 0))
    model = _model(study, cell)
    again = cure_eval.embed(model, pictures, None, How(pooled=cell == PRETRAINED))
    np.testing.assert_allclose(again, before.views["clean", 0], atol=1e-5)


def _album(study: Study) -> Album:
    from bgbias.models import backbones
    from bgbias.study.params import options

    facts = backbones.facts("pixels", options(study, "backbones", "pixels", {}))
    return Album(study, "squares", facts.resize, facts.input_size)


def _seen(study: Study, view: tuple[str, int]) -> list[cure_eval.Seen]:
    album = _album(study)
    photos = album.evaluation(album.table("test"), {"masks", "backgrounds"}, "test")
    masks = ImageStore(study.files.at("seen_masks", dataset="squares", backbone="pixels"))
    return list(masked_views(photos, view, masks, study.mask_policy))


def _model(study: Study, cell: Cell) -> Any:
    from bgbias.models.inference import for_inference
    from bgbias.nodes._models import model_of

    return for_inference(model_of(study, cell))


@pytest.mark.parametrize("cell", [PLAIN, PRETRAINED], ids=["trained", "pretrained"])
def test_a_patch_is_what_the_model_makes_of_its_place_alone(study: Study, cell: Cell) -> None:
    remask.remask(study, "squares", "pixels", "cpu")
    run(study, cell, *(["train"] if cell == PLAIN else []))
    model, seen = (
        _model(study, cell),
        [*_seen(study, ("clean", 0))[:2], (picture("untrusted", 8, 8, 3), None)],
    )
    seen[2] = (pixels.resize_short(seen[2][0], len(seen[0][0])), None)
    how = How(pooled=cell == PRETRAINED, batch_size=2)
    found = cure_eval.embed_patches(model, seen, plugins.load("cures", "patchwise"), how)
    expected = []
    for shown, mask in seen:
        x = model.preprocess(torch.from_numpy(shown.copy()).permute(2, 0, 1)[None])
        (features,) = model.features(x).detach().numpy()
        _, high, wide = features.shape
        whole = np.full(shown.shape[:2], 255) if mask is None else mask
        shares = np.zeros((high, wide))
        for row, column in np.ndindex(high, wide):
            # Of every pixel that the place touches.
            rows, columns = (
                slice(n * SIDE // count, math.ceil((n + 1) * SIDE / count))
                for n, count in ((row, high), (column, wide))
            )
            shares[row, column] = whole[rows, columns].mean() / 255
        for row, column in np.argwhere(shares >= min(0.5, shares.max())):
            place = features[:, row, column]
            if not how.pooled:
                place = model.embedder.weight.detach().numpy() @ place + model.embedder.bias.detach().numpy()
            expected.append(place / np.linalg.norm(place))
    np.testing.assert_allclose(found.vectors, np.array(expected), atol=1e-5)
    assert found.counts.sum() == len(expected)
    assert found.counts[2] == high * wide


def test_second_pictures_of_validation_photos_are_made_with_the_masks_they_were_pasted_by(
    study: Study,
) -> None:
    run(study, PLAIN, "train", "embed")
    validation = cure.CureFits(study, _album(study), _model(study, PLAIN), How())
    photos = validation.photos
    assert set(photos.table.ids) == set(_album(study).table("val").ids)
    chosen = plugins.load("cures", "background_subtracted")
    seconds = []
    for row, shown in enumerate(photos.views([cure.DRAWN])):
        own = photos.photo(row)
        seconds.append(chosen.apply(shown, own.mask) if own.trusted else shown)
    expected = cure_eval.embed(validation.model, [(s, None) for s in seconds], None)
    given: list[np.ndarray] = []

    def kept(pictures: np.ndarray, others: np.ndarray) -> np.ndarray:
        given.extend([pictures, others])
        return pictures

    judged = validation.judge_beside(chosen)(kept)
    np.testing.assert_allclose(given[1], expected, atol=1e-5)
    assert judged == validation.judge(lambda pictures: pictures)


def test_what_is_fitted_has_seen_no_test_photo_and_no_test_background(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    remask.remask(study, "squares", "pixels", "cpu")
    run(study, PLAIN, "train", "embed")
    fitted_on: list[np.ndarray] = []
    least_squares = erasure.least_squares

    def noted(crossed: np.ndarray) -> erasure.Erasure:
        fitted_on.append(crossed)
        return least_squares(crossed)

    monkeypatch.setattr(erasure, "least_squares", noted)
    cure.cure(study, PLAIN, "cpu")
    (crossed,) = fitted_on
    assert crossed.shape[:2] == (4, 3)
    album, model = _album(study), _model(study, PLAIN)
    photos = album.evaluation(album.table("val"), {"masks", "backgrounds"}, "val")
    pool = photos.backgrounds
    assert pool is not None
    behind = [pool.picture(draw, photos.size) for draw in pool.for_all(3)]
    possible = [photos.photo(row).foreground.before(b) for row in photos.trusted for b in behind]
    vectors = cure_eval.embed(model, [(p, None) for p in possible], None)
    for vector in crossed.reshape(-1, crossed.shape[2]):
        assert np.abs(vectors - vector).max(axis=1).min() < 1e-5
    # Other test photos change nothing of it.
    inputs = record(study, "cure_record", **PLAIN.wildcards)["inputs"]
    assert any("val" in name for name in inputs)


def test_masks_are_found_in_the_pictures_that_models_see(
    tmp_path: Path, raw: dict[str, Any], small_plugins: None
) -> None:
    raw["maskers"]["red"] = {"kind": "red"}
    raw["datasets"]["squares"]["masker"] = "red"
    raw["mask_policy"] = {"min_area": 0.0, "max_area": 1.0}
    study = load(tmp_path, raw)
    data_nodes(study)
    remask.remask(study, "squares", "pixels", "cpu")
    album = _album(study)
    photos = album.evaluation(album.table("test"), {"masks", "backgrounds"}, "test")
    masks = ImageStore(study.files.at("seen_masks", dataset="squares", backbone="pixels"))
    for draw in range(2):
        for row, image_id in enumerate(photos.table.ids):
            shown = random_background.view(photos.photo(row), draw)
            # This masker's masks are the red channel: of the composed picture, not of the photo.
            assert np.array_equal(masks.array(f"random_background/{draw}/{image_id}", "L"), shown[..., 0])
    facts = pd.read_csv(study.files.at("remasking", dataset="squares", backbone="pixels"))
    assert facts.loc[0, "pictures"] == 3 * len(photos.table)
    assert facts.loc[0, "predicts"]


def test_true_masks_are_those_that_pictures_were_made_with(study: Study) -> None:
    remask.remask(study, "squares", "pixels", "cpu")
    album = _album(study)
    photos = album.evaluation(album.table("test"), {"masks", "backgrounds"}, "test")
    for view in views_of(2):
        for row, (shown, mask) in enumerate(_seen(study, view)):
            photo = photos.photo(row)
            assert mask is not None
            assert np.array_equal(mask, photo.mask)
            assert np.array_equal(shown, next(photos.views([view])) if row == 0 else shown)
    facts = pd.read_csv(study.files.at("remasking", dataset="squares", backbone="pixels"))
    assert facts.loc[0, "masker_ms"] == 0


def test_where_no_object_was_found_the_picture_stays_as_it_is(study: Study) -> None:
    remask.remask(study, "squares", "pixels", "cpu")
    album = _album(study)
    photos = album.evaluation(album.table("test"), {"masks", "backgrounds"}, "test")
    masks = ImageStore(study.files.at("seen_masks", dataset="squares", backbone="pixels"))
    strict = study.mask_policy.model_copy(update={"min_area": 0.98, "max_area": 0.99})
    assert all(mask is None for _, mask in masked_views(photos, ("clean", 0), masks, strict))
    whole = pixels.centre_crop(photos.photos.get(photos.table.ids[0]), photos.size)
    model = _model(study, PRETRAINED)
    for name in ("grey", "blurred", "cropped", "object_pooling"):
        found = cure_eval.embed(model, [(whole, None)], plugins.load("cures", name), How(pooled=True))
        np.testing.assert_allclose(
            found, cure_eval.embed(model, [(whole, None)], None, How(pooled=True)), atol=1e-5
        )


def test_a_grid_without_cures_or_with_one_that_is_not_there_says_so(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    with pytest.raises(UserError, match=r"cures\.names: 'gray' \(did you mean 'grey'\?\)"):
        load(tmp_path, raw | {"cures": {"names": ["gray"]}})
    with pytest.raises(
        UserError, match=r"cures\.draws: 3 backgrounds a photo, .* see 2 \(evaluation\.draws\)"
    ):
        load(tmp_path, raw | {"cures": {"names": ["grey"], "draws": 3}})
    study = load(tmp_path, raw | {"cures": {}})
    with pytest.raises(UserError, match=r"names no cures; set grids\.small\.cures\.names in .*params\.yaml"):
        cure.cure(study, PRETRAINED, "cpu")
