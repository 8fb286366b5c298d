"""Names and paths of params.yaml in Snakemake's hands: a shell never runs them."""

from __future__ import annotations

from pathlib import Path

import pytest
from project import Project, fresh


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return fresh(tmp_path / "project")


@pytest.mark.workflow
def test_names_that_a_shell_would_run_are_refused_before_anything_is_planned(project: Project) -> None:
    pristine, name = (project.folder / "params.yaml").read_text(encoding="utf-8"), "x$(touch INJECTED)"
    text = pristine.replace("toy_smoke:", f'"{name}":').replace("- toy_smoke\n", f'- "{name}"\n')
    (project.folder / "params.yaml").write_text(text, encoding="utf-8")
    said = project.snakemake("--config", "grid=smoke", "--", "data", check=False)
    assert f"params.yaml: 'datasets.{name}' cannot be a name" in said
    assert "Traceback" not in said
    (project.folder / "params.yaml").write_text(pristine, encoding="utf-8")
    target = "data/work/datasets/x;touch INJECTED/images.csv"
    assert "has no dataset 'x;touch INJECTED'" in project.snakemake("--", target, check=False)
    assert not list(project.folder.rglob("INJECTED"))


@pytest.mark.workflow
def test_paths_and_files_may_hold_what_shells_treat_in_their_own_way(project: Project) -> None:
    (project.folder / "params.yaml").rename(project.folder / "it's $(touch INJECTED) mine.yaml")
    project.edit(
        "work: data/work",
        'work: "data/it\'s; the `touch INJECTED` \\"work\\""',
        "it's $(touch INJECTED) mine.yaml",
    )
    chosen = ("--config", "grid=smoke", "params=it's $(touch INJECTED) mine.yaml")
    project.snakemake(*chosen, "--", "data")
    made = project.folder / "data" / 'it\'s; the `touch INJECTED` "work"'
    assert (made / "datasets/toy_smoke/index.json").exists()
    assert (made / "logs/index/toy_smoke.log").exists()
    assert project.planned(*chosen, "--", "data") == []
    assert not list(project.folder.rglob("INJECTED"))
