"""Probes that are fitted on training photos: STL-10, from its archive to accuracies, and sets that are asked about by models of
another dataset.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from miniatures import STL10_COUNTS, as_tar, stl10_files
from small_study import described, load, run

from bgbias import seeds
from bgbias.datasets import stl10
from bgbias.engine import freshness, graph
from bgbias.engine.checks import check_step
from bgbias.engine.node import step
from bgbias.errors import UserError
from bgbias.evaluation import embeddings
from bgbias.nodes import backgrounds, fetch, index, masks, pretrain, probe
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")
CELL = Cell("stl", "learned", "none", "pretrained", 0)


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(stl10, "COUNTS", STL10_COUNTS)
    made = described(tmp_path)
    source = str(as_tar(tmp_path / "stl10_binary.tar.gz", stl10_files()))
    like = {"kind": "stl10", "masker": "ground_truth", "backgrounds": "noise"}
    made["maskers"]["ground_truth"] = {"kind": "red"}
    made["datasets"] = {
        "stl": like | {"fit_probes_on": "stl", "probe_photos": 25, "options": {"source": source}},
        "again": like | {"fit_probes_on": "stl", "options": {"source": source}},
        "bare": like | {"options": {"source": source, "photos": "unlabelled"}},
    }
    quick = {"epochs": 1, "batch_size": 8, "dim": 8, "hidden": 8, "queue": 16}
    made["pretrainings"] = {"moco": {"kind": "moco_v2", "dataset": "bare", "negatives": "patches", **quick}}
    made["backbones"]["learned"] = {"kind": "pixels", "pretraining": "moco"}
    cells = {"datasets": ["stl", "again"], "backbones": ["learned"], "pretrained": True, "seeds": [0]}
    made["grids"]["small"]["cells"] = [cells]
    made["probes"] = {"folds": 3}
    made["mask_policy"] = {"keep_all": True}
    return made


def test_from_photos_without_labels_to_the_official_test(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, raw)
    plan.checked_cells(study)
    for dataset in ("stl", "bare"):
        fetch.fetch(study, dataset, "photos")
        index.index(study, dataset)
    masks.masks(study, "stl", "ground_truth", "cpu")
    backgrounds.backgrounds(study, "noise")
    pretrain.pretrain(study, "learned", "bare", "0", "cpu")
    run(study, CELL, "embed", "embed_training")
    probe.probe(study, CELL)
    found = pd.read_parquet(study.files.at("probed", **CELL.wildcards))
    assert set(found["image_id"]) == {f"test/{n:05d}.png" for n in range(20)}
    # A class has a grey of its own, and these are its photos: who is nearest is of it.
    clean = found[found["condition"] == "clean"].set_index("image_id")["nearest"]
    training = embeddings.read(study.files.at("training_embeddings", **CELL.wildcards))
    drawn = sorted(range(30), key=lambda n: seeds.number(seeds.key("probe", "stl10|train", str(n))))
    assert set(training.ids) == {f"train/{n:05d}.png" for n in drawn[:25]}
    assert clean.mean() > 0.3


def test_models_of_one_network_see_training_photos_once(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, raw)

    def readers(small: Study, cell: Cell) -> set[str]:
        read = graph.reads_from(small, step("probe", cell=cell))
        return {node.subject_name for node in read if node.name == "embed_training"}

    again = replace(CELL, dataset="again")
    assert readers(study, CELL) == readers(study, again) == {CELL.name}
    assert set(plan.list_datasets(study, again)) == {"again", "bare", "stl"}
    # Under an embedding layer, or with random weights, of its own.
    for own in (replace(again, method="untrained"), replace(again, backbone="pixels")):
        assert readers(study, own) == {own.name}
    raw["datasets"]["again"]["fit_probes_on"] = None
    assert readers(load(tmp_path, raw), again) == set()


def test_classes_without_training_photos_are_refused(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["datasets"]["again"]["fit_probes_on"] = raw["datasets"]["bare"]["fit_probes_on"] = "bare"
    small = load(tmp_path, raw)
    for dataset in ("again", "bare"):
        fetch.fetch(small, dataset, "photos")
        index.index(small, dataset)
    with pytest.raises(UserError, match=r"bare has no training photos of 10 classes of again's.*'airplane'"):
        check_step(small, step("probe", cell=replace(CELL, dataset="again")))


def test_a_dataset_without_photos_for_a_step_is_refused(raw: dict[str, Any], tmp_path: Path) -> None:
    def refusal(dataset: str, **more: Any) -> str:
        raw["grids"]["small"]["cells"] = [{"datasets": [dataset], "backbones": ["learned"], **more}]
        small = load(tmp_path, raw)
        try:
            for node in freshness.to_run(small):
                check_step(small, node)
        except UserError as error:
            return str(error)
        return ""

    trained = {"losses": ["contrastive"], "methods": ["plain"], "seeds": [0]}
    untrained = {"pretrained": True, "seeds": [0]}
    # No labelled photo of STL-10 validates unless an option says how many do; a fold's are taken from those that train.
    said = refusal("stl", **trained)
    assert said.startswith("stl has no photos to validate with. ")
    assert "docs/data.md" in said
    assert refusal("stl", **trained, folds=[1]) == ""
    assert refusal("bare", **untrained).startswith("bare has no photos to ask about. ")
    assert refusal("stl", **untrained) == ""
    raw["datasets"]["stl"]["options"]["val_per_class"] = 1
    assert refusal("stl", **trained) == ""
    own = {"kind": "imagenet_r", "options": {"source": None}}
    raw["datasets"]["renditions"] = raw["datasets"]["again"] | own
    assert refusal("renditions", **trained).startswith("renditions has no photos to train on. ")
    raw["pretrainings"]["moco"]["dataset"] = "renditions"
    said = refusal("stl", **untrained)
    assert said.startswith("renditions has no photos to learn from without labels. ")
    assert "Choose another dataset for pretrainings.moco.dataset in " in said
