"""What maps show of photos: explanations of them, and what their scores are worth."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from commands import bgbias
from fitting import model
from PIL import Image
from rankings import unit
from scipy.ndimage import convolve
from small_study import data_nodes, described, load, options, record, run
from torch import nn

from bgbias import plugins, seeds
from bgbias.attribution import sanity as checks
from bgbias.attribution.explanation import explain
from bgbias.attribution.sanity import LEVELS, randomise
from bgbias.engine import graph
from bgbias.errors import UserError
from bgbias.models.model import build_model, save
from bgbias.nodes import sanity
from bgbias.report.sheets import figure_explanation
from bgbias.study.cell import Cell

pytestmark = pytest.mark.usefixtures("small_plugins")


def photo(number: int, height: int = 50, width: int = 40) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("count", [2, 4])
def test_photos_are_shown_as_the_model_saw_them_with_its_distances(count: int) -> None:
    made, photos = model().eval(), [photo(i, 60 + i, 50) for i in range(count)]
    found = explain(made, photos)
    assert len(found.photos) == len(found.maps) == len(found.roles) == count
    views = torch.from_numpy(np.stack(found.photos)).permute(0, 3, 1, 2)
    with torch.no_grad():
        z = made(made.preprocess(views))
    distances = [float((z[i] - z[0]).norm()) for i in range(1, count)]
    assert found.distances == pytest.approx(distances, abs=1e-5)
    titles = [title for axes in figure_explanation(found).axes if (title := axes.get_title())]
    assert titles[0] == found.roles[0]
    assert titles[1:] == [f"{role}, {d:.2f} away" for role, d in zip(found.roles[1:], distances, strict=True)]


def test_only_what_the_neck_lets_through_counts() -> None:
    """Where nothing counts, the figure says so instead of showing noise."""
    for columns in (3, 0):
        made = model().eval()
        # The first columns of seven pass, and zeros stand in the place of the others.
        others = 7 - columns
        made.neck = nn.Sequential(nn.ZeroPad2d((0, -others, 0, 0)), nn.ZeroPad2d((0, others, 0, 0)))
        found = explain(made, [photo(0), photo(1)])
        assert all(attention[:, 20:].max() == 0 for attention in found.maps)
        assert all(attention.any() == bool(columns) for attention in found.maps)
    words = [t.get_text() for axes in figure_explanation(found).axes for t in axes.texts]
    assert words.count("no place counts") == 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three photos and a model."""
    for number, name in enumerate("abc"):
        Image.fromarray(photo(number)).save(tmp_path / f"{name}.png")
    save(model(), tmp_path / "model.safetensors")
    return tmp_path


def test_command_writes_a_figure(folder: Path) -> None:
    words = ("a.png", "b.png", "c.png", "--out", "made/three.PDF", "--device", "cpu")
    told = bgbias(folder, "explain", "model.safetensors", *words)
    assert (told.returncode, told.stdout) == (0, "made/three.PDF\n")
    assert (folder / "made/three.PDF").read_bytes().startswith(b"%PDF")
    # What maps cannot show is said, with the command that measures it.
    assert "not what would be found on another background" in told.stderr
    assert "bgbias audit PHOTOS --model model.safetensors" in told.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("a.png", "z.png"), "the picture z.png is missing"),
        (("a.png", "b.png", "c.png", "--different"), "give two, not 3"),
        (("a.png", "b.png", "--out", "figure.jpg"), "a .png or a .pdf, not 'figure.jpg'"),
    ],
)
def test_mistakes_are_told_in_plain_words(folder: Path, words: tuple[str, ...], told: str) -> None:
    before = sorted(folder.iterdir())
    said = bgbias(folder, "explain", "model.safetensors", *words)
    assert (said.returncode, "Traceback" in said.stderr) == (2, False)
    assert told in said.stderr
    assert sorted(folder.iterdir()) == before


# What scores are worth.

PLAIN = Cell("squares", "pixels", "contrastive", "plain", 0)


def test_networks_forget_from_the_top_down() -> None:
    params = plugins.load("backbones", "tiny").Params()
    network = build_model("tiny", params, 16, seeds.torch_generator("sanity"))
    before = {name: tensor.clone() for name, tensor in network.named_parameters()}
    trunk = [name for name in before if name.startswith("trunk.")]
    for level, share in LEVELS.items():
        after = dict(randomise(network, level).named_parameters())
        kept = trunk[: len(trunk) - round(share * len(trunk))]
        for name, tensor in before.items():
            # Permuted.
            assert torch.equal(*(each.flatten().sort().values for each in (after[name], tensor)))
            varied = tensor.unique().numel() > 4
            assert torch.equal(after[name], tensor) == (name in kept or not varied)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.named_parameters())
    assert torch.equal(randomise(network, "all").embedder.weight, randomise(network, "all").embedder.weight)


def test_maps_that_saw_no_photo() -> None:
    centre = checks.centre(65)
    assert (centre[32, 32], centre[0, 0]) == pytest.approx((1, 0))
    noise = checks.noise(64, ("set", "1"))
    assert (noise.min(), noise.max()) == pytest.approx((0, 1))
    assert not np.array_equal(noise, checks.noise(64, ("set", "2")))
    # Blobs and no dust: beside each other places are alike.
    assert np.abs(np.diff(noise)).max() < 0.2


def test_what_is_gone_is_the_weighted_mean_of_its_neighbours_all_at_once() -> None:
    values, gone = photo(0, 9, 9).astype(float), seeds.generator("gone").random((9, 9)) < 0.6
    filled = checks.impute(values, gone)
    assert np.array_equal(filled[~gone], values[~gone])
    weights = np.array([[1, 2, 1], [2, 0, 2], [1, 2, 1]])[..., None] / 12
    around = convolve(filled, weights, mode="constant") / convolve(
        np.ones((9, 9, 1)), weights, mode="constant"
    )
    np.testing.assert_allclose(filled[gone], around[gone], atol=1e-9)
    nothing = checks.impute(values, np.zeros((9, 9), bool))
    assert np.array_equal(nothing, values)
    assert not checks.impute(values, np.ones((9, 9), bool)).any()


def test_a_map_of_what_a_model_looks_at_is_faithful_and_its_opposite_is_not() -> None:
    """A model that sees the left half alone."""
    seen = photo(0, 32, 32)

    def embed(view: np.ndarray) -> np.ndarray:
        return unit((view[:, :16].astype(float) - 127.5).ravel())

    def measure(attribution: np.ndarray) -> float:
        views = checks.removals(seen, attribution, np.random.default_rng(1))
        return float(checks.area(np.array([embed(view) @ embed(seen) for view in views])))

    left = np.zeros((32, 32))
    left[:, :16] = 1 + np.random.default_rng(0).random((32, 16))
    assert measure(left) > 0.4
    assert measure(left[:, ::-1]) == pytest.approx(-measure(left), abs=0.1)


def test_a_model_is_doubted_and_asked_by_similarity(tmp_path: Path) -> None:
    raw: dict[str, Any] = described(tmp_path)
    usual = graph.spec(load(tmp_path, raw), "attribute", cell=PLAIN)
    assert "similarity" not in usual["attribution"]
    raw["attribution"]["similarity"] = "magnitude"
    with pytest.raises(UserError, match=r"doubts no scores; set grids\.small\.sanity\.images"):
        sanity.sanity(load(tmp_path, raw), PLAIN, "cpu")
    study = load(tmp_path, options(raw, lonely=[14]) | {"sanity": {"images": 2}})
    data_nodes(study)
    run(study, PLAIN, "train", "attribute", "sanity")
    files = study.files
    attributed = pd.read_csv(files.at("attribution", **PLAIN.wildcards))
    assert attributed.groupby("variant").size().to_dict() == {"ref": 3, "robust": 3, "similarity": 3}
    means = record(study, "attribute_record", **PLAIN.wildcards)["metrics"]
    by_similarity = attributed[attributed["variant"] == "similarity"]
    assert means["attribution_similarity"] == pytest.approx(by_similarity["score"].mean())
    found = pd.read_csv(files.at("sanity", **PLAIN.wildcards))
    kinds = ("model", *LEVELS, "centre", "noise")
    assert found.groupby("kind", sort=False).size().to_dict() == dict.fromkeys(kinds, 2)
    # The model's own score is the published one of these photos.
    published = attributed.query("variant == 'ref'").set_index("image_id")["score"]
    own = found[found["kind"] == "model"].set_index("image_id")["score"]
    np.testing.assert_allclose(own, published.reindex(own.index), rtol=1e-6)
    judged = found.dropna(subset="faithful")["kind"].unique().tolist()
    assert judged == ["model", "all", "centre", "noise"]
    untrusted = SimpleNamespace(usable=frozenset())
    assert sanity._faithful(study, None, untrusted, {"all": {"photo": None}}, "cpu").empty
    assert not found.loc[found["kind"] == "all", "score"].equals(found.loc[found["kind"] == "model", "score"])
