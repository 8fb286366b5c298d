"""Models with cures: fitted on validation photos alone, judged with masks that are found in what the model sees."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from project import ROOT
from small_study import data_nodes, described, load, record, run

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.evaluation import conditions, cure_eval, embeddings
from bgbias.evaluation.conditions import random_background
from bgbias.evaluation.cures import _projected as erasure
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.files.store import ImageStore
from bgbias.masks.settings import MaskPolicy
from bgbias.models import backbones
from bgbias.models.inference import for_inference
from bgbias.models.settings import How
from bgbias.nodes import cure, remask
from bgbias.nodes._models import model_of
from bgbias.study.album import Album
from bgbias.study.cell import Cell
from bgbias.study.params import Study
from bgbias.study.params import options as options_of

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


class Cured(NamedTuple):
    """A study whose models are embedded and cured, and what LEACE was fitted on for each of them."""

    study: Study
    fitted_on: list[np.ndarray]

    @property
    def album(self) -> Album:
        facts = backbones.facts("pixels", options_of(self.study, "backbones", "pixels", {}))
        return Album(self.study, "squares", facts.resize, facts.input_size)

    def photos(self, role: str = "test") -> EvaluationPhotos:
        return self.album.evaluation(self.album.table(role), {"masks", "backgrounds"}, role)

    @property
    def masks(self) -> ImageStore:
        return ImageStore(self.study.files.at("seen_masks", dataset="squares", backbone="pixels"))

    def see(self, view: tuple[str, int], policy: MaskPolicy | None = None) -> list[cure_eval.Seen]:
        return list(
            cure_eval.with_found_masks(self.photos(), view, self.masks, policy or self.study.mask_policy)
        )

    def model(self, cell: Cell) -> Any:
        return for_inference(model_of(self.study, cell))

    def remasking(self) -> pd.Series:
        return pd.read_csv(self.study.files.at("remasking", dataset="squares", backbone="pixels")).loc[0]


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    plugins.use(ROOT / "tests/support/plugins")
    yield
    plugins.use()


@pytest.fixture(scope="module")
def cured(tmp_path_factory: pytest.TempPathFactory, small: None) -> Cured:
    folder, fitted_on, least_squares = tmp_path_factory.mktemp("cured"), [], erasure.least_squares
    study = load(folder, describe(folder))
    data_nodes(study)
    remask.remask(study, "squares", "pixels", "cpu")

    def note(crossed: np.ndarray) -> erasure.Erasure:
        fitted_on.append(crossed)
        return least_squares(crossed)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(erasure, "least_squares", note)
        run(study, PLAIN, "train", "embed", "cure")
        run(study, PRETRAINED, "embed", "cure")
    return Cured(study, fitted_on)


def embed(model: Any, pictures: list[np.ndarray], how: How | None = None) -> np.ndarray:
    return cure_eval.embed(model, [(picture, None) for picture in pictures], None, how or How())


@BOTH
def test_a_model_is_scored_with_every_cure(cured: Cured, cell: Cell) -> None:
    files = cured.study.files
    queries = pd.read_parquet(files.at("cured", **cell.wildcards))
    facts = pd.read_csv(files.at("cures", **cell.wildcards)).set_index("cure")
    assert facts.index.tolist() == list(NAMES)
    assert (facts["ms"] > 0).all()
    assert facts["index"].to_dict() == dict.fromkeys(BY_MASKS, "again") | dict.fromkeys(MAPPED, "mapped")
    assert facts.index[facts["weight"].notna()].tolist() == ["background_subtracted", "fused"]
    assert facts.loc["leace", "removed"] == 2  # of three backgrounds
    before = embeddings.read(files.at("embeddings", **cell.wildcards))
    for name in NAMES:
        of_cure = queries[queries["cure"] == name]
        assert set(zip(of_cure["condition"], of_cure["draw"], strict=True)) == set(VIEWS)
        assert set(of_cure["setting"]) == {"symmetric", "query"}
        assert len(of_cure) == 2 * 3 * before.usable.sum()
    again = cure_eval.embed(cured.model(cell), cured.see(CLEAN), None, How(pooled=cell == PRETRAINED))
    np.testing.assert_allclose(again, before.views[CLEAN], atol=1e-5)


@BOTH
def test_a_patch_is_what_the_model_makes_of_its_place_alone(cured: Cured, cell: Cell) -> None:
    model, seen = cured.model(cell), cured.see(CLEAN)[:3]
    side, seen[2] = len(seen[0][0]), (seen[2][0], None)  # of the last one the mask is not trusted
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
                slice(n * side // count, math.ceil((n + 1) * side / count))
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
    cured: Cured,
) -> None:
    validation = cure.CureFits(cured.study, cured.album, cured.model(PLAIN), How())
    photos, chosen = validation.photos, plugins.load("cures", "background_subtracted")
    assert set(photos.table.ids) == set(cured.album.table("val").ids)
    seconds = []
    for row, shown in enumerate(photos.views([cure.DRAWN])):
        photo = photos.photo(row)
        seconds.append(chosen.apply(shown, photo.mask) if photo.trusted else shown)
    given: list[np.ndarray] = []

    def keep(pictures: np.ndarray, others: np.ndarray) -> np.ndarray:
        given.extend([pictures, others])
        return pictures

    judged = validation.judge_beside(chosen)(keep)
    np.testing.assert_allclose(given[1], embed(validation.model, seconds), atol=1e-5)
    assert judged == validation.judge(lambda pictures: pictures)


def test_what_is_fitted_has_seen_no_test_photo_and_no_test_background(cured: Cured) -> None:
    crossed, photos = cured.fitted_on[0], cured.photos("val")
    assert crossed.shape[:2] == (4, 3)
    pool = photos.backgrounds
    assert pool is not None
    behind = [pool.picture(draw, photos.size) for draw in pool.for_all(3)]
    possible = [photos.photo(row).foreground.before(b) for row in photos.trusted for b in behind]
    vectors = embed(cured.model(PLAIN), possible)
    for vector in crossed.reshape(-1, crossed.shape[2]):
        assert np.abs(vectors - vector).max(axis=1).min() < 1e-5
    # Other test photos change nothing of it.
    assert any("val" in name for name in record(cured.study, "cure_record", **PLAIN.wildcards)["inputs"])


def test_masks_are_found_in_the_pictures_that_models_see(tmp_path: Path) -> None:
    raw = describe(tmp_path)
    raw["maskers"]["red"] = {"kind": "red"}
    raw["datasets"]["squares"]["masker"] = "red"
    raw["mask_policy"] = {"min_area": 0.0, "max_area": 1.0}
    found = Cured(load(tmp_path, raw), [])
    data_nodes(found.study)
    remask.remask(found.study, "squares", "pixels", "cpu")
    photos = found.photos()
    for draw in range(2):
        for row, image_id in enumerate(photos.table.ids):
            shown = random_background.view(photos.photo(row), draw)
            # This masker's masks are the red channel: of the composed picture, not of the photo.
            mask = found.masks.array(f"random_background/{draw}/{image_id}", "L")
            assert np.array_equal(mask, shown[..., 0])
    assert found.remasking()["pictures"] == 3 * len(photos.table)
    assert found.remasking()["predicts"]


def test_true_masks_are_those_that_pictures_were_made_with(cured: Cured) -> None:
    photos = cured.photos()
    for view in VIEWS:
        for row, ((shown, mask), expected) in enumerate(
            zip(cured.see(view), photos.views([view]), strict=True)
        ):
            assert mask is not None
            assert np.array_equal(mask, photos.photo(row).mask)
            assert np.array_equal(shown, expected)
    assert cured.remasking()["masker_ms"] == 0


def test_where_no_object_was_found_the_picture_stays_as_it_is(cured: Cured) -> None:
    strict = cured.study.mask_policy.model_copy(update={"min_area": 0.98, "max_area": 0.99})
    assert all(mask is None for _, mask in cured.see(CLEAN, strict))
    whole, how = cured.see(CLEAN)[0][0], How(pooled=True)
    model = cured.model(PRETRAINED)
    for name in ("grey", "blurred", "cropped", "object_pooling"):
        found = cure_eval.embed(model, [(whole, None)], plugins.load("cures", name), how)
        np.testing.assert_allclose(found, embed(model, [whole], how), atol=1e-5)


@pytest.mark.parametrize(
    ("cures", "words"),
    [
        ({"names": ["gray"]}, r"cures\.names: 'gray' \(did you mean 'grey'\?\)"),
        ({"names": ["grey"], "draws": 3}, r"cures\.draws: 3 backgrounds a photo, .* see 2 \(evaluation\.draws\)"),
    ],
)  # fmt: skip
def test_cures_that_cannot_be_meant_are_refused(tmp_path: Path, cures: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        load(tmp_path, describe(tmp_path) | {"cures": cures})


def test_a_grid_without_cures_says_so(tmp_path: Path) -> None:
    study = load(tmp_path, describe(tmp_path) | {"cures": {}})
    with pytest.raises(UserError, match=r"names no cures; set grids\.small\.cures\.names in .*params\.yaml"):
        cure.cure(study, PRETRAINED, "cpu")
