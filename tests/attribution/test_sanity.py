"""What a score is worth: networks forget from the top down, places are filled from around them, a faithful map is found so."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from small_study import data_nodes, described, load, options, record, run

from bgbias import seeds
from bgbias.attribution import sanity as checks
from bgbias.attribution.sanity import LEVELS, randomise
from bgbias.engine import graph
from bgbias.errors import UserError
from bgbias.models.model import build_model
from bgbias.nodes import sanity
from bgbias.plugins import load as plugin
from bgbias.study.cell import Cell

PLAIN = Cell("squares", "pixels", "contrastive", "plain", 0)


def picture(*shape: int) -> np.ndarray:
    return seeds.generator("sanity", shape).integers(0, 256, shape, dtype=np.uint8)


def test_networks_forget_from_the_top_down() -> None:
    params = plugin("backbones", "tiny").Params()
    model = build_model("tiny", params, 16, seeds.torch_generator("sanity"))
    before = {name: tensor.clone() for name, tensor in model.named_parameters()}
    trunk = [name for name in before if name.startswith("trunk.")]
    for level, share in LEVELS.items():
        after = dict(randomise(model, level).named_parameters())
        kept = trunk[: len(trunk) - round(share * len(trunk))]
        for name, tensor in before.items():
            assert torch.equal(
                after[name].flatten().sort().values, tensor.flatten().sort().values
            )  # permuted
            varied = tensor.unique().numel() > 4
            assert torch.equal(after[name], tensor) == (name in kept or not varied)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.named_parameters())
    assert torch.equal(randomise(model, "all").embedder.weight, randomise(model, "all").embedder.weight)


def test_maps_that_saw_no_photo() -> None:
    centre = checks.centre(65)
    assert (centre[32, 32], centre[0, 0]) == pytest.approx((1, 0))
    noise = checks.noise(64, ("set", "1"))
    assert (noise.min(), noise.max()) == pytest.approx((0, 1))
    assert not np.array_equal(noise, checks.noise(64, ("set", "2")))
    # Blobs and no dust: beside each other places are alike.
    assert np.abs(np.diff(noise)).max() < 0.2


def test_what_is_gone_is_the_weighted_mean_of_its_neighbours_all_at_once() -> None:
    values, gone = picture(9, 9, 3).astype(float), seeds.generator("gone").random((9, 9)) < 0.6
    filled = checks.impute(values, gone)
    assert np.array_equal(filled[~gone], values[~gone])
    for row, column in zip(*np.nonzero(gone), strict=True):
        total, weights = np.zeros(3), 0.0
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                beside = row + down, column + right
                if (down, right) != (0, 0) and min(beside) >= 0 and max(beside) < 9:
                    weight = 1 / 12 if down and right else 1 / 6
                    total, weights = total + weight * filled[beside], weights + weight
        np.testing.assert_allclose(filled[row, column], total / weights, atol=1e-9)
    nothing = checks.impute(values, np.zeros((9, 9), bool))
    assert np.array_equal(nothing, values)
    assert not checks.impute(values, np.ones((9, 9), bool)).any()


def test_a_map_of_what_a_model_looks_at_is_faithful_and_its_opposite_is_not() -> None:
    """A model that sees the left half alone."""
    photo = picture(32, 32, 3)

    def embedded(view: np.ndarray) -> np.ndarray:
        vector = (view[:, :16].astype(float) - 127.5).ravel()
        made: np.ndarray = vector / np.linalg.norm(vector)
        return made

    left = np.zeros((32, 32))
    left[:, :16] = 1 + np.random.default_rng(0).random((32, 16))
    found = {}
    for name, attribution in (("left", left), ("right", left[:, ::-1])):
        views = checks.removals(photo, attribution, np.random.default_rng(1))
        kept = np.array([embedded(view) @ embedded(photo) for view in views])
        found[name] = checks.area(kept)
    assert found["left"] > 0.4
    assert found["right"] == pytest.approx(-found["left"], abs=0.1)


def test_a_model_is_doubted_and_asked_by_similarity(tmp_path: Path, small_plugins: None) -> None:
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
    assert not found.loc[found["kind"] == "all", "score"].equals(found.loc[found["kind"] == "model", "score"])
