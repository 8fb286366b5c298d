"""The library's face gives what the workflow's nodes give, to whoever has photos and a model, and nothing else at hand."""

from __future__ import annotations

import doctest
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import timm
import torch
from in_memory import Pictures, table
from PIL import Image

import bgbias
from bgbias import api
from bgbias.attribution import explanation
from bgbias.attribution.score import normalise, score
from bgbias.attribution.settings import Attribution
from bgbias.attribution.smoothgrad import attribute_photos
from bgbias.backgrounds.draws import draw
from bgbias.evaluation import metrics
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.images import pixels
from bgbias.images.composite import CutOut
from bgbias.models import model as models

SHOWN = ["mug_0.png", "mug_1.png", "house.png"]


def array(name: str, mode: str = "RGB") -> np.ndarray:
    return np.asarray(Image.open(name).convert(mode))


def test_examples_are_true() -> None:
    names = {"bgbias": bgbias, "np": np}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    examples = {
        t.name: t for t in doctest.DocTestFinder(exclude_empty=True).find(api, "api", extraglobs=names)
    }
    for name in ("load", "embed", "corrupt", "rank", "attribute", "explain"):
        # What one example has made, the next one uses.
        example = examples[f"api.{name}"]
        example.globs = names
        said: list[str] = []
        runner.run(example, out=said.append, clear_globs=False)
        assert not said, "".join(said)
    assert runner.tries > 15


def test_importing_bgbias_loads_nothing_heavy_and_offers_what_it_names() -> None:
    code = "import bgbias, sys; print(*sys.modules); print(*dir(bgbias)); bgbias.embedd"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    loaded, offered = (set(line.split()) for line in done.stdout.splitlines())
    assert not {"torch", "numpy", "pandas", "PIL", "pydantic", "typer"} & loaded
    assert set(bgbias.__all__) <= offered
    assert "module 'bgbias' has no attribute 'embedd'" in done.stderr
    for name in bgbias.__all__:
        assert getattr(bgbias, name) is not None


def test_photos_may_be_files_pictures_or_arrays(model: bgbias.Embedder) -> None:
    named = bgbias.embed(model, SHOWN)
    assert named.shape == (3, 16)
    np.testing.assert_allclose(np.linalg.norm(named, axis=1), 1, atol=1e-6)
    for kind in (Path, Image.open, array):
        np.testing.assert_array_equal(bgbias.embed(model, map(kind, SHOWN)), named)  # type: ignore[arg-type]
    one_by_one = np.concatenate([bgbias.embed(model, [name]) for name in SHOWN])
    np.testing.assert_allclose(one_by_one, named, atol=1e-6)


def test_any_function_is_a_model() -> None:
    asked = []

    def means(batch: list[np.ndarray]) -> object:
        asked.append(len(batch))
        return torch.from_numpy(np.stack([photo.mean((0, 1)) for photo in batch])).requires_grad_()

    made = bgbias.embed(means, SHOWN, batch_size=2)
    assert asked == [2, 1, 1, 1], "two photos, each of them alone, and the last one"
    expected = np.stack([array(name).mean((0, 1)) for name in SHOWN])
    np.testing.assert_allclose(made, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("key", ["cub200|test|5923", "mug_0"])
def test_corrupted_pictures_are_those_of_the_study(key: str) -> None:
    """As its evaluation makes them of what a model sees, which is square."""
    backgrounds = [array("scene_0.png")[:50], array("scene_1.png")]
    photo, mask = array("mug_0.png"), array("mug_0_mask.png", "L")
    key_set, item = ("cub200|test", "5923") if "|" in key else ("", key)
    drawn = draw(key_set, 4, item, [(50, 64), (64, 64)])
    behind = pixels.crop(backgrounds[drawn.index], drawn.box, 64, drawn.flip)
    expected = CutOut(photo, mask).before(behind)
    np.testing.assert_array_equal(bgbias.corrupt(photo, mask, backgrounds, key, draw=4), expected)
    assert (expected[mask == 255] == photo[mask == 255]).all()
    assert (expected[mask == 0] == behind[mask == 0]).all()


def test_a_photo_of_any_shape_keeps_it_in_front_of_another_background() -> None:
    photo, mask = array("mug_0.png")[:40], array("mug_0_mask.png", "L")[:40] > 127
    made = bgbias.corrupt(photo, mask, "scene_0.png", "mug")
    assert made.shape == photo.shape
    np.testing.assert_array_equal(made[mask], photo[mask])
    assert (made[~mask] != photo[~mask]).any()


def test_ranking_among_themselves_leaves_each_query_out() -> None:
    vectors = np.eye(3, dtype=np.float32)[[0, 0, 1, 1, 2]]
    found = bgbias.rank(vectors, ["a", "a", "b", "b", "c"], k=20)
    assert found.neighbours.indices.shape == (5, 20)
    assert found.neighbours.indices[:4, 0].tolist() == [1, 0, 3, 2]
    assert (found.neighbours.indices[:, 4:] == -1).all()
    assert found.metrics["map_at_r"].tolist()[:4] == [1, 1, 1, 1]
    assert np.isnan(found.metrics["map_at_r"][4])
    assert tuple(found.metrics.columns) == metrics.names()


def test_a_gallery_is_ranked_with_everyone_in_it() -> None:
    gallery = np.array([[1, 0], [0.8, 0.6], [0, 1]], np.float32)
    found = bgbias.rank(gallery[:1], [7], gallery, [3, 7, 7])
    assert found.neighbours.indices[0, :3].tolist() == [0, 1, 2]
    assert found.metrics["precision_at_1"].tolist() == [0]
    assert found.metrics["r_precision"].tolist() == [0.5]


def test_attribution_scores_are_those_of_the_node(model: bgbias.Embedder) -> None:
    names = ["0", "1", "2"]
    scored = bgbias.attribute(model, SHOWN, [n.replace(".png", "_mask.png") for n in SHOWN], names, samples=3)
    photos = Pictures({k: array(name) for k, name in zip(names, SHOWN, strict=True)})
    masks = Pictures(
        {k: array(n.replace(".png", "_mask.png"), "L") for k, n in zip(names, SHOWN, strict=True)}
    )
    rows = table(dict.fromkeys(names, 0))
    rows.frame["key_set"] = ""
    evaluated = EvaluationPhotos(rows, photos, 56, masks, frozenset(names))  # type: ignore[arg-type]
    expected, _ = attribute_photos(model.model, evaluated, "l2", Attribution(samples=3))
    for variant in ("ref", "robust"):
        of_variant = expected["score"][expected["variant"] == variant]
        np.testing.assert_array_equal(scored[variant], of_variant)
    assert scored["skipped"].tolist() == ["", "", ""]
    by_cosine = bgbias.attribute(model, SHOWN[:1], ["mug_0_mask.png"], samples=3, distance="cosine")
    assert by_cosine["robust"][0] == pytest.approx(scored["robust"][0], abs=1e-6)
    assert abs(by_cosine["ref"][0] - scored["ref"][0]) > 1e-5


def test_a_photos_score_follows_from_its_name_and_not_from_its_place(model: bgbias.Embedder) -> None:
    both = bgbias.attribute(model, SHOWN[:2], ["mug_0_mask.png", "mug_1_mask.png"], ["a", "b"], samples=2)
    alone = bgbias.attribute(model, SHOWN[1:2], ["mug_1_mask.png"], ["b"], samples=2)
    assert alone["ref"][0] == pytest.approx(both["ref"][1], abs=1e-4)
    empty = bgbias.attribute(model, SHOWN[:1], [np.zeros((64, 64), bool)], samples=2)
    assert empty["skipped"].tolist() == ["empty mask"]


def test_an_explanation_is_that_of_the_command(model: bgbias.Embedder) -> None:
    told = bgbias.explain(model, SHOWN)
    expected = explanation.explain(models.load(Path("model.safetensors")), [array(n) for n in SHOWN])
    for ours, other in zip(told.maps, expected.maps, strict=True):
        np.testing.assert_array_equal(ours, other)
    assert told.distances == expected.distances


def colours(batch: list[np.ndarray]) -> list[np.ndarray]:
    return [photo.mean((0, 1)) for photo in batch]


def convolution() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(3, 8, 5, 2), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3, 2), torch.nn.ReLU()
    pool = torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 6)
    return torch.nn.Sequential(*layers, *pool)


@pytest.fixture(scope="module")
def weights(folder: Path) -> Path:
    """Those of a small model of timm."""
    torch.save(timm.create_model("test_resnet.r160_in1k").state_dict(), folder / "weights.pth")
    return folder / "weights.pth"


@pytest.mark.parametrize(
    ("model", "how"),
    [(convolution(), "gradients"), ("timm:test_resnet.r160_in1k", "gradients"), (colours, "occlusion")],
)
def test_a_brought_model_embeds_ranks_and_is_attributed(
    model: object, how: str, weights: Path, tmp_path: Path
) -> None:
    options: dict[str, object] = {"size": 64, "resize": 64}
    if isinstance(model, str):
        options["weights"] = weights
    vectors = bgbias.embed(model, SHOWN, out=tmp_path / "vectors.npy", **options)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(np.load(tmp_path / "vectors.npy"), vectors)
    labels = ["mug", "mug", "house"]
    ranked = bgbias.rank(SHOWN, labels, model=model, **options)
    pd.testing.assert_frame_equal(ranked.metrics, bgbias.rank(vectors, labels).metrics)
    masks = [array("mug_0_mask.png", "L"), "mug_1_mask.png", None]
    scores = bgbias.attribute(model, SHOWN, masks, samples=2, **options)
    assert scores.attrs["how"] == how
    assert scores["skipped"].tolist() == ["", "", "no mask"]
    assert scores["ref"][:2].between(-1, 1).all()


def test_what_is_guessed_of_a_model_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    bgbias.embed(convolution(), SHOWN, size=64, mean=(0.5,) * 3)
    assert "assumed: ImageNet's std" in capfd.readouterr().err


def test_a_functions_attribution_lies_where_it_looks() -> None:
    """One that sees the object's pixels alone, and one that sees all others."""
    mask = array("mug_0_mask.png", "L") > 127

    def seen(where: np.ndarray) -> Callable[[list[np.ndarray]], list[np.ndarray]]:
        return lambda batch: [photo[where].mean(0) for photo in batch]

    on, off = (
        bgbias.attribute(seen(where), SHOWN[:1], [mask], size=64, resize=64)["ref"][0]
        for where in (mask, ~mask)
    )
    assert on > 0.3 > 0 > off


def test_a_brought_models_gradients_are_those_of_the_audit() -> None:
    from bgbias.auditing import attribution_scores
    from bgbias.models import adapters

    options = {"size": 64, "resize": 64, "device": "cpu"}
    model = adapters.load(convolution(), adapters.Options(**options))  # type: ignore[arg-type]
    how, look_at = attribution_scores.choose_map_maker(model)
    scores = bgbias.attribute(model, SHOWN[:1], ["mug_0_mask.png"], names=["mug"])
    expected = normalise(torch.from_numpy(look_at(array(SHOWN[0]), ("", "mug"))))
    mask = torch.from_numpy(array("mug_0_mask.png", "L") / 255)
    assert how == "gradients"
    assert scores["ref"][0] == pytest.approx(score(expected, mask), abs=1e-6)


def test_a_network_that_pools_a_map_is_explained_by_it(weights: Path) -> None:
    explained = bgbias.explain(convolution(), SHOWN, size=64, resize=64)
    vectors = bgbias.embed(convolution(), SHOWN, size=64, resize=64)
    distances = np.linalg.norm(vectors[1:] - vectors[0], axis=1)
    np.testing.assert_allclose(explained.distances, distances, atol=1e-5)
    assert [attention.shape for attention in explained.maps] == [(64, 64)] * 3
    assert 0.5 < max(attention.max() for attention in explained.maps) <= 1
    named = bgbias.explain("timm:test_resnet.r160_in1k", SHOWN[:2], weights=weights)
    assert len(named.maps) == 2


def test_lists_of_photos_are_corrupted_one_by_one() -> None:
    masks = [name.replace(".png", "_mask.png") for name in SHOWN]
    made = bgbias.corrupt(SHOWN, masks, "scene_0.png", SHOWN)
    for name, mask, picture in zip(SHOWN, masks, made, strict=True):
        np.testing.assert_array_equal(picture, bgbias.corrupt(name, mask, "scene_0.png", name))
