"""Records and histories as entries: one run a model joins what its nodes found and names its photos and masks; what is skipped,
and what is told of stores that do not take them.
"""

import json
import logging
import platform

import pytest
from handmade_records import CELL, MODEL, NAME, SCORE, TRAIN, Project
from web import serving

from bgbias.errors import UserError
from bgbias.report import style
from bgbias.tracking import store, ui, watch
from bgbias.tracking.entries import Entry, page
from bgbias.tracking.watch import Records

CELL_KEY = f"demo/cell/{NAME}"
NOTE = "mlflow.note.content"


def entries(project: Project) -> dict[str, Entry]:
    return Records([project.data], "demo").entries()


def test_a_models_results_stand_side_by_side(chained: Project) -> None:
    trained = json.loads((chained.data / f"runs/demo/models/{NAME}/run.json").read_text())["digest"]
    chained.asked("segment", spec={"train": trained}, metrics={"iou_one_way_1": 0.5})
    joined = entries(chained)[CELL_KEY]
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
    chained.training(spec={"train": {"lr": 2e-4}}, metrics={"best_val_map_at_r": 0.41})
    metrics = entries(chained)[CELL_KEY].metrics
    assert metrics["Best validation MAP at R"] == 41
    assert not {"MAP at R clean", "Score", "iou_one_way_1"} & metrics.keys()


def test_a_models_run_is_named_coloured_and_described_as_the_tables_are_until_somebody_edits_it(
    chained: Project,
) -> None:
    scores = chained.data / f"runs/demo/scores/{NAME}/scores.csv"
    scores.write_text("metric,value\n")
    record = scores.with_name("score.json")
    whole = json.loads(record.read_text()) | {"outputs": {str(scores): "6" * 64}}
    record.unlink()
    chained.sync()
    assert "| 45.0 |" not in chained.runs()[MODEL].data.tags[NOTE]
    record.write_text(json.dumps(whole))
    chained.sync()
    run = chained.runs()[MODEL]
    assert run.info.run_name == "Contrastive + BGAugment, toy_090, seed 0 (small)"
    assert run.data.tags["mlflow.runColor"] == style.colour("bgaugment") != style.colour("plain")
    lines = run.data.tags[NOTE].splitlines()
    heads, values = ([cell.strip() for cell in lines[n].strip("|").split("|")] for n in (2, 4))
    assert dict(zip(heads, values, strict=True)) == {
        "MAP@R, other backgrounds, %": "45.0",
        "MAP@R, clean, %": "60.0",
        "drop, %": "25.0",
        "attribution score": "0.300",
        "minutes": "0.3",
    }
    assert [step for step, _ in chained.curve(run, "epoch/loss")] == [1, 2, 3]
    # In the history 0.2, 0.35, 0.4.
    assert chained.curve(run, "epoch/validation MAP at R") == [(1, 20), (2, 35), (3, 40)]
    with store.experiment(chained.uri, "demo") as found:
        assert [file.path for file in found.client.list_artifacts(run.info.run_id)] == ["scores.csv"]
        found.client.set_tag(run.info.run_id, NOTE, "mine")
        found.client.set_tag(run.info.run_id, "mlflow.runColor", "#123456")
    record.write_text(json.dumps(whole).replace("0.45", "0.46"))
    chained.sync()
    data = chained.runs()[MODEL].data
    assert data.metrics["MAP at R corrupted"] == 46
    assert (data.tags[NOTE], data.tags["mlflow.runColor"]) == ("mine", "#123456")


def test_the_address_of_the_charts_is_of_the_grid_that_ran_last(chained: Project) -> None:
    with pytest.raises(UserError, match="is missing; `make demo`"):
        ui.link(chained.uri, None, "http://here")
    chained.sync()
    chained.record("later.json", "train", NAME, grid="later", started="2025-06-02T12:00:00+00:00")
    watch.sync([chained.data], chained.uri, "later")
    for named, meant in ((None, "later"), ("demo", "demo")):
        with store.experiment(chained.uri, meant) as experiment:
            address = f"http://here/{page(experiment.identity, 'compare')}"
        assert ui.link(chained.uri, named, "http://here") == address
    with pytest.raises(UserError, match=r"no grid 'other' \(grids: demo, later\)"):
        ui.link(chained.uri, "other", "http://here")
    with pytest.raises(UserError, match=r"127.0.0.1:9 cannot be read: nobody answers there"):
        ui.link("http://127.0.0.1:9", None, "http://127.0.0.1:9")


def test_segmentation_of_an_untrained_backbone_is_joined_if_backbone_and_photos_are_the_same(
    project: Project,
) -> None:
    name = "toy_090/small/none/pretrained/seed0"
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


def test_every_run_of_a_model_names_its_photos_and_masks_with_counts_per_split(chained: Project) -> None:
    chained.sync()
    index = json.loads((chained.data / "work/datasets/toy_090/index.json").read_text())
    runs = chained.runs()
    (photos,) = runs[TRAIN].inputs.dataset_inputs
    assert (photos.dataset.name, photos.dataset.digest) == ("toy_090 photos", index["digest"])
    assert [(tag.key, tag.value) for tag in photos.tags] == [("mlflow.data.context", "training")]
    counts = {"photos_train": 20, "photos_test": 10, "classes": 6, "origin": "https://example.org/toys.zip"}
    assert json.loads(photos.dataset.profile).items() >= counts.items()
    # The score reads embeddings alone; what these were made of is found through the records.
    names = {i.dataset.name: i.tags[0].value for i in runs[SCORE].inputs.dataset_inputs}
    assert names == {"toy_090 photos": "evaluation", "toy_090/u2netp masks": "evaluation"}


def test_damaged_records_are_named_and_skipped(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    half = project.training()
    half.write_text(half.read_text()[:100])
    bare = project.data / "bare.json"
    bare.write_text('{"node": "train", "status": "done"}')
    (project.data / "other.json").write_text('{"kind": "not a record"}')
    (project.data / "list.json").write_text("[[1, 2, 3]]")
    (project.data / ".unfinished").mkdir()
    (project.data / ".unfinished/half.json").write_text("{")
    found = Records([project.data], "demo")
    with caplog.at_level(logging.WARNING):
        assert found.entries() == found.entries() == {}
    assert found.unreadable == {half, bare}
    assert [record.args[0] for record in caplog.records if record.args] == [bare, half]
    # An edit in place is seen; records of another grid are left alone.
    project.training()
    project.record("another.json", "index", "toy_090", grid="paper")
    assert [entry.name for entry in found.entries().values()] == [TRAIN, MODEL]
    assert found.unreadable == {bare}


def test_a_node_killed_without_a_word_does_not_run_for_ever(project: Project) -> None:
    for host, status in ((platform.node(), "KILLED"), ("another machine", "RUNNING")):
        project.training(status="running", pid=10**9, host=host)
        assert Records([project.data], "demo").entries()[f"demo/train/{NAME}"].status == status


def test_finished_records_are_opened_once(chained: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Records([chained.data], "demo")
    first = found.entries()
    monkeypatch.setattr(watch.json_checksum, "read", None)
    assert found.entries() == first


def test_epochs_lie_as_far_apart_as_they_took() -> None:
    entry = Entry(
        *("key", "train", "digest", "name", "FINISHED", 1000, None, {}, {}, {}, {}),
        history="epoch,loss,train_seconds,validate_seconds\n1,0.5,2.0,1.0\n2,0.4,3.0,1.0\n",
    )
    assert {(point.step, point.time) for point in entry.epochs()} == {(1, 4000), (2, 8000)}


def fault(project: Project, uri: str) -> str:
    project.training()
    with pytest.raises(UserError) as caught:
        watch.sync([project.data], uri, "demo")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("uri", ["./mlruns", "file:///tmp/mlruns", "localhost:5000", "sqlite://mlflow.db"])
def test_what_is_no_address_is_refused_and_makes_nothing(
    project: Project, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root)
    assert "is no address of an MLflow store. Give --uri" in fault(project, uri)
    assert sorted(p.name for p in project.root.iterdir()) == ["data"]


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        ([], "what answers there is no MLflow server, or one of another version"),
        ([401, 401], "the server asks for a login; set MLFLOW_TRACKING_USERNAME"),
    ],
)
def test_a_server_of_something_else_or_that_asks_for_a_login(
    project: Project, failures: list[int], said: str
) -> None:
    with serving(b"hello") as server:
        server.path, server.failures = "/api/2.0/mlflow/experiments/get-by-name", failures
        assert said in fault(project, server.root)


def test_neither_passwords_nor_traces_are_told() -> None:
    said = str(store._fault("postgresql://me:secret@host/db", OSError("refused"), store.UNREAD))
    assert "secret" not in said
    assert "postgresql://me:***@host/db" in said
    said = str(store._fault("sqlite:///mlflow.db", ImportError("no MLflow here"), store.UNREAD))
    assert "MLflow cannot be imported (no MLflow here); `make setup` installs it" in said
