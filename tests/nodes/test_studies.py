"""Whole studies: of probes that are fitted on training photos, and of photos that say who is asked among whom."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from miniatures import STL10_COUNTS, as_folder, as_tar, stl10_files
from sklearn.metrics import average_precision_score
from small_study import load, run

from bgbias import seeds
from bgbias.datasets import stl10
from bgbias.engine import freshness, graph
from bgbias.engine.checks import check_step
from bgbias.engine.node import step
from bgbias.errors import UserError
from bgbias.evaluation import embeddings
from bgbias.images import pixels
from bgbias.nodes import backgrounds, collect, fetch, index, masks, pretrain, probe, remask, table
from bgbias.report import formats, tables
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")

# STL-10, from its archive to accuracies, and a set that is asked about by models of another dataset.

CELL = Cell("stl", "learned", "none", "pretrained", 0)


@pytest.fixture
def fitted(tmp_path: Path, raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(stl10, "COUNTS", STL10_COUNTS)
    source = str(as_tar(tmp_path / "stl10_binary.tar.gz", stl10_files()))
    like = {"kind": "stl10", "masker": "ground_truth", "backgrounds": "noise"}
    raw["maskers"]["ground_truth"] = {"kind": "red"}
    raw["datasets"] = {
        "stl": like | {"fit_probes_on": "stl", "probe_photos": 25, "options": {"source": source}},
        "again": like | {"fit_probes_on": "stl", "options": {"source": source}},
        "bare": like | {"options": {"source": source, "photos": "unlabelled"}},
    }
    quick = {"epochs": 1, "batch_size": 8, "dim": 8, "hidden": 8, "queue": 16}
    raw["pretrainings"] = {"moco": {"kind": "moco_v2", "dataset": "bare", "negatives": "patches", **quick}}
    raw["backbones"]["learned"] = {"kind": "pixels", "pretraining": "moco"}
    cells = {"datasets": ["stl", "again"], "backbones": ["learned"], "pretrained": True, "seeds": [0]}
    raw["grids"]["small"]["cells"] = [cells]
    return raw | {"probes": {"folds": 3}, "mask_policy": {"keep_all": True}}


def test_from_photos_without_labels_to_the_official_test(tmp_path: Path, fitted: dict[str, Any]) -> None:
    study = load(tmp_path, fitted)
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


def test_models_of_one_network_see_training_photos_once(tmp_path: Path, fitted: dict[str, Any]) -> None:
    study = load(tmp_path, fitted)

    def readers(small: Study, cell: Cell) -> set[str]:
        read = graph.reads_from(small, step("probe", cell=cell))
        return {node.subject_name for node in read if node.name == "embed_training"}

    again = replace(CELL, dataset="again")
    assert readers(study, CELL) == readers(study, again) == {CELL.name}
    assert set(plan.list_datasets(study, again)) == {"again", "bare", "stl"}
    # Under an embedding layer, or with random weights, of its own.
    for own in (replace(again, method="untrained"), replace(again, backbone="pixels")):
        assert readers(study, own) == {own.name}
    fitted["datasets"]["again"]["fit_probes_on"] = None
    assert readers(load(tmp_path, fitted), again) == set()


def test_classes_without_training_photos_are_refused(tmp_path: Path, fitted: dict[str, Any]) -> None:
    fitted["datasets"]["again"]["fit_probes_on"] = fitted["datasets"]["bare"]["fit_probes_on"] = "bare"
    small = load(tmp_path, fitted)
    for dataset in ("again", "bare"):
        fetch.fetch(small, dataset, "photos")
        index.index(small, dataset)
    with pytest.raises(UserError, match=r"bare has no training photos of 10 classes of again's.*'airplane'"):
        check_step(small, step("probe", cell=replace(CELL, dataset="again")))


def test_a_dataset_without_photos_for_a_step_is_refused(fitted: dict[str, Any], tmp_path: Path) -> None:
    def refusal(dataset: str, **more: Any) -> str:
        fitted["grids"]["small"]["cells"] = [{"datasets": [dataset], "backbones": ["learned"], **more}]
        small = load(tmp_path, fitted)
        try:
            for node in freshness.to_run(small):
                check_step(small, node)
        except UserError as error:
            return str(error)
        return ""

    trained = {"losses": ["contrastive"], "methods": ["plain"], "seeds": [0]}
    untrained = {"pretrained": True, "seeds": [0]}
    # No labelled photo of STL-10 validates unless an option says how many do; a fold's are taken from those that train.
    assert refusal("stl", **trained).startswith("stl has no photos to validate with. ")
    assert refusal("stl", **trained, folds=[1]) == ""
    assert refusal("bare", **untrained).startswith("bare has no photos to ask about. ")
    assert refusal("stl", **untrained) == ""
    fitted["datasets"]["stl"]["options"]["val_per_class"] = 1
    assert refusal("stl", **trained) == ""
    own = {"kind": "imagenet_r", "options": {"source": None}}
    fitted["datasets"]["renditions"] = fitted["datasets"]["again"] | own
    assert refusal("renditions", **trained).startswith("renditions has no photos to train on. ")
    fitted["pretrainings"]["moco"]["dataset"] = "renditions"
    words = r"^renditions has no photos to learn from without labels\. .*another dataset for pretrainings\.moco\.dataset in "
    assert re.match(words, refusal("stl", **untrained))


# Photos of persons, from their table to mAP, with controls and cures.

SPLITS = {"train": 4, "val": 3, "test": 6}
CAMERAS = ("left", "right", "right", "left")
PERSONS = Cell("persons", "pixels", "contrastive", "plain", 0)


@pytest.fixture
def persons(tmp_path: Path, raw: dict[str, Any]) -> dict[str, Any]:
    """A study of persons whose first photo is asked for, each seen by two cameras."""
    random, lines, mask = np.random.default_rng(0), [], np.zeros((40, 40), np.uint8)
    mask[10:30, 12:28] = 255
    files = {"mask.png": pixels.encode_png(mask)}
    for split, person in [(split, person) for split, count in SPLITS.items() for person in range(count)]:
        for number, camera in enumerate(CAMERAS):
            name, asked = f"{split}{person}_{number}.png", split != "test" or number == 0
            files[name] = pixels.encode_png(random.integers(0, 256, (40, 40, 3), dtype=np.uint8))
            lines.append([name, f"{split}{person}", split, "mask.png", asked, True, camera])
    folder = as_folder(tmp_path / "photos", files)
    columns = ["image", "label", "split", "mask", "query", "gallery", "camera"]
    pd.DataFrame(lines, columns=columns).to_csv(folder / "persons.csv", index=False)
    options = {"source": f"{folder}/persons.csv", "masks": True, "given": True}
    raw["datasets"]["persons"] = raw["datasets"]["squares"] | {"kind": "table", "options": options}
    block = {"datasets": ["persons"], "losses": ["contrastive"], "methods": ["plain"], "pretrained": True}
    raw["grids"]["small"]["cells"][0] |= block
    controls = ["own_inpainted", "mixed_same", "mixed_rand", "only_bg"]
    raw["evaluation"] = {"draws": 2, "conditions": ["clean", "random_background", *controls]}
    raw["crossing"] = {"objects": 4, "backgrounds": 3}
    raw["cures"] = {"names": ["leace"], "objects": 6, "backgrounds": 3}
    return raw


def test_map_is_that_of_its_embeddings_query_by_query(tmp_path: Path, persons: dict[str, Any]) -> None:
    study = load(tmp_path, persons)
    for part in ("table", "photos"):
        fetch.fetch(study, "persons", part)
    index.index(study, "persons")
    masks.masks(study, "persons")
    backgrounds.backgrounds(study, "noise")
    remask.remask(study, "persons", "pixels")
    for cell in plan.cells(study):
        trained = cell.method == "plain"
        run(study, cell, *(["train", "attribute"] if trained else []), "embed", "score", "cross", "cure")
    collect.collect(study)
    found = embeddings.read(study.files.at("embeddings", **PERSONS.wildcards))
    vectors, labels = found.views["clean", 0].astype(np.float64), found.labels
    camera = np.array([CAMERAS[int(i.partition("_")[2][0])] for i in found.ids])
    naive = []
    for row in np.flatnonzero([i.endswith("_0.png") for i in found.ids]):
        kept = (labels != labels[row]) | (camera != camera[row])
        naive.append(average_precision_score(labels[kept] == labels[row], vectors[kept] @ vectors[row]))
    shown = {}
    for name in tables.list_enabled(study):
        table.table(study, name)
        shown[name] = formats.read(study.files.at("table_csv", table=name))
        # Controls and cures ask the same queries.
        assert set(shown[name].get("queries", [SPLITS["test"]])) == {SPLITS["test"]}
    by_method = shown["table11"].set_index("method")
    assert by_method.loc["plain", "queries"] == SPLITS["test"] == len(naive)
    assert by_method.loc["plain", "map"] == pytest.approx(100 * np.mean(naive))
    assert set(by_method.index) == {"plain", "pretrained", "untrained"}
    crossed = pd.read_parquet(study.files.at("crossed_queries", **PERSONS.wildcards))
    assert crossed["image_id"].str.endswith("_0.png").all()


def test_what_knows_no_cameras_is_refused(tmp_path: Path, persons: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"by the same camera\. Set grids\.small\.probes\.folds to null"):
        plan.checked_cells(load(tmp_path, persons | {"probes": {"folds": 3}}))
    persons["grids"]["small"]["cells"][0]["datasets"] = ["persons", "squares"]
    with pytest.raises(UserError, match="persons say who is asked among whom, and the others do not"):
        plan.checked_cells(load(tmp_path, persons))
