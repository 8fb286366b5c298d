"""A model goes its whole way past photos that are broken, alone or without a mask; each one is counted."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch
from backbone_models import fold, make, unsettle
from safetensors.torch import save_file
from small_study import data_nodes, load, options, record, run
from torch import nn
from torchvision.models import mobilenet_v2

from bgbias.cli import nodes
from bgbias.engine import freshness
from bgbias.engine.node import step
from bgbias.errors import UserError
from bgbias.evaluation import embeddings
from bgbias.nodes import attribute, index, score, train
from bgbias.nodes._models import fresh_model
from bgbias.study.cell import Cell
from bgbias.training import loop

pytestmark = pytest.mark.usefixtures("small_plugins")
PLAIN = Cell("squares", "pixels", "contrastive", "plain", 0)


def test_a_model_goes_the_whole_way_past_spoilt_photos(tmp_path: Path, raw: dict[str, Any]) -> None:
    spoilt = options(
        raw,
        truncated=["00/1.png", "12/4.png"],
        without_mask=["01/0.png", "12/0.png"],
        empty_mask=["01/1.png", "13/2.png"],
        lonely=[2, 14],
    )
    study, cell = load(tmp_path, spoilt), replace(PLAIN, method="bgaugment")
    data_nodes(study)
    run(study, cell, "train", "embed", "score", "attribute")
    # Of the training photos one has no mask and one an empty one.
    noted = record(study, "train_record", **cell.wildcards)["notes"]
    assert noted["photos_without_trusted_mask"] == 2

    found = embeddings.read(study.files.at("embeddings", **cell.wildcards))
    assert len(found.ids) == 4 * 5 - 1 - 4
    assert [i for i, ok in zip(found.ids, found.usable, strict=True) if not ok] == ["12/0.png", "13/2.png"]
    for vectors in found.views.values():
        for place in np.flatnonzero(~found.usable):  # keeps its background: the same picture in every draw
            assert np.allclose(vectors[place], found.views["clean", 0][place], atol=1e-5)
    metrics = record(study, "score_record", **cell.wildcards)["metrics"]
    assert [metrics[n] for n in ("queries", "queries_left_out", "queries_with_nobody_to_find")] == [12, 2, 1]

    queries = pd.read_parquet(study.files.at("queries", **cell.wildcards))
    assert not {"12/0.png", "13/2.png"} & set(queries["image_id"])
    clean = queries[queries["condition"] == "clean"]
    alone = clean["image_id"] == "14/0.png"
    assert clean.loc[alone, "map_at_r"].isna().all()  # nothing could be found
    assert clean.loc[~alone, "map_at_r"].notna().all()
    scores = pd.read_csv(study.files.at("scores", **cell.wildcards))
    # Recall counts a query with nobody to find as a miss, the other metrics skip it.
    recall = scores["metric"].str.startswith("recall")
    assert (set(scores.loc[recall, "n"]), set(scores.loc[~recall, "n"])) == ({13}, {12})

    mean = scores.query("condition == 'clean' and metric == 'map_at_r'")["value"].item()
    assert mean == pytest.approx(clean.loc[~alone, "map_at_r"].mean(), abs=1e-12)
    attributed = pd.read_csv(study.files.at("attribution", **cell.wildcards))
    assert attributed.groupby("variant").size().to_dict() == {"ref": 3, "robust": 3}
    assert attributed["score"].isna().equals(attributed["skipped"].notna())


def test_photos_without_a_query_or_a_pair_are_an_error_in_words(tmp_path: Path, raw: dict[str, Any]) -> None:
    cell = Cell("squares", "pixels", "none", "pretrained", 0)
    data_nodes(load(tmp_path, raw))
    study = load(tmp_path, raw | {"mask_policy": {"min_area": 0.98, "max_area": 0.99}})
    run(study, cell, "embed")
    words = "none of the 20 test photos of 4 classes is a query: 20 have no trusted mask"
    with pytest.raises(UserError, match=words):
        run(study, cell, "score")
    study = load(tmp_path, options(raw, lonely=[8, 9, 10, 11]))
    index.index(study, "squares")
    with pytest.raises(UserError, match="No validation photo has another one of its class"):
        train.train(study, PLAIN, "cpu")


def test_a_random_layer_is_what_a_seeds_training_starts_from(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, raw)
    cells = [PLAIN, replace(PLAIN, loss="none", method="untrained")]
    for cell in cells:
        layers = [fresh_model(study, replace(cell, seed=seed)).embedder.weight for seed in (0, 1)]
        assert not torch.allclose(*layers)
        assert torch.equal(layers[0], fresh_model(study, cells[0]).embedder.weight)


def test_robust_scores_know_true_objects_and_the_papers_masks(tmp_path: Path, raw: dict[str, Any]) -> None:
    """The dataset has true masks: a masker that finds something else is nothing to the one, and all to the other."""
    raw["maskers"] |= {"red": {"kind": "red"}}
    raw["attribution"] |= {"images": 8}
    found = {}
    for masker in ("ground_truth", "red"):
        raw["datasets"]["squares"]["masker"] = masker
        study = load(tmp_path, raw)
        data_nodes(study)
        run(study, PLAIN, "train", "attribute")
        scores = pd.read_csv(study.files.at("attribution", **PLAIN.wildcards))
        assert scores["label"].tolist() == [int(i.split("/")[0]) for i in scores["image_id"]]
        found[masker] = scores.pivot(index="image_id", columns="variant", values=["score", "mask_fraction"])
    true, red = found["ground_truth"], found["red"]
    assert true.notna().all(axis=None)
    for name in ("score", "mask_fraction"):
        assert red[name, "robust"].equals(true[name, "robust"])
        assert not np.isclose(red[name, "ref"], true[name, "ref"], rtol=1e-6).any()


def test_a_missing_input_says_what_makes_it_if_anything_does(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, raw)
    data_nodes(study)
    words = r"needs .*\(model\), which is missing; `snakemake .* grid=small` makes it"
    with pytest.raises(UserError, match=words):
        attribute.attribute(study, PLAIN, "cpu")
    with pytest.raises(UserError, match=r"seed7 is no cell of the grid \w+, so that .* grids\.\w+\.cells"):
        attribute.attribute(study, replace(PLAIN, seed=7), "cpu")


def test_norms_are_unfolded_for_whatever_lets_them_learn(
    tmp_path: Path, raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights may come with batch norms that were folded into convolutions."""
    net = make("mobilenet_v2")
    unsettle(net)
    fold(net.eval())
    whole = mobilenet_v2().state_dict() | {f"features.{k}": v for k, v in net.trunk.state_dict().items()}
    save_file(whole, tmp_path / "folded.safetensors")
    options(raw, train_classes=2, val_classes=1, test_classes=2, photos=4)
    raw["backbones"]["mobilenet_v2"] = {"weights": str(tmp_path / "folded.safetensors")}
    raw["train"]["freeze_batch_norm"] = True
    raw["grids"]["small"]["cells"][0] |= {"backbones": ["mobilenet_v2"], "methods": ["own"]}
    raw["methods"] = {"own": {"kind": "plain"}}
    data_nodes(load(tmp_path, raw))
    began: list[Any] = []

    def fit(method: Any, *_: Any) -> None:
        began.append(method)
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "fit", fit)
    for method, learns in (
        ({"kind": "plain"}, False),
        ({"kind": "mdprop"}, True),
        ({"kind": "mdprop", "batch_norm": "frozen"}, False),
        ({"kind": "s2sd", "method": "plain", "options": {"batch_norm": "trained"}}, True),
    ):
        study = load(tmp_path, raw | {"methods": {"own": method}})
        with pytest.raises(KeyboardInterrupt):
            train.train(study, Cell("squares", "mobilenet_v2", "contrastive", "own", 0), "cpu")
        modules = [m for module in began[-1].modules().values() for m in module.modules()]
        norms = [m for m in modules if isinstance(m, nn.BatchNorm2d)]
        assert len(norms) >= 52
        assert all(bool((norm.running_var == 1).all()) != learns for norm in norms)


def test_what_a_failed_job_had_set_aside_is_out_of_date_until_all_of_it_is_done(
    tmp_path: Path, raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw["grids"]["small"]["cells"][0] |= {"losses": ["contrastive"], "methods": ["plain"]}
    study, embed = load(tmp_path, raw), step("embed", cell=PLAIN)

    def evaluate() -> None:
        parts = PLAIN.wildcards | {"seed": "0"}
        nodes._evaluate(None, tmp_path / "params.yaml", None, "cpu", False, **parts)

    data_nodes(study)
    run(study, PLAIN, "train")
    evaluate()
    file, made = embed.file(study, "embeddings"), embed.record(study)
    file.unlink()
    freshness.settle(study)
    with monkeypatch.context() as patched:
        patched.setattr(score, "score", Mock(side_effect=UserError("no")))
        with pytest.raises(UserError):
            evaluate()
    # So does Snakemake with what a job that failed has made anew.
    file.unlink()
    made.unlink()
    states = {found.node.name: found.state for found in freshness.settle(study)}
    assert (states["embed"], states["score"]) == ("stale", "behind")
    evaluate()
    assert file.exists()
    freshness.settle(study)
    assert not list(tmp_path.rglob("*.stale"))
