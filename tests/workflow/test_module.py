"""Another workflow takes ours as a module: from a folder, or from a repository, as Snakedeploy writes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import project
import pytest
import yaml
from project import Project

from bgbias.engine import records

pytestmark = pytest.mark.workflow
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
    return project.fresh(tmp_path_factory.mktemp("checkout") / "project")


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
