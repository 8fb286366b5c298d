"""What goes wrong, without a word, where a plain Snakefile stands behind plain stages of DVC.

The tests of ``test_dvc.py`` show that the same steps end well here. Were one of these to fail, its cure were needed no longer.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from repository import Repository

pytestmark = [pytest.mark.workflow, pytest.mark.slow]
SNAKEFILE = """
configfile: "params.yaml"

rule scores:
    output: "scores.txt"
    params: draws=config["draws"]
    shell: "echo scores of {params.draws} draws > {output}"

rule table:
    input: "scores.txt"
    output: "table.txt"
    shell: "(echo table of; cat {input}) > {output}"
"""
STAGES = """
stages:
  table: {cmd: snakemake --cores 1 table.txt, params: [draws], outs: [scores.txt: {persist: true}, table.txt: {persist: true}]}
"""


@pytest.fixture
def naive(tmp_path: Path) -> Repository:
    """A study of one number, under git."""
    made = Repository(tmp_path / "naive")
    made.folder.mkdir()
    for name, text in (("Snakefile", SNAKEFILE), ("dvc.yaml", STAGES), (".gitignore", ".snakemake\n")):
        (made.folder / name).write_text(text)
    made.git("init", "--quiet")
    return made


def draws(naive: Repository, number: int) -> None:
    """Edit the one setting."""
    (naive.folder / "params.yaml").write_text(f"draws: {number}\n")


def test_settings_without_their_files_give_the_files_of_others(naive: Repository) -> None:
    naive.dvc("init", "--quiet")
    for number in (2, 1):
        draws(naive, number)
        naive.dvc("repro", "--quiet")
        naive.commit(f"{number}-draws", push=False)
    naive.git("checkout", "--quiet", "2-draws")
    naive.dvc("checkout", "--quiet")
    # `git checkout` without `dvc checkout`: Snakemake remembers having run these settings last, and looks at nothing else.
    naive.git("checkout", "--quiet", "1-draws")
    naive.dvc("repro", "--quiet")
    assert "draws: 1" in (naive.folder / "params.yaml").read_text()
    assert "2 draws" in (naive.folder / "table.txt").read_text()
    assert "up to date" in naive.dvc("status")


@pytest.mark.parametrize(("link", "seen"), [("hardlink", "draws: 2"), ("copy", "draws: 1")])
def test_hard_links_make_old_results_look_new(naive: Repository, link: str, seen: str) -> None:
    # A rule that reads the settings as a file, as any script does: Snakemake compares times.
    reads = SNAKEFILE.replace('params: draws=config["draws"]', 'input: "params.yaml"')
    (naive.folder / "Snakefile").write_text(reads.replace("{params.draws} draws", "$(cat {input})"))
    naive.dvc("init", "--quiet")
    naive.dvc("config", "cache.type", link)
    draws(naive, 2)
    naive.snakemake("table.txt")
    naive.dvc("commit", "--quiet", "--force")
    draws(naive, 1)
    # So that a job may write where a link of its cache lies, DVC replaces each by a copy of now: newer than the settings.
    naive.dvc("repro", "--quiet")
    assert seen in (naive.folder / "table.txt").read_text()
    assert "up to date" in naive.dvc("status")


def test_a_result_in_git_is_taken_for_that_of_any_settings(naive: Repository, tmp_path: Path) -> None:
    draws(naive, 2)
    naive.snakemake("table.txt")
    naive.commit("2-draws", push=False)
    draws(naive, 1)
    naive.commit("1-draw", push=False)
    naive.git("clone", "--quiet", ".", str(tmp_path / "clone"))
    clone = Repository(tmp_path / "clone")
    assert "Nothing to be done" in clone.snakemake("table.txt")
    assert "draws: 1" in (clone.folder / "params.yaml").read_text()
    assert "2 draws" in (clone.folder / "table.txt").read_text()
