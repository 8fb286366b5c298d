"""DVC for real: what it keeps of a run is not made again, here or in a clone; who edits a formula gets other numbers. dvc.yaml
names all that the nodes of its stages read: what it leaves out, DVC would not see change.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pretended
import pytest
import yaml
from project import ROOT, SMOKE, Project

from bgbias.engine import graph
from bgbias.engine.node import Node
from bgbias.study import params

TABLES = ("table1", "table2", "table3")
MODEL = Path("data/runs/smoke/models", SMOKE, "plain/seed0/model.safetensors")
LOSS = "src/bgbias/training/losses/contrastive.py"
REWRITTEN = ("DISTANCE, **params.model_dump()", "DISTANCE, **dict(params.model_dump())")
METRIC = "src/bgbias/evaluation/metrics/map_at_r.py"
FORMULA = "n.per_relevant((precision * hits).sum(axis=1))"


class Repository(Project):
    """A project under git and DVC."""

    def dvc(self, *words: str) -> str:
        """What DVC says; the commands of its stages find Snakemake as in an activated environment."""
        tools = str(Path(sys.executable).parent)
        path = os.pathsep.join([tools, self.environment()["PATH"]])
        return self.run("dvc", *words, PATH=path).stdout

    def git(self, *words: str) -> str:
        command = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", *words]
        return subprocess.check_output(command, cwd=self.folder, text=True)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", "all")

    def add_remote(self, folder: Path) -> None:
        self.dvc("remote", "add", "--quiet", "--local", "--default", "beside", str(folder))


def ran(said: str) -> list[str]:
    """The stages that a repro ran."""
    return [line.split("'")[1] for line in said.splitlines() if line.startswith("Running stage")]


@pytest.fixture(scope="module")
def repository(smoke_run: Project, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A finished run, kept by git and DVC."""
    made = Repository(smoke_run.copy(tmp_path_factory.mktemp("dvc") / "project").folder)
    made.edit("grid: demo ", "grid: smoke ")
    made.own_source()
    made.git("init", "--quiet")
    made.commit()
    made.add_remote(made.folder.parent / "remote")
    made.dvc("commit", "--quiet", "--force", "data", "masks", "models", "scores", *TABLES)
    made.commit()
    made.dvc("push", "--quiet")
    return made


@pytest.fixture
def clone(repository: Repository, tmp_path: Path) -> Repository:
    """The same in another folder, with what DVC keeps."""
    repository.git("clone", "--quiet", ".", str(tmp_path / "clone"))
    clone = Repository(tmp_path / "clone")
    clone.add_remote(repository.folder.parent / "remote")
    clone.dvc("pull", "--quiet", "--allow-missing")
    return clone


@pytest.mark.workflow
def test_what_snakemake_made_and_dvc_recorded_is_not_made_again(repository: Repository) -> None:
    assert ran(repository.dvc("repro", *TABLES)) == []
    kept = repository.git("ls-files", "data", ".dvc", "dvc.lock").split()
    assert "dvc.lock" in kept
    # Results stay out of git.
    assert {name.split("/")[1] for name in kept if name.startswith("data")} == {
        *("backgrounds", "published", "weights"),
    }
    # Another grid leaves the first one alone.
    repository.edit("grid: smoke ", "grid: demo ")
    assert "data/report/demo/table1.csv" in repository.dvc("status", "table1")
    repository.git("checkout", "--quiet", "params.yaml")


@pytest.mark.workflow
def test_clone_restores_and_has_nothing_to_do(clone: Repository) -> None:
    assert f"train {SMOKE}/plain/seed0" not in clone.bgbias("restore").stdout
    assert clone.planned(*TABLES) == []
    assert ran(clone.dvc("repro", *TABLES)) == []
    # What a remote or a cache spoilt is not blessed, however old it looks.
    model = clone.folder / MODEL
    model.write_bytes(model.read_bytes()[:-1] + b"x")
    os.utime(model, (1_500_000_000, 1_500_000_000))
    assert "model.safetensors has changed" in clone.bgbias("restore").stdout
    assert {f"train {SMOKE}/plain/0", "table table1"} <= set(clone.planned(*TABLES))


@pytest.mark.workflow
def test_an_edit_is_told_accepted_or_made_again(repository: Repository, tmp_path: Path) -> None:
    project = Repository(repository.copy(tmp_path / "project").folder)
    table = project.folder / "data/report/smoke/table1.csv"
    before, trained = pd.read_csv(table)["clean"], (project.folder / MODEL).read_bytes()

    # What is known to compute the same.
    project.edit(*REWRITTEN, LOSS)
    trains = [f"train {SMOKE}/{method}/0" for method in ("bgaugment", "plain")]
    assert [job for job in project.planned() if job.startswith("train ")] == trains
    assert f"accepted: train {SMOKE}/plain/seed0" in project.snakemake("--touch")
    assert project.planned() == []
    assert (project.folder / MODEL).read_bytes() == trained

    # What does not.
    project.edit(FORMULA, f"{FORMULA} / 2", METRIC)
    said = project.dvc("repro", "table1")
    assert all(f"rule {name}:" in said for name in ("train", "evaluate", "collect", "table"))
    # Validation is halved with it, and picks the same epoch.
    assert (project.folder / MODEL).read_bytes()[2000:] == trained[2000:]
    pd.testing.assert_series_equal(pd.read_csv(table)["clean"], before / 2)
    certified = json.loads((project.folder / MODEL).with_name("run.json").read_text())
    assert certified["git_dirty"] is True
    assert "evaluation/metrics/map_at_r.py" in certified["code"]
    assert ran(project.dvc("repro", "table1")) == []


@pytest.mark.slow
@pytest.mark.workflow
def test_an_experiment_varies_a_setting_and_shows_what_it_did(clone: Repository) -> None:
    key, file, table = "grids.smoke.evaluation.draws", "grids/smoke.yaml", "data/report/smoke/table1.csv"
    said = clone.dvc("exp", "run", "-S", f"{file}:{key}=1", "table1")
    assert "rule evaluate:" in said
    assert "rule train:" not in said
    # Of its file one line is another: its comments, quotes and lists are what DVC writes too.
    assert clone.git("diff", "--numstat", "grids", "params.yaml").split() == ["1", "1", file]
    (changed,) = json.loads(clone.dvc("metrics", "diff", "--json", "HEAD")).values()
    assert f"{SMOKE.replace('/', '.')}.plain.MAP@R corrupted" in changed
    (plot,) = json.loads(clone.dvc("plots", "diff", "--json", "HEAD", "--targets", table))["data"][table]
    assert {p["rev"] for p in plot["content"]["data"]["values"]} == {"HEAD", "workspace"}


# Stages.

TEXT = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
OPENING = (yaml.FlowMappingStartToken, yaml.FlowSequenceStartToken)
CLOSING = (yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)
SETTINGS = ["params.yaml", *(f"grids/{path.name}" for path in (ROOT / "grids").glob("*.yaml"))]


@pytest.mark.parametrize("name", ["dvc.yaml", *SETTINGS])
def test_every_dvc_can_read_it(name: str) -> None:
    """That of conda has a fast parser, which refuses plain words with a colon inside braces or brackets."""
    depth = 0
    for token in yaml.scan((ROOT / name).read_text(encoding="utf-8")):
        depth += isinstance(token, OPENING) - isinstance(token, CLOSING)
        refused = depth and isinstance(token, yaml.ScalarToken) and token.plain and ":" in token.value
        assert not refused, f"{name} line {token.start_mark.line + 1}: {token.value}"


def outputs(stage: dict[str, Any]) -> list[str]:
    entries = [entry for kind in ("outs", "metrics", "plots") for entry in stage.get(kind, [])]
    assert all(next(iter(entry.values()))["persist"] for entry in entries)
    return [next(iter(entry)) for entry in entries]


def is_below(path: Path, folders: list[str]) -> bool:
    return not {path, *path.parents}.isdisjoint(map(Path, folders))


@pytest.mark.parametrize(
    ("grid", "left"),
    [("negatives", ["table10", "table5"]), ("controls", [f"table{n}" for n in (10, 5, 6, 7, 8)])],
)
def test_a_stage_keeps_what_its_nodes_make_and_depends_on_what_they_read(
    grid: str, left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for tables from the fourth on, which only some grids have: they are made again with the report."""
    monkeypatch.chdir(ROOT)
    study = params.load(ROOT / "params.yaml", grid)
    text = TEXT.replace("${grid}", grid)
    for root in ("work", "runs", "report"):
        text = text.replace(f"${{paths.{root}}}", getattr(study.paths, root))
    stages = yaml.load(text, yaml.CSafeLoader)["stages"]
    outs = {name: outputs(stage) for name, stage in stages.items()}

    def stage_of(node: Node) -> str:
        return next((name for name in stages if is_below(node.record(study), outs[name])), "")

    nodes = [node for node in graph.in_order(study) if node.name not in ("fetch", "weights")]
    assert sorted(node.subject_name for node in nodes if not stage_of(node)) == left
    for node in filter(stage_of, nodes):
        stage = stage_of(node)
        assert all(is_below(path, outs[stage]) for path in pretended.outputs(study, node)), node.label
        known = [*stages[stage]["deps"], *outs[stage], study.paths.raw]
        for maker in graph.reads_from(study, node):
            if maker.subject_name not in left:
                # Its record has the checksums of what it certifies.
                assert is_below(maker.record(study), known), (node.label, maker.label)


def test_every_stage_depends_on_all_settings_and_code_and_gives_a_shell_nothing_of_params() -> None:
    """DVC fills names in before anybody checks them, and a shell runs what it is given."""
    stages = yaml.safe_load(TEXT)["stages"]
    assert stages.keys() >= {"data", "models", "table1", "report"}
    for stage in stages.values():
        assert {"src/bgbias", "requirements.lock", "params.yaml", "grids"} <= set(stage["deps"])
        assert "$" not in stage["cmd"]
