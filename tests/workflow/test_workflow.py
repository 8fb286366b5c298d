"""Snakemake for real: what a dry run plans, a run makes, a second run repeats and a failure leaves."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import project
import pytest
from miniatures import as_folder
from project import SMOKE, Project, wait_for

from bgbias.engine import graph, records
from bgbias.files import checksums
from bgbias.images.pixels import encode_png
from bgbias.study import params, plan
from bgbias.study.params import Study

pytestmark = pytest.mark.workflow
RUN_SMOKE = ("--config", "grid=smoke")


@pytest.fixture
def smoke(smoke_run: Project, tmp_path: Path) -> Project:
    """A finished run of the grid `smoke`, to be changed at will."""
    return smoke_run.copy(tmp_path / "project")


def rules(jobs: list[str]) -> Counter[str]:
    """How many jobs of each rule."""
    return Counter(job.split()[0] for job in jobs)


def test_dry_run_of_a_grid_plans_every_node_once(tmp_path: Path) -> None:
    planned = project.fresh(tmp_path / "project").planned(*RUN_SMOKE)
    assert "train toy_smoke/tiny/contrastive/bgaugment/0" in planned
    assert rules(planned) == {
        **{"index": 1, "backgrounds": 1, "masks": 1, "train": 2, "evaluate": 2},
        **{"collect": 1, "table": 3, "figure": 6, "all": 1},
    }


def test_users_photos_and_masks_are_fetched_as_two_files_and_only_what_changed_again(tmp_path: Path) -> None:
    made = project.fresh(tmp_path / "project")
    photos = {
        f"photos/{c}/{n}.png": encode_png(np.full((8, 8, 3), 9, np.uint8)) for c in range(5) for n in range(2)
    }
    as_folder(
        made.folder / "mine", photos | {n.replace("photos", "masks"): data for n, data in photos.items()}
    )
    options = "{source: mine/photos, masks: mine/masks}"
    described = (
        f"  mine: {{kind: folder, masker: ground_truth, backgrounds: smoke_scenes, options: {options}}}"
    )
    made.edit("  demo_00:\n", f"{described}\n  demo_00:\n")
    cells = "{datasets: [mine], backbones: [tiny], losses: [contrastive], methods: [plain], seeds: [0]}"
    made.edit("grids: {}\n", f"grids:\n  shop: {{cells: [{cells}]}}\n")
    record = "data/work/datasets/mine/index.json"
    wanted = (record, "--config", "grid=shop")
    made.snakemake(*wanted)
    assert records.read(made.folder / record)["metrics"]["photos"] == 10
    (made.folder / "mine" / "masks" / "0" / "0.png").unlink()
    assert made.planned(*wanted) == ["fetch mine/masks", "index mine"]


def test_mistakes_are_told_in_plain_words(tmp_path: Path) -> None:
    made = project.fresh(tmp_path / "project")
    said = made.snakemake("-n", "--config", "grid=dmo", check=False)
    assert "Did you mean 'demo'?" in said
    assert "Traceback" not in said
    said = made.snakemake("-n", "data/report/smoke/table4.md", "--config", "grid=smoke", check=False)
    assert "Grid 'smoke' has no table 'table4'; it has: table1, table2, table3." in said
    target = "data/work/datasets/x;touch INJECTED/images.csv"
    assert "has no dataset 'x;touch INJECTED'" in made.snakemake("--", target, check=False)
    assert not list(made.folder.rglob("INJECTED"))


def test_paths_and_files_may_hold_what_shells_treat_in_their_own_way(tmp_path: Path) -> None:
    made = project.fresh(tmp_path / "project")
    (made.folder / "params.yaml").rename(made.folder / "it's $(touch INJECTED) mine.yaml")
    made.edit(
        "work: data/work",
        'work: "data/it\'s; the `touch INJECTED` \\"work\\""',
        "it's $(touch INJECTED) mine.yaml",
    )
    chosen = ("--config", "grid=smoke", "params=it's $(touch INJECTED) mine.yaml")
    work = 'data/it\'s; the `touch INJECTED` "work"'
    record = f"{work}/datasets/toy_smoke/index.json"
    made.snakemake(*chosen, "--", record)
    assert (made.folder / record).exists()
    assert (made.folder / work / "logs/index/toy_smoke.log").exists()
    assert made.planned(*chosen, "--", record) == []
    assert not list(made.folder.rglob("INJECTED"))


def test_smoke_grid_goes_from_photos_to_figures(smoke_run: Project) -> None:
    report = smoke_run.folder / "data/report/smoke"
    table = pd.read_csv(report / "table1.csv")
    assert len(table) == 2
    for name in ("table1", "table2", "table3"):
        assert all((report / f"{name}.{form}").stat().st_size for form in ("csv", "md", "tex", "html"))
    figures = {p.stem for p in (report / "figures").glob("*.png")}
    assert figures == {"photos", "masks", "retrieval", "attribution", "change", "drop"}
    assert figures == {p.stem for p in (report / "figures").glob("*.pdf")}


def test_every_file_is_certified_by_the_node_that_made_it(
    smoke_run: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = _study(smoke_run, monkeypatch)
    certified: dict[str, str] = {}
    for node in graph.in_order(study):
        path = node.record(study)
        record = records.read(path)
        assert record["status"] == "done"
        # What a node read is what the nodes before it had made.
        assert record["inputs"].items() <= certified.items(), node.label
        certified |= record["outputs"] | {str(path): checksums.sha256(path)}
    folders = [*(f"data/work/{f}" for f in ("datasets", "masks", "backgrounds")), "data/runs", "data/report"]
    made = {str(p) for folder in folders for p in Path(folder).rglob("*") if p.is_file()}
    assert made == set(certified)


def test_log_begins_with_the_command_that_repeats_it(smoke_run: Project) -> None:
    log = smoke_run.folder / f"data/work/logs/smoke/train/{SMOKE}/plain/seed0.log"
    first = log.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("$ python -m bgbias train toy_smoke tiny contrastive plain --seed 0 --grid smoke")


def test_failed_node_shows_its_log_and_loses_nothing(smoke: Project) -> None:
    models, data = smoke.folder / "data/runs/smoke/models", smoke.folder / "data/work/datasets"
    kept = _files(data)
    smoke.edit("batch_size: 16\n      embedding_dim", "batch_size: 64\n      embedding_dim")
    said = smoke.snakemake(*RUN_SMOKE, check=False)
    print(said)
    assert "Error in rule train" in said
    assert "bgbias: " in said
    assert not list(models.rglob("run.json"))
    assert _files(data) == kept


def test_mlflow_holds_one_run_for_every_node_and_model(
    smoke_run: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = _study(smoke_run, monkeypatch)
    expected = len(graph.in_order(study)) + len(plan.cells(study))
    store = smoke_run.folder / "mlflow.db"

    def finished() -> int:
        # The mirror starts beside the workflow and may be slower than its first nodes.
        if not store.exists():
            return 0
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
            shown = "status = 'FINISHED' and lifecycle_stage = 'active'"
            return connection.execute(f"select count(*) from runs where {shown}").fetchone()[0]

    wait_for(lambda: finished() == expected, f"{expected} finished runs in {store}")


def _study(run: Project, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.chdir(run.folder)
    return params.load(Path("params.yaml"), "smoke")


def _files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
