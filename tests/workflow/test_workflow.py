"""Snakemake for real: what a run makes, what users get wrong, and another workflow that takes ours as a module."""

import json
import re
import runpy
import shutil
import sqlite3
from pathlib import Path

import pandas as pd
import pytest
import yaml
from commands import bgbias
from project import ROOT, SMOKE, Project, fresh, wait_for

from bgbias import plugins
from bgbias.engine import graph, records
from bgbias.engine.node import TOGETHER
from bgbias.files import checksums
from bgbias.study import params, plan
from bgbias.study.params import Study
from bgbias.tracking.watch import Records

pytestmark = pytest.mark.workflow
TABLES, FORMS = ("table1", "table2", "table3"), ("csv", "md", "tex", "html")
FIGURES = ("photos", "masks", "retrieval", "attribution", "change", "drop")


@pytest.fixture
def study(smoke_run: Project, monkeypatch: pytest.MonkeyPatch) -> Study:
    """That of the smoke run, in its folder."""
    monkeypatch.chdir(smoke_run.folder)
    return params.load(Path("params.yaml"), "smoke")


def test_mistakes_are_told_in_plain_words(tmp_path: Path) -> None:
    made = fresh(tmp_path / "project")
    said = made.snakemake("-n", "--config", "grid=dmo", check=False)
    assert "Did you mean 'demo'?" in said
    assert "Traceback" not in said
    said = made.snakemake("-n", "data/report/smoke/table4.md", "--config", "grid=smoke", check=False)
    assert "Grid 'smoke' has no table 'table4'; it has: table1, table2, table3." in said
    target = "data/work/datasets/x;touch INJECTED/images.csv"
    assert "has no dataset 'x;touch INJECTED'" in made.snakemake("--", target, check=False)
    assert not list(made.folder.rglob("INJECTED"))
    shutil.rmtree(made.folder / ".snakemake", ignore_errors=True)
    (made.folder / ".snakemake").symlink_to("/sys/kernel")  # where nobody writes, root neither
    said = made.snakemake("-n", "--config", "grid=smoke", check=False)
    assert ".snakemake/bgbias.lock cannot be written or read" in said
    assert "Traceback" not in said


def test_paths_and_files_may_hold_what_shells_treat_in_their_own_way(tmp_path: Path) -> None:
    made = fresh(tmp_path / "project")
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
    wait_for(lambda: count_finished_runs(Path("mlflow.db")) == len(shown), "all runs in MLflow's store")


def count_finished_runs(store: Path) -> int:
    """Those that the mirror, which may be slower than the steps, has shown by now."""
    if not store.exists():
        return 0
    with sqlite3.connect(f"file:{store.absolute()}?mode=ro", uri=True) as connection:
        chosen = "status = 'FINISHED' and lifecycle_stage = 'active'"
        return int(connection.execute(f"select count(*) from runs where {chosen}").fetchone()[0])


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
    planned = fresh(tmp_path / "project").snakemake(*drawing["command"](tmp_path))
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


# As a module.

POOL = "data/work/backgrounds/smoke_scenes"
# A host with an own shell prefix, default target and config, whose keys are none of ours.
HOST = """
configfile: "host.yaml"
shell.prefix("set -eu; GREETING=hello; ")

module bgbias:
    snakefile: "{snakefile}"
    config: {config}

use rule * from bgbias as bgbias_*

rule mine:
    default_target: True
    input: rules.bgbias_table1.input
    output: "mine.txt"
    shell: "echo $GREETING > {{output}}"

rule listed:
    input: "{pool}/backgrounds.csv"
    output: "listed.txt"
    shell: "echo $GREETING > {{output}}; wc -l < {{input}} >> {{output}}"

onstart:
    print("MLflow:", bgbias.onstart)
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return fresh(tmp_path_factory.mktemp("checkout") / "project")


def hosted(folder: Path, checkout: Project, config: str = "config['bias']") -> Project:
    """A workflow in a folder of its own, with a study of its own."""
    (folder / "workflow").mkdir(parents=True)
    text = HOST.format(snakefile=checkout.folder / "workflow/Snakefile", config=config, pool=POOL)
    (folder / "workflow/Snakefile").write_text(text, encoding="utf-8")
    own = {"lr": 3, "grids": "no", "bias": {"grid": "smoke", "params": "study.yaml"}}
    (folder / "host.yaml").write_text(yaml.safe_dump(own), encoding="utf-8")
    shutil.copy(checkout.folder / "params.yaml", folder / "study.yaml")
    shutil.copytree(checkout.folder / "grids", folder / "grids")
    return Project(folder)


def test_a_host_plans_and_runs_nodes_in_its_own_folder(checkout: Project, tmp_path: Path) -> None:
    host = hosted(tmp_path / "host", checkout)
    planned = host.planned()
    assert {"mine", "bgbias_table table1", "bgbias_index toy_smoke"} <= set(planned)
    assert not {job for job in planned if not job.startswith(("mine", "bgbias_"))}
    before = sorted(checkout.folder.iterdir())
    said = host.snakemake("listed.txt")
    assert "MLflow: functools.partial" in said
    greeting, lines = (host.folder / "listed.txt").read_text(encoding="utf-8").split()
    assert (greeting, int(lines)) == ("hello", 91)  # 40 + 10 + 40 pictures and a header
    command = records.read(host.folder / POOL / "backgrounds.json")["command"]
    assert "backgrounds smoke_scenes --grid smoke --params study.yaml" in command
    assert sorted(checkout.folder.iterdir()) == before, "a module writes nothing where it lies"
    assert host.planned("listed.txt") == []


def test_a_module_refuses_what_it_would_drop(checkout: Project, tmp_path: Path) -> None:
    whole = hosted(tmp_path / "whole", checkout, config="config | {'grid': 'smoke'}")
    assert "unknown --config bias" in whole.snakemake("-n", check=False)
    whole.edit("| {'grid': 'smoke'}", "\n    prefix: 'there'", "workflow/Snakefile")
    words = ("--config", "grid=smoke", "params=study.yaml")
    assert "this workflow knows no prefix" in whole.snakemake("-n", *words, check=False)


def test_every_way_to_start_the_checkout_finds_its_files(checkout: Project) -> None:
    plan = checkout.planned("--snakefile", "workflow/Snakefile", "--config", "grid=smoke")
    assert "all" in plan
    assert checkout.planned("--directory", ".test") == plan, "its config chooses the grid"
