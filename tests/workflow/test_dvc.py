"""DVC for real: what it keeps of a run, what an edit reruns, what checkouts, clones and experiments find."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from pathlib import Path

import pytest
import yaml
from project import ROOT, SMOKE, Project
from repository import Repository, finished, jobs, ran

pytestmark = pytest.mark.workflow
TABLE = "data/report/smoke/table1.csv"
TWO_EPOCHS = "      seeds:\n      - 0\n    train:\n      max_epochs: 2\n"
ONE_CELL = (f"      - plain\n      - bgaugment\n{TWO_EPOCHS}", f"      - plain\n{TWO_EPOCHS}")
TABLES = ("table1", "table2", "table3")
STAGES = ("data", "masks", "models", "scores", *TABLES)
EVALUATION = {"evaluate", "collect", "table"}


@pytest.fixture(scope="module")
def repository(smoke_run: Project, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Two versions of a study of one cell, with two draws of backgrounds and with one."""
    made = finished(smoke_run, tmp_path_factory.mktemp("dvc") / "project")
    made.edit(*ONE_CELL)
    made.dvc("remote", "add", "--quiet", "--local", "--default", "beside", "../remote")
    assert jobs(made.snakemake(*TABLES)) == {"collect", "table"}
    made.dvc("commit", "--quiet", "--force", *STAGES)
    made.commit("two-draws")
    made.edit("evaluation: {draws: 2}", "evaluation: {draws: 1}")
    assert jobs(made.snakemake(*TABLES)) == EVALUATION
    made.dvc("commit", "--quiet", "--force", *STAGES)
    made.commit("one-draw")
    return made


@pytest.fixture
def clone(repository: Repository, tmp_path: Path) -> Repository:
    """The version with one draw in another folder, still without what DVC keeps."""
    return repository.clone(tmp_path / "clone", "one-draw", repository.folder.parent / "remote")


def test_what_snakemake_made_and_dvc_recorded_is_not_made_again(repository: Repository) -> None:
    assert ran(repository.dvc("repro", *TABLES)) == []
    kept = repository.git("ls-files", "data", ".dvc", "dvc.lock").split()
    assert "dvc.lock" in kept
    # Results stay out of git.
    assert {Path(name).parts[:2] for name in kept if name.startswith("data")} == {
        ("data", "backgrounds"),
        ("data", "published"),
        ("data", "weights"),
    }
    # Another grid leaves the first one alone.
    before = (repository.folder / TABLE).read_bytes()
    repository.edit("grid: smoke ", "grid: demo ")
    assert "data/report/demo/table1.csv" in repository.dvc("status", "table1")
    assert (repository.folder / TABLE).read_bytes() == before
    repository.git("checkout", "--quiet", "params.yaml")


@pytest.mark.slow
def test_settings_of_one_version_with_linked_files_of_another_give_the_right_table(
    repository: Repository, clone: Repository
) -> None:
    """`git checkout` without `dvc checkout`, on hard links of the cache, which must stay what it is."""
    cache = _share_cache(clone, repository, "hardlink")
    one_draw = (clone.folder / TABLE).read_bytes()
    assert (clone.folder / TABLE).stat().st_nlink > 1
    clone.git("checkout", "--quiet", "two-draws")
    said = clone.dvc("repro", "table1")
    assert jobs(said) == EVALUATION
    assert (clone.folder / TABLE).read_bytes() == _table(repository, "two-draws") != one_draw
    clone.git("checkout", "--quiet", "--force", "one-draw")
    # And with it, nothing runs: the files are right, though Snakemake last ran something else.
    clone.dvc("checkout", "--quiet", *STAGES)
    assert (clone.folder / TABLE).read_bytes() == one_draw
    assert clone.planned(*TABLES) == []
    assert ran(clone.dvc("repro", *TABLES)) == []
    _assert_unspoilt(cache)


def test_clone_restores_and_has_nothing_to_do(clone: Repository) -> None:
    clone.dvc("pull", "--quiet", "--allow-missing")
    assert "train toy_smoke/tiny/contrastive/plain/seed0" not in clone.bgbias("restore").stdout
    assert clone.planned(*TABLES) == []
    assert ran(clone.dvc("repro", *TABLES)) == []
    # What a remote or a cache spoilt is not blessed, however old it looks.
    model = clone.folder / f"data/runs/smoke/models/{SMOKE}/plain/seed0/model.safetensors"
    model.write_bytes(model.read_bytes()[:-1] + b"x")
    os.utime(model, (1_500_000_000, 1_500_000_000))
    assert "model.safetensors has changed" in clone.bgbias("restore").stdout
    planned = clone.planned(*TABLES)
    assert f"train {SMOKE}/plain/0" in planned
    assert "table table1" in planned


@pytest.mark.slow
def test_a_table_can_be_pulled_alone(clone: Repository) -> None:
    """What it was made from is elsewhere, and is not made again for its own sake."""
    clone.dvc("pull", "--quiet", "table1")
    assert clone.planned("table1") == []
    assert "stale: " not in clone.bgbias("status").stdout
    clone.edit("evaluation: {draws: 1}", "evaluation: {draws: 2}")
    rules = {job.split()[0] for job in clone.planned("table1")}
    assert rules >= {"index", "train", "evaluate", "collect", "table"}
    assert "stale: table table1 (collect has changed)" in clone.bgbias("status").stdout


@pytest.mark.slow
def test_an_experiment_varies_a_setting_and_shows_what_it_did(
    repository: Repository, clone: Repository
) -> None:
    _share_cache(clone, repository, "copy")
    key, file = "grids.smoke.evaluation.draws", "grids/smoke.yaml"
    said = clone.dvc("exp", "run", "-S", f"{file}:{key}=2", "table1")
    assert jobs(said) == EVALUATION
    # Of its file one line is another: its comments, quotes and lists are what DVC writes too.
    assert clone.git("diff", "--numstat", "grids", "params.yaml").split() == ["1", "1", file]
    params = json.loads(clone.dvc("params", "diff", "--json"))
    assert params[file][key] == {"old": 1, "new": 2, "diff": 1}
    (changed,) = json.loads(clone.dvc("metrics", "diff", "--json", "HEAD")).values()
    model = f"{SMOKE.replace('/', '.')}.plain"
    assert changed.keys() == {f"{model}.MAP@R corrupted", f"{model}.relative drop"}
    (plot,) = json.loads(clone.dvc("plots", "diff", "--json", "HEAD", "--targets", TABLE))["data"][TABLE]
    points = {p["rev"]: float(p["corrupted"]) for p in plot["content"]["data"]["values"]}
    versions = changed[f"{model}.MAP@R corrupted"]
    assert points == {"HEAD": versions["old"], "workspace": versions["new"]}


WRITTEN = {
    "grid=smoke": ["-grid: demo        #", "+grid: smoke       #"],
    "train.lr=0.5": ["-  lr: 1.0e-6", "+  lr: 0.5"],
    "train.embedder_lr=0.5": ["-  embedder_lr:     ", "+  embedder_lr: 0.5 "],
    "evaluation.draws=3": ["-evaluation: {draws: 5,", "+evaluation: {draws: 3,"],
    "segmentation.episodes=9": ["-segmentation: {episodes: null,", "+segmentation: {episodes: 9,"],
    "losses.arcface.cub50.margin=21": ["-    cub50: {margin: 20,", "+    cub50: {margin: 21,"],
    "grids/demo.yaml:+grids.demo.evaluation.draws=3": ["+    evaluation:", "+      draws: 3"],
}


def test_a_setting_that_dvc_writes_changes_its_own_line_of_params(tmp_path: Path) -> None:
    """By what `dvc exp run -S FILE:KEY=VALUE` does to a file of settings."""
    from dvc.utils.hydra import apply_overrides

    for name in ("params.yaml", "grids/demo.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    for setting in WRITTEN:
        file, _, words = setting.rpartition(":")
        apply_overrides(tmp_path / (file or "params.yaml"), [words])
    changed = [
        line
        for name in ("params.yaml", "grids/demo.yaml")
        for line in difflib.unified_diff(
            *((folder / name).read_text().splitlines() for folder in (ROOT, tmp_path)), n=0
        )
        if line[0] in "+-" and line[:3] not in ("+++", "---")
    ]
    lines = [line for own in WRITTEN.values() for line in own]
    assert len(changed) == len(lines), changed
    assert all(any(line.startswith(start) for line in changed) for start in lines), changed


def _share_cache(clone: Repository, repository: Repository, link: str) -> Path:
    """A clone on the same machine takes files from the same cache, by ``link``; gives the cache."""
    cache = repository.folder / ".dvc/cache"
    clone.dvc("cache", "dir", "--local", str(cache))
    clone.dvc("config", "--local", "cache.type", link)
    clone.dvc("checkout", "--quiet", *STAGES)
    return cache


def _assert_unspoilt(cache: Path) -> None:
    files = [p for p in (cache / "files/md5").rglob("*") if p.is_file()]
    assert files
    for path in files:
        name = path.parent.name + path.name.removesuffix(".dir")
        assert hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() == name


def _table(repository: Repository, revision: str) -> bytes:
    """Table 1 of a version, as the cache has it."""
    stages = yaml.safe_load(repository.git("show", f"{revision}:dvc.lock"))["stages"]
    (md5,) = (out["md5"] for out in stages["table1"]["outs"] if out["path"] == TABLE)
    return (repository.folder / ".dvc/cache/files/md5" / md5[:2] / md5[2:]).read_bytes()
