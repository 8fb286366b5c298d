"""A project under git and DVC, for tests that go back and forth between its versions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from project import Project


class Repository(Project):
    """A project under git and DVC."""

    def dvc(self, *words: str) -> str:
        """What DVC says; the commands of its stages find Snakemake as in an activated environment."""
        tools = str(Path(sys.executable).parent)
        path = os.pathsep.join([tools, self.environment()["PATH"]])
        return self.run("dvc", *words, PATH=path).stdout

    def git(self, *words: str, check: bool = True) -> str:
        """What git says; a failure is an error unless ``check`` is off."""
        who = ("-c", "user.name=test", "-c", "user.email=test@example.org")
        command = ["git", *who, *words]
        done = subprocess.run(command, cwd=self.folder, check=check, stdout=subprocess.PIPE, text=True)
        return done.stdout

    def clone(self, folder: Path) -> Repository:
        """Another folder with the last version of it, still without what DVC keeps; it pulls from where this one pushes to."""
        self.git("clone", "--quiet", ".", str(folder))
        made = Repository(folder)
        remote = str(self.folder.parent / "remote")
        made.dvc("remote", "add", "--quiet", "--local", "--default", "beside", remote)
        return made


def finished(smoke_run: Project, folder: Path) -> Repository:
    """A finished run of the grid `smoke`, copied to ``folder`` and committed."""
    made = Repository(smoke_run.copy(folder).folder)
    made.edit("grid: demo ", "grid: smoke ")
    made.own_source()
    made.git("init", "--quiet")
    made.git("add", "--all")
    made.git("commit", "--quiet", "-m", "before")
    return made


def ran(said: str) -> list[str]:
    """The stages that a repro ran."""
    return [line.split("'")[1] for line in said.splitlines() if line.startswith("Running stage")]


def jobs(said: str) -> set[str]:
    """The nodes that Snakemake ran in them."""
    rules = {
        line.split()[-1].rstrip(":") for line in said.splitlines() if line.startswith(("rule ", "localrule "))
    }
    return rules - {"data", "all_masks", "models", "scores", "table1", "table2", "table3", "report"}
