"""Snakemake for real: what a dry run plans, what a run makes, and what users get wrong."""

from __future__ import annotations

import json
import re
import runpy
import shutil
from collections import Counter
from pathlib import Path

import pandas as pd
import project
import pytest
from commands import bgbias
from project import ROOT, SMOKE, Project

from bgbias import plugins
from bgbias.engine import graph, records
from bgbias.engine.node import TOGETHER
from bgbias.files import checksums
from bgbias.study import params, plan
from bgbias.study.params import Study
from bgbias.tracking.watch import Records

pytestmark = pytest.mark.workflow
RUN_SMOKE = ("--config", "grid=smoke")
TABLES, FORMS = ("table1", "table2", "table3"), ("csv", "md", "tex", "html")
FIGURES = ("photos", "masks", "retrieval", "attribution", "change", "drop")


@pytest.fixture
def study(smoke_run: Project, monkeypatch: pytest.MonkeyPatch) -> Study:
    """That of the smoke run, in its folder."""
    monkeypatch.chdir(smoke_run.folder)
    return params.load(Path("params.yaml"), "smoke")


def test_dry_run_of_a_grid_plans_every_node_once(tmp_path: Path) -> None:
    planned = project.fresh(tmp_path / "project").planned(*RUN_SMOKE)
    assert "train toy_smoke/tiny/contrastive/bgaugment/0" in planned
    assert Counter(job.split()[0] for job in planned) == {
        **{"index": 1, "backgrounds": 1, "masks": 1, "train": 2, "evaluate": 2},
        **{"collect": 1, "table": 3, "figure": 6, "all": 1},
    }


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
    file, work = "it's $(touch INJECTED) mine.yaml", 'data/it\'s; the `touch INJECTED` "work"'
    (made.folder / "params.yaml").rename(made.folder / file)
    made.edit("work: data/work", f"work: {json.dumps(work)}", file)
    chosen = ("--config", "grid=smoke", f"params={file}")
    record = f"{work}/datasets/toy_smoke/index.json"
    made.snakemake(*chosen, "--", record)
    assert (made.folder / record).exists()
    assert (made.folder / work / "logs/index/toy_smoke.log").exists()
    assert made.planned(*chosen, "--", record) == []
    assert not list(made.folder.rglob("INJECTED"))


def test_every_file_of_a_run_is_certified_by_the_node_that_made_it(study: Study) -> None:
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
    tables = {f"data/report/smoke/{name}.{form}" for name in TABLES for form in FORMS}
    assert made > tables | {
        f"data/report/smoke/figures/{name}.{form}" for name in FIGURES for form in ("png", "pdf")
    }
    logs = Path("data/work/logs")
    log = (logs / f"smoke/train/{SMOKE}/plain/seed0.log").read_text(encoding="utf-8")
    assert log.startswith("$ python -m bgbias train toy_smoke tiny contrastive plain --seed 0 --grid smoke")
    # A line of --logger bgbias.
    assert "18 of 18 jobs in " in (logs / "said.txt").read_text(encoding="utf-8")
    # MLflow's mirror, which began with the run, shows every node and model.
    assert "python -m bgbias track" in (logs / "track.log").read_text(encoding="utf-8")
    shown = Records([Path("data")], "smoke").entries()
    assert len(shown) == len(graph.in_order(study)) + len(plan.cells(study))


def test_page_says_what_the_study_is_and_how_each_result_is_made_again(
    smoke_run: Project, tmp_path: Path
) -> None:
    run = smoke_run.copy(tmp_path / "project")
    run.snakemake("--report", "page.html", "--config", "grid=smoke")
    text = (run.folder / "page.html").read_text(encoding="utf-8")
    assert "Models of the grid <em>smoke</em>" in text
    assert "What training took" in text
    results = json.loads(re.search(r"var results = (\{.*\});", text)[1])  # type: ignore[index]
    shown = {*(f"{name}.html" for name in TABLES), *(f"{name}.png" for name in FIGURES)}
    assert {Path(path).name for path in results} == shown
    for path, result in results.items():
        name = Path(path).stem
        node = "table" if name.startswith("table") else "figure"
        assert f"python -m bgbias {node} {name} --grid smoke" in re.sub("<.*?>", "", result["caption"])


def test_the_page_shows_the_rules_as_snakemake_plans_them(tmp_path: Path) -> None:
    drawing = runpy.run_path(str(ROOT / "workflow/rulegraph.py"))
    planned = project.fresh(tmp_path / "project").snakemake(*drawing["command"](tmp_path))
    graph = drawing["mermaid"](drawing["arrows"](planned))
    text = (ROOT / "docs/workflow.md").read_text(encoding="utf-8")
    assert drawing["drawn"](text, graph) == text, "run: make rulegraph"
    rules = {*plugins.names("nodes"), "evaluate"} - set(TOGETHER)
    assert set(re.findall(r"\w+(?= -->)|(?<=--> )\w+", graph)) == rules


def test_an_audit_and_the_workflow_say_the_same(smoke_run: Project, tmp_path: Path) -> None:
    """Of a study's own model on the study's own photos, to the last digit."""
    data, cell = smoke_run.folder / "data", f"{SMOKE}/plain/seed0"
    # Elsewhere: somebody else's model may not be written to.
    mine = shutil.copy(data / "runs/smoke/models" / cell / "model.safetensors", tmp_path)
    pool = next((data / "work/backgrounds").rglob("test.zip"))
    scores = pd.read_csv(next((data / "runs/smoke/scores" / cell).glob("scores.csv")))
    draws = scores.loc[scores["condition"] == "random_background", "draw"].nunique()
    asked = ("--backgrounds", str(pool), "--draws", str(draws), "--sample", "0", "--attribution", "0")
    words = ("toy_smoke", "--model", str(mine), *asked, "--out", str(tmp_path / "audit"))
    done = bgbias(smoke_run.folder, "audit", *words, BGBIAS_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "audit/audit.json").read_text())
    found = {(r["setting"], r["condition"], r["metric"]): r["value"] for r in told["levels"]}
    expected = scores.groupby(["setting", "condition", "metric"])["value"].mean()
    assert len(expected) > 15
    for (setting, *view), value in expected.items():
        for said in ("query", "symmetric") if "clean" in view else (setting,):
            assert found[said, *view] == pytest.approx(value, abs=1e-12), (said, *view)
