"""DVC for real: from nothing to a table, what an edit reruns, what a checkout and a clone find."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from project import Project, fresh

pytestmark = pytest.mark.workflow
TABLE = "data/report/smoke/table1.csv"
ONE_CELL = ("methods: [plain, bgaugment], seeds: [0]}\n    train: {max_epochs: 2,",
            "methods: [plain], seeds: [0]}\n    train: {max_epochs: 2,")  # fmt: skip


class Repository(Project):
    """A project under git and DVC, with a remote in a folder beside it."""

    def dvc(self, *words: str) -> str:
        """What DVC says; the commands of its stages find Snakemake as in an activated environment."""
        tools = str(Path(sys.executable).parent)
        path = os.pathsep.join([tools, self.environment()["PATH"]])
        return self.run("dvc", *words, PATH=path).stdout

    def git(self, *words: str) -> str:
        """What git says."""
        who = ("-c", "user.name=test", "-c", "user.email=test@example.org")
        command = ["git", *who, *words]
        return subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.PIPE, text=True).stdout

    def commit(self, tag: str) -> None:
        """Commit everything that git does not ignore, and push what DVC keeps."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", tag)
        self.git("tag", tag)
        self.dvc("push", "--quiet")

    def table(self) -> bytes:
        """Table 1, as it lies there."""
        return (self.folder / TABLE).read_bytes()


def ran(said: str) -> list[str]:
    """The stages that a repro ran."""
    return [line.split("'")[1] for line in said.splitlines() if line.startswith("Running stage")]


def jobs(said: str) -> set[str]:
    """The nodes that Snakemake ran in them."""
    rules = {
        line.split()[-1].rstrip(":") for line in said.splitlines() if line.startswith(("rule ", "localrule "))
    }
    return rules - {"data", "all_masks", "models", "scores", "table1", "table2"}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Two versions of a study of one cell, made by DVC from nothing: two draws of backgrounds, and one."""
    made = Repository(fresh(tmp_path_factory.mktemp("dvc") / "project").folder)
    made.edit("grid: demo ", "grid: smoke ")
    made.edit(*ONE_CELL)
    made.git("init", "--quiet")
    made.dvc("remote", "add", "--quiet", "--local", "--default", "beside", "../remote")
    said = made.dvc("repro", "table1", "table2")
    assert ran(said) == ["data", "masks", "models", "scores", "table1", "table2"]
    made.commit("two-draws")
    made.edit("evaluation: {draws: 2}", "evaluation: {draws: 1}")
    said = made.dvc("repro", "table1", "table2")
    assert jobs(said) == {"embed", "score", "collect", "table"}
    made.commit("one-draw")
    return made


def test_second_repro_runs_nothing(repository: Repository) -> None:
    assert ran(repository.dvc("repro", "table1", "table2")) == []
    assert "up to date" in repository.dvc("status", "table1", "table2")


def test_results_stay_out_of_git(repository: Repository) -> None:
    kept = repository.git("ls-files", "data", ".dvc", "dvc.lock").split()
    assert "dvc.lock" in kept
    assert {Path(name).parts[:2] for name in kept if name.startswith("data")} == {
        ("data", "backgrounds"),
        ("data", "published"),
        ("data", "weights"),
    }


def test_params_of_one_version_with_files_of_another_give_the_right_table(repository: Repository) -> None:
    """`git checkout` without `dvc checkout`: the files are wrong, whatever Snakemake remembers of having run."""
    one_draw = repository.table()
    repository.git("checkout", "--quiet", "two-draws")
    said = repository.dvc("repro", "table1")
    assert jobs(said) == {"embed", "score", "collect", "table"}
    two_draws = repository.table()
    assert two_draws != one_draw
    repository.git("checkout", "--quiet", "--force", "one-draw")
    # And with it, nothing runs: the files are right, though Snakemake last ran something else.
    repository.dvc("checkout", "--quiet", "scores", "table1", "table2")
    assert repository.table() == one_draw
    assert repository.planned("table1", "table2") == []


def test_clone_pulls_and_has_nothing_to_do(repository: Repository, tmp_path: Path) -> None:
    clone = _cloned(repository, tmp_path / "clone")
    clone.dvc("pull", "--quiet", "table1", "table2", "scores")
    assert "up to date" in clone.dvc("status", "table1", "table2")
    assert clone.planned("table1", "table2") == []


def test_a_table_can_be_pulled_alone(repository: Repository, tmp_path: Path) -> None:
    """What it was made from is elsewhere, and is not made again for its own sake."""
    clone = _cloned(repository, tmp_path / "clone")
    clone.dvc("pull", "--quiet", "table1")
    assert clone.planned("table1") == []
    assert "stale: " not in clone.bgbias("status").stdout
    clone.edit("evaluation: {draws: 1}", "evaluation: {draws: 2}")
    assert {job.split()[0] for job in clone.planned("table1")} >= {
        "index",
        "train",
        "embed",
        "collect",
        "table",
    }


def test_a_file_that_a_cache_spoilt_is_found_by_restore(repository: Repository, tmp_path: Path) -> None:
    """However old it looks: `restore` reads every file."""
    clone = _cloned(repository, tmp_path / "clone")
    clone.dvc("pull", "--quiet", "data", "masks", "models", "scores", "table1", "table2")
    spoilt = next(clone.folder.glob("data/runs/smoke/models/**/model.safetensors"))
    spoilt.write_bytes(spoilt.read_bytes()[:-1] + b"x")
    os.utime(spoilt, (1_500_000_000, 1_500_000_000))
    said = clone.bgbias("restore").stdout
    assert "model.safetensors has changed" in said
    assert "train toy_smoke/tiny/contrastive/plain/0" in clone.planned("table1", "table2")


def test_another_grid_leaves_the_first_one_alone(repository: Repository) -> None:
    before = repository.table()
    repository.edit("grid: smoke ", "grid: demo ")
    try:
        assert "data/report/demo/table1.csv" in repository.dvc("status", "table1")
        assert repository.table() == before
    finally:
        repository.git("checkout", "--quiet", "params.yaml")


def _cloned(repository: Repository, folder: Path) -> Repository:
    repository.git("clone", "--quiet", ".", str(folder))
    clone = Repository(folder)
    clone.git("checkout", "--quiet", "one-draw")
    remote = repository.folder.parent / "remote"
    clone.dvc("remote", "add", "--quiet", "--local", "--default", "beside", str(remote))
    return clone
