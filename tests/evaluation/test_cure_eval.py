"""Models with cures: fitted on validation photos alone, judged with masks that are found in what the model sees."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from project import ROOT
from small_study import data_nodes, described, load, run
from torch.nn.functional import normalize

from bgbias import plugins
from bgbias.evaluation import conditions, cure_eval, embeddings
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.files.store import ImageStore
from bgbias.models.inference import embed_views, for_inference
from bgbias.models.settings import How
from bgbias.nodes import cure, remask
from bgbias.nodes._models import model_of
from bgbias.study.album import Album
from bgbias.study.cell import Cell
from bgbias.study.params import Study

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


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    plugins.use(ROOT / "tests/support/plugins")
    yield
    plugins.use()


@pytest.fixture(scope="module")
def cured(tmp_path_factory: pytest.TempPathFactory, small: None) -> Study:
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
