"""One run a model joins what its nodes found, and every run of a model names its photos, masks and backgrounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from handmade_records import CELL, MODEL, NAME, SCORE, TRAIN, Project, chain

from bgbias.errors import UserError
from bgbias.report import style
from bgbias.tracking import store, ui, watch
from bgbias.tracking.entries import Entry, page
from bgbias.tracking.watch import Records

CELL_KEY = f"demo/cell/{NAME}"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    chain(made)
    return made


def entries(project: Project) -> dict[str, Entry]:
    return Records([project.data], "demo").entries()


def test_a_models_results_stand_side_by_side(project: Project) -> None:
    trained = json.loads((project.data / f"runs/demo/models/{NAME}/run.json").read_text())["digest"]
    project.asked("segment", spec={"train": trained}, metrics={"iou_one_way_1": 0.5})
    joined = entries(project)[CELL_KEY]
    found = {"MAP at R clean": 60, "MAP at R corrupted": 45, "Drop percent": 25, "Score": 0.3}
    found |= {"Best validation MAP at R": 40, "iou_one_way_1": 0.5}
    assert joined.metrics.items() >= (found | {"seconds": 5 * 5.0, "peak_memory_mb": 900.0}).items()
    settings = {
        "train.lr": "0.0001",
        "loss.margin": "0.5",
        "evaluation.draws": "5",
        "attribution.samples": "25",
    }
    assert joined.params.items() >= (settings | {"node": "cell", "method": "bgaugment"}).items()
    assert (joined.name, joined.status) == (MODEL, "FINISHED")
    # Those of an earlier training are not joined.
    project.training(spec={"train": {"lr": 2e-4}}, metrics={"best_val_map_at_r": 0.41})
    metrics = entries(project)[CELL_KEY].metrics
    assert metrics["Best validation MAP at R"] == 41
    assert not {"MAP at R clean", "Score", "iou_one_way_1"} & metrics.keys()


def test_a_models_run_is_named_coloured_and_described_as_the_tables_are(project: Project) -> None:
    scores = project.data / f"runs/demo/scores/{NAME}/scores.csv"
    scores.write_text("metric,value\n")
    record = scores.with_name("score.json")
    told = json.loads(record.read_text())
    record.write_text(json.dumps(told | {"outputs": {str(scores): "6" * 64}}))
    project.sync()
    run = project.runs()[MODEL]
    assert run.info.run_name == "Contrastive + BGAugment, toy_090, seed 0 (small)"
    tags = run.data.tags
    assert tags["mlflow.runColor"] == style.colour("bgaugment") != style.colour("plain")
    lines = tags["mlflow.note.content"].splitlines()
    heads, values = ([cell.strip() for cell in lines[n].strip("|").split("|")] for n in (2, 4))
    assert dict(zip(heads, values, strict=True)) == {
        "MAP@R, other backgrounds, %": "45.0",
        "MAP@R, clean, %": "60.0",
        "drop, %": "25.0",
        "attribution score": "0.300",
        "minutes": "0.3",
    }
    assert [step for step, _ in project.curve(run, "epoch/loss")] == [1, 2, 3]
    # In the history 0.2, 0.35, 0.4.
    assert project.curve(run, "epoch/validation MAP at R") == [(1, 20), (2, 35), (3, 40)]
    with store.experiment(project.uri, "demo") as found:
        assert [file.path for file in found.client.list_artifacts(run.info.run_id)] == ["scores.csv"]


def test_a_description_follows_the_results_until_somebody_edits_it(project: Project) -> None:
    record = project.data / f"runs/demo/scores/{NAME}/score.json"
    whole = record.read_text()
    record.unlink()
    note = "mlflow.note.content"
    for text, is_there in ((None, False), (whole, True)):
        if text:
            record.write_text(text)
        project.sync()
        run = project.runs()[MODEL]
        assert ("| 45.0 |" in run.data.tags[note]) == is_there
    with store.experiment(project.uri, "demo") as found:
        found.client.set_tag(run.info.run_id, note, "mine")
        found.client.set_tag(run.info.run_id, "mlflow.runColor", "#123456")
    record.write_text(whole.replace("0.45", "0.46"))
    project.sync()
    data = project.runs()[MODEL].data
    assert data.metrics["MAP at R corrupted"] == 46
    assert (data.tags[note], data.tags["mlflow.runColor"]) == ("mine", "#123456")


def test_the_address_of_the_charts_is_of_the_grid_that_ran_last(project: Project) -> None:
    with pytest.raises(UserError, match="is missing; `make demo`"):
        ui.link(project.uri, None, "http://here")
    project.sync()
    later = project.data / "runs/later/models/run.json"
    later.parent.mkdir(parents=True)
    told = json.loads((project.data / f"runs/demo/models/{NAME}/run.json").read_text())
    later.write_text(json.dumps(told | {"grid": "later", "started": "2025-06-02T12:00:00+00:00"}))
    watch.sync([project.data], project.uri, "later")
    found = {}
    for grid in ("demo", "later"):
        with store.experiment(project.uri, grid) as experiment:
            found[grid] = f"http://here/{page(experiment.identity, 'compare')}"
    assert ui.link(project.uri, None, "http://here") == found["later"]
    assert ui.link(project.uri, "demo", "http://here") == found["demo"]
    with pytest.raises(UserError, match=r"no grid 'other' \(grids: demo, later\)"):
        ui.link(project.uri, "other", "http://here")


def test_segmentation_of_an_untrained_backbone_is_joined_if_backbone_and_photos_are_the_same(
    tmp_path: Path,
) -> None:
    project, name = Project(tmp_path), "toy_090/small/none/pretrained/seed0"
    cell = CELL | {"loss": "none", "method": "pretrained"}

    def record(node: str, spec: dict[str, object], **metrics: float) -> str:
        path = f"runs/demo/scores/{name}/{node}.json"
        made = project.record(path, node, name, cell=cell, spec=spec, metrics=metrics)
        return str(json.loads(made.read_text())["digest"])

    made_of = {"backbone": {"weights": "own", "width": 2}, "index": "ab" * 8}
    embedded = record("embed", made_of | {"evaluation": {"draws": 5}})
    record("score", {"embed": embedded}, map_at_r_clean=0.2)
    for change, joined in (({}, 0.5), ({"index": "cd" * 8}, None), ({"backbone": {"width": 2}}, None)):
        record("segment", made_of | change, iou_one_way_1=0.5)
        metrics = entries(project)[f"demo/cell/{name}"].metrics
        assert (metrics["MAP at R clean"], metrics.get("iou_one_way_1")) == (20, joined)


def test_every_run_of_a_model_names_its_photos_and_masks_with_counts_per_split(project: Project) -> None:
    project.sync()
    index = json.loads((project.data / "work/datasets/toy_090/index.json").read_text())
    runs = project.runs()
    (photos,) = runs[TRAIN].inputs.dataset_inputs
    assert (photos.dataset.name, photos.dataset.digest) == ("toy_090 photos", index["digest"])
    assert [(tag.key, tag.value) for tag in photos.tags] == [("mlflow.data.context", "training")]
    counts = {"photos_train": 20, "photos_test": 10, "classes": 6, "origin": "https://example.org/toys.zip"}
    assert json.loads(photos.dataset.profile).items() >= counts.items()
    # The score reads embeddings alone; what these were made of is found through the records.
    names = {i.dataset.name: i.tags[0].value for i in runs[SCORE].inputs.dataset_inputs}
    assert names == {"toy_090 photos": "evaluation", "toy_090/u2netp masks": "evaluation"}
