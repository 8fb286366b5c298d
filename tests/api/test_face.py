"""The library's face gives what the workflow's nodes give, to whoever has photos and a model, and nothing else at hand."""

import doctest
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from in_memory import Pictures, table
from PIL import ExifTags, Image
from project import ROOT

import bgbias
from bgbias import UserError, plugins, seeds
from bgbias.attribution.settings import Attribution
from bgbias.attribution.smoothgrad import attribute_photos
from bgbias.backgrounds.draws import draw
from bgbias.evaluation import metrics
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.images import pixels
from bgbias.images.composite import CutOut
from bgbias.models import model as models
from bgbias.toy import render, scenes

SHOWN = ["mug_0.png", "mug_1.png", "house.png"]
MASKS = ["mug_0_mask.png", "mug_1_mask.png", "house_mask.png"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rendered toys with their masks, scenes, and a model with random weights."""
    folder = tmp_path_factory.mktemp("library")
    for number in range(2):
        scene = scenes.photograph(scenes.scene("api", number), scenes.glance("api", number), 64)
        Image.fromarray((255 * scene).astype(np.uint8)).save(folder / f"scene_{number}.png")
    for name, c, n in (("mug_0", 0, 0), ("mug_1", 0, 1), ("house", 1, 0)):
        shot = render.shoot(render.toy(0, "test", c), render.pose(0, "test", c, n), 64)
        Image.fromarray(render.expose(shot, scene)).save(folder / f"{name}.png")
        Image.fromarray(render.mask_pixels(shot)).save(folder / f"{name}_mask.png")
    params = plugins.load("backbones", "tiny").Params()
    model = models.build_model("tiny", params, 16, seeds.torch_generator("api"))
    models.save(model, folder / "model.safetensors", {"cell": {"loss": "contrastive"}})
    return folder


@pytest.fixture(autouse=True)
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


@pytest.fixture(scope="module")
def model(folder: Path) -> bgbias.Embedder:
    return bgbias.load(folder / "model.safetensors", "cpu")


def array(name: str, mode: str = "RGB") -> np.ndarray:
    return np.asarray(Image.open(name).convert(mode))


def test_examples_are_true() -> None:
    names = {"bgbias": bgbias, "np": np}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for name in ("load", "embed", "corrupt", "rank", "attribute", "explain"):
        # What one example has made, the next one uses.
        (example,) = doctest.DocTestFinder().find(getattr(bgbias, name), name, globs={})
        example.globs = names
        runner.run(example, clear_globs=False)
    assert (runner.failures, runner.tries > 15) == (0, True)


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


def test_photos_of_any_shape_keep_it_and_lists_are_corrupted_one_by_one() -> None:
    photo, mask = array("mug_0.png")[:40], array("mug_0_mask.png", "L")[:40] > 127
    one = bgbias.corrupt(photo, mask, "scene_0.png", "mug")
    np.testing.assert_array_equal(one[mask], photo[mask])
    assert (one[~mask] != photo[~mask]).any()
    np.testing.assert_array_equal(bgbias.corrupt(photo, mask.astype(np.uint8), "scene_0.png", "mug"), one)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 3
    Image.open(SHOWN[0]).rotate(180).save("turned.png", exif=exif)
    with pytest.raises(
        UserError, match=r"turned\.png' carries a rotation .* Turn the photo's pixels, or its mask"
    ):
        bgbias.corrupt("turned.png", MASKS[0], "scene_0.png", "mug")
    made = bgbias.corrupt(SHOWN, MASKS, "scene_0.png", SHOWN)
    for name, drawn, picture in zip(SHOWN, MASKS, made, strict=True):
        np.testing.assert_array_equal(picture, bgbias.corrupt(name, drawn, "scene_0.png", name))


def test_photos_are_ranked_without_themselves_and_those_of_a_gallery_with_everyone() -> None:
    vectors = np.eye(3, dtype=np.float32)[[0, 0, 1, 1, 2]]
    found = bgbias.rank(vectors, ["a", "a", "b", "b", "c"], k=20)
    assert found.neighbours.indices.shape == (5, 20)
    assert found.neighbours.indices[:4, 0].tolist() == [1, 0, 3, 2]
    assert (found.neighbours.indices[:, 4:] == -1).all()
    np.testing.assert_array_equal(found.metrics["map_at_r"], [1, 1, 1, 1, np.nan])
    assert tuple(found.metrics.columns) == metrics.names()
    gallery = np.array([[1, 0], [0.8, 0.6], [0, 1]], np.float32)
    found = bgbias.rank(gallery[:1], [7], gallery, [3, 7, 7])
    assert found.neighbours.indices[0, :3].tolist() == [0, 1, 2]
    assert found.metrics[["precision_at_1", "r_precision"]].to_numpy().tolist() == [[0, 0.5]]


def test_attribution_scores_are_those_of_the_node(model: bgbias.Embedder) -> None:
    names = ["0", "1", "2"]
    scored = bgbias.attribute(model, SHOWN, MASKS, names, samples=3)
    photos = Pictures({key: array(name) for key, name in zip(names, SHOWN, strict=True)})
    masks = Pictures({key: array(name, "L") for key, name in zip(names, MASKS, strict=True)})
    rows = table(dict.fromkeys(names, 0))
    rows.frame["key_set"] = ""
    evaluated = EvaluationPhotos(rows, photos, 56, masks, frozenset(names))  # type: ignore[arg-type]
    expected, _ = attribute_photos(model.model, evaluated, "l2", Attribution(samples=3))
    for variant in ("ref", "robust"):
        of_variant = expected["score"][expected["variant"] == variant]
        np.testing.assert_array_equal(scored[variant], of_variant)
    by_cosine = bgbias.attribute(model, SHOWN[:1], MASKS[:1], samples=3, distance="cosine")
    assert by_cosine["robust"][0] == pytest.approx(scored["robust"][0], abs=1e-6)
    assert abs(by_cosine["ref"][0] - scored["ref"][0]) > 1e-5
    # A photo's score follows from its name, and not from its place.
    alone = bgbias.attribute(model, SHOWN[1:2], MASKS[1:2], names[1:2], samples=3)
    assert alone["ref"][0] == pytest.approx(scored["ref"][1], abs=1e-4)


def colours(batch: list[np.ndarray]) -> list[np.ndarray]:
    return [photo.mean((0, 1)) for photo in batch]


class Blind(torch.nn.Module):
    """A network whose gradients are off."""

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.adaptive_avg_pool2d(x, 4).flatten(1)


def convolution() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(3, 8, 5, 2), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3, 2), torch.nn.ReLU()
    pool = torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 6)
    return torch.nn.Sequential(*layers, *pool)


@pytest.mark.parametrize(
    ("model", "how"),
    [(convolution(), "gradients"), (Blind(), "occlusion"), (colours, "occlusion")],
)
def test_brought_models_embed_and_attribute(model: object, how: str, tmp_path: Path) -> None:
    options = {"size": 64, "resize": 64}
    vectors = bgbias.embed(model, SHOWN, out=tmp_path / "vectors.npy", **options)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(np.load(tmp_path / "vectors.npy"), vectors)
    labels = ["mug", "mug", "house"]
    ranked = bgbias.rank(SHOWN, labels, model=model, **options)
    pd.testing.assert_frame_equal(ranked.metrics, bgbias.rank(vectors, labels).metrics)
    masks = [array(MASKS[0], "L"), MASKS[1], None]
    scores = bgbias.attribute(model, SHOWN, masks, samples=2, **options)
    assert scores.attrs["how"] == how
    assert scores["skipped"].tolist() == ["", "", "no mask"]
    assert scores["ref"][:2].between(-1, 1).all()


def test_a_functions_attribution_lies_where_it_looks() -> None:
    """One that sees the object's pixels alone, and one that sees all others."""
    mask = array(MASKS[0], "L") > 127

    def attribute(seen: np.ndarray) -> float:
        def embed(batch: list[np.ndarray]) -> list[np.ndarray]:
            return [photo[seen].mean(0) for photo in batch]

        return float(bgbias.attribute(embed, SHOWN[:1], [mask], size=64, resize=64)["ref"][0])

    assert attribute(mask) > 0.3
    assert attribute(~mask) < 0


def test_a_network_that_pools_a_map_is_explained_by_it() -> None:
    explained = bgbias.explain(convolution(), SHOWN, size=64, resize=64)
    vectors = bgbias.embed(convolution(), SHOWN, size=64, resize=64)
    distances = np.linalg.norm(vectors[1:] - vectors[0], axis=1)
    np.testing.assert_allclose(explained.distances, distances, atol=1e-5)
    assert [attention.shape for attention in explained.maps] == [(64, 64)] * 3
    assert 0.5 < max(attention.max() for attention in explained.maps) <= 1


MISTAKES: list[tuple[Callable[[Any], object], str]] = [
    (lambda _: bgbias.load("nowhere.safetensors"), r"nowhere\.safetensors"),
    (lambda _: bgbias.load("timm:resnet50"), r"was given 'timm:resnet50'.*go into bgbias\.audit"),
    (lambda model: bgbias.embed(model, ["mug_0.png", "nowhere.png"]), r"photos\[1\]: .* is missing"),
    (lambda model: bgbias.embed(model, [np.zeros((8, 8, 3))]), r"photos\[0\] is float64 \[8, 8, 3\]"),
    (lambda model: bgbias.embed(model, []), "no photos to embed"),
    (lambda model: bgbias.embed(model, "mug_0.png"), "put the one into a list"),
    (lambda _: bgbias.embed(lambda batch: np.ones(3), SHOWN[:2]), r"gave \[3\] for 2 photos"),
    (lambda _: bgbias.embed(lambda batch: np.zeros((len(batch), 3)), SHOWN), "zero or not finite"),
    (lambda _: bgbias.embed("model.safetensors", SHOWN, size=64), r"^(?!.*--).*size= means nothing to"),
    (lambda _: bgbias.embed(colours, SHOWN, batch_size=0), "batch_size= is 0; it is at least 1"),
    (lambda _: bgbias.embed(colours, SHOWN, out="vectors.txt"), "embeddings are saved as .npy"),
    (
        lambda _: bgbias.corrupt("mug_0.png", np.zeros((40, 64), np.uint8), "scene_0.png", "mug"),
        r"mask is uint8 \[40, 64\], not uint8 or bool \[64, 64\]",
    ),
    (lambda _: bgbias.corrupt("mug_0.png", "mug_0_mask.png", [], "mug"), "no background"),
    (lambda _: bgbias.corrupt(SHOWN, MASKS[:2], "scene_0.png", SHOWN), "3 photos, 2 masks and 3 keys"),
    (lambda _: bgbias.rank(np.array([[2.0, 0]], np.float32), ["a"]), "length 2, .*Divide each vector"),
    (lambda _: bgbias.rank(np.eye(2), ["a", "b"], np.eye(2)), "gallery comes with its labels"),
    (lambda _: bgbias.rank(np.eye(2, dtype=np.float32), ["a", "b"], size=3), "give model=, too"),
    (lambda _: bgbias.rank(SHOWN, [0, 1, 1], model=colours, device="cpu"), "chooses its device itself"),
    (lambda _: bgbias.rank(np.eye(2), ["a"]), r"queries \[2, 2\] and labels \[1\]"),
    (lambda _: bgbias.rank(np.eye(2), ["a", "b"], np.eye(3), [*"abc"]), "2 numbers each, the gallery 3"),
    (lambda model: bgbias.attribute(model, SHOWN, [None]), "3 photos, 1 masks and 3 names"),
    (lambda model: bgbias.attribute(model, [], []), "no photos to attribute"),
    (lambda model: bgbias.explain(model, SHOWN[:1]), "two, three or four photos, not 1"),
    (
        lambda _: bgbias.explain(colours, SHOWN[:2], size=64),
        r"colours has no feature map .*What is possible: bgbias.attribute",
    ),
    (lambda _: bgbias.explain(torch.nn.Flatten(), SHOWN[:2], size=64), "it pools tokens"),
]


@pytest.mark.parametrize(("mistake", "words"), MISTAKES)
def test_mistakes_are_named(model: bgbias.Embedder, mistake: Callable[[Any], object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        mistake(model)


def test_missing_options_are_guessed_and_unknown_ones_are_errors(capfd: pytest.CaptureFixture[str]) -> None:
    bgbias.embed(convolution(), SHOWN, size=64, mean=(0.5,) * 3)
    assert "assumed: ImageNet's std" in capfd.readouterr().err
    with pytest.raises(TypeError, match="unexpected argument sizes; there are weights, size"):
        bgbias.embed(colours, SHOWN, sizes=3)


WITHOUT_TOOLS = """
import sys

sys.modules |= dict.fromkeys(("snakemake", "dvc", "mlflow", "alembic", "sqlalchemy"))

from bgbias.cli import main
for words in ("--help", "explain model.safetensors mug_0.png mug_1.png", "resume --params PARAMS"):
    sys.argv = ["bgbias", *words.split()]
    try:
        main()
    except SystemExit as ended:
        print(words.split()[0], ended.code)
"""


def test_the_core_needs_neither_snakemake_nor_dvc_nor_mlflow() -> None:
    """And what does need them says how to get them."""
    code = WITHOUT_TOOLS.replace("PARAMS", str(ROOT / "params.yaml"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {"--help 0", "explain 0", "resume 2"} <= set(done.stdout.splitlines())
    assert Path("explanation.png").stat().st_size > 1000
    assert "this needs snakemake, which is not installed: pip install 'bgbias[workflow]'" in done.stderr
    assert "Traceback" not in done.stderr
