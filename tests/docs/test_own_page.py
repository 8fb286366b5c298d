"""The page on files of one's own, followed by a newcomer from its first line to its last, in an empty folder."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from project import ROOT, Project

from bgbias import plugins
from bgbias.engine import graph
from bgbias.models import adapters
from bgbias.study import params

PAGE = ROOT / "docs/own.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.(?:py|yaml))\n")
TOOLS = ("bgbias", "snakemake")


class Newcomer:
    """Does what the page says, block by block; ``said``: what the last command printed."""

    def __init__(self, home: Path) -> None:
        self.home, self.folder, self.said = home, home, ""
        (home / "bgbias").symlink_to(ROOT)

    def python(self, code: str) -> None:
        """Keeps a file that begins with its name, runs anything else."""
        if named := FILE.match(code):
            self._keep(named[1], code)
        else:
            self.said = self._run(sys.executable, "-c", code)

    def yaml(self, code: str) -> None:
        """Keeps the file, or adds to params.yaml what follows: lists are replaced."""
        if named := FILE.match(code):
            self._keep(named[1], code)
            return
        file = self.folder / "params.yaml"
        now = _laid_over(yaml.safe_load(file.read_text(encoding="utf-8")), yaml.safe_load(code))
        file.write_text(yaml.safe_dump(now, sort_keys=False), encoding="utf-8")

    def sh(self, commands: str) -> None:
        """Types them."""
        self.said = ""
        for line in commands.splitlines():
            tool, *words = shlex.split(line)
            if tool == "cd":
                self.folder /= words[0]
            elif tool in TOOLS:
                made = Project(self.folder).run(tool, *words, PYTHONPATH=str(ROOT / "src"))
                self.said += made.stdout
            else:
                self.said += self._run(tool, *words)

    def text(self, expected: str) -> None:
        """Sees what the page shows."""
        assert self.said == expected

    def _keep(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text, encoding="utf-8")

    def _run(self, *words: str) -> str:
        around = Project(self.folder).environment(PYTHONPATH=str(ROOT / "src"))
        done = subprocess.run(
            words, cwd=self.folder, env=around, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
        return done.stdout


def _laid_over(below: Any, above: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _laid_over(below.get(key), value) for key, value in above.items()}


class Planner(Newcomer):
    """Does the same without training anything: instead of a run, the models that would be trained are planned."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.plans: list[set[str]] = []

    def python(self, code: str) -> None:
        if FILE.match(code):
            super().python(code)
            return
        shown = io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(shown):
            exec(compile(code, "page", "exec"), {"__name__": "page"})
        self.said = shown.getvalue()

    def sh(self, commands: str) -> None:
        lines = commands.splitlines()
        super().sh("\n".join(line for line in lines if line.split()[0] in ("mkdir", "cp", "cd")))
        if any(line.startswith("snakemake") for line in lines):
            with contextlib.chdir(self.folder):
                nodes = graph.in_order(params.load(Path("params.yaml")))
                self.plans.append({n.keywords["cell"].name for n in nodes if n.name == "train"})


def follow(reader: Newcomer) -> Iterator[str]:
    """Does all that the page says, section by section; gives the title of each that is done."""
    parts = re.split(r"^## (.+)\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    sections = {"The study": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))
    for title, text in sections.items():
        for language, code in FENCE.findall(text):
            does: Callable[[str], None] = getattr(reader, language)
            does(code)
        yield title


def test_what_the_page_adds_is_planned(tmp_path: Path) -> None:
    reader = Planner(tmp_path)
    assert {*OUTCOMES} <= {*follow(reader)}
    added = [
        {name.removeprefix("toys/tiny/").removesuffix("/seed0") for name in plan} for plan in reader.plans
    ]
    assert added == [
        {"contrastive/plain", "batch_hard/plain"},
        {"contrastive/plain", "batch_hard+scale=1/plain", "batch_hard+scale=10/plain"},
        {"contrastive/plain", "contrastive/bgaugment", "contrastive/held"},
        # A condition trains no model.
        {"contrastive/plain", "contrastive/bgaugment", "contrastive/held"},
    ]
    with contextlib.chdir(reader.folder):
        plugins.use("my_plugins")
        assert adapters.load("slopes:4", adapters.Options()).embed(np.zeros((1, 64, 64, 3), np.uint8))[0].size
        assert plugins.load("conditions", "dimmed_background").DRAWS is False
    plugins.use()


@pytest.mark.slow
@pytest.mark.workflow
def test_a_newcomer_has_her_loss_method_condition_and_model_by_the_page_alone(tmp_path: Path) -> None:
    reader = Newcomer(tmp_path)
    for title in follow(reader):
        if title in OUTCOMES:
            OUTCOMES[title](reader)


def a_loss(reader: Newcomer) -> None:
    """Both scales have rows, and the one that was typed has a model; an edited formula is named."""
    losses = ["contrastive", "batch_hard+scale=1", "batch_hard+scale=10"]
    assert _table(reader)["loss"].tolist() == losses
    models = reader.folder / "data/runs/evening/models/toys/tiny"
    assert {p.name for p in models.iterdir()} == {*losses, "batch_hard", "batch_hard+scale=5"}
    bgbias = ROOT / "src"
    file = reader.folder / "my_plugins/losses/batch_hard.py"
    before = file.read_text(encoding="utf-8")
    file.write_text(before.replace("(farthest - nearest)", "(farthest - nearest + 0.1)"), encoding="utf-8")
    status = Project(reader.folder).run("bgbias", "status", PYTHONPATH=str(bgbias), check=False).stdout
    assert "losses/batch_hard.py" in status
    file.write_text(before, encoding="utf-8")


def a_method(reader: Newcomer) -> None:
    """It has its row, and what it returns its column."""
    assert _table(reader)["method"].tolist() == ["plain", "bgaugment", "held"]
    assert "moved" in reader.said.split(",")


def a_condition(reader: Newcomer) -> None:
    """It has its values; no model was trained for it."""
    assert "rule train:" not in reader.said
    of_mine = [
        line for line in reader.said.splitlines() if "dimmed_background" in line and "map_at_r" in line
    ]
    assert len(of_mine) == 2 * 3  # settings, methods


def a_kind_of_model(reader: Newcomer) -> None:
    """There is a verdict of it."""
    assert "slopes:4" in reader.said
    assert list((reader.folder / "slopes").glob("*.csv"))


OUTCOMES: dict[str, Callable[[Newcomer], None]] = {
    "A loss": a_loss,
    "A method": a_method,
    "A condition": a_condition,
    "A kind of model": a_kind_of_model,
}


def _table(reader: Newcomer) -> pd.DataFrame:
    return pd.read_csv(reader.folder / "data/report/evening/table1.csv")
