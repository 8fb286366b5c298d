"""The page on files of one's own, followed by a newcomer from its first line to its last, in an empty folder."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
from collections.abc import Iterator
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

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.(?:py|yaml))\n")


class Newcomer:
    """Does what the page says, block by block; ``said``: what the last command printed."""

    def __init__(self, home: Path) -> None:
        self.folder, self.said = home, ""
        (home / "bgbias").symlink_to(ROOT)

    def follow(self) -> Iterator[str]:
        """Does all that the page says, section by section; gives the title of each that is done."""
        text = (ROOT / "docs/own.md").read_text(encoding="utf-8")
        parts = ["The study", *re.split(r"^## (.+)\n", text, flags=re.MULTILINE)]
        for title, section in zip(parts[::2], parts[1::2], strict=True):
            for language, code in FENCE.findall(section):
                if language == "text":
                    assert self.said == code, "what the page shows"
                elif named := FILE.match(code):
                    (self.folder / named[1]).parent.mkdir(parents=True, exist_ok=True)
                    (self.folder / named[1]).write_text(code, encoding="utf-8")
                else:
                    {"python": self.python, "yaml": self.yaml, "sh": self.sh}[language](code)
            yield title
        plugins.use()

    def python(self, code: str) -> None:
        shown = io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(shown):
            exec(compile(code, "page", "exec"), {"__name__": "page"})
        self.said = shown.getvalue()

    def yaml(self, code: str) -> None:
        """Adds to params.yaml what follows: lists are replaced."""
        file = self.folder / "params.yaml"
        now = _laid_over(yaml.safe_load(file.read_text(encoding="utf-8")), yaml.safe_load(code))
        file.write_text(yaml.safe_dump(now, sort_keys=False), encoding="utf-8")

    def sh(self, commands: str) -> None:
        self.said = ""
        for line in commands.splitlines():
            tool, *words = shlex.split(line)
            if tool == "cd":
                self.folder /= words[0]
            elif tool in ("mkdir", "cp"):
                subprocess.run([tool, *words], cwd=self.folder, check=True)
            else:
                self.said += self.run(tool, *words)

    def run(self, tool: str, *words: str) -> str:
        if tool in ("bgbias", "snakemake"):
            return Project(self.folder).run(tool, *words, PYTHONPATH=str(ROOT / "src")).stdout
        return subprocess.check_output([tool, *words], cwd=self.folder, text=True)


def _laid_over(below: Any, above: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _laid_over(below.get(key), value) for key, value in above.items()}


class Planner(Newcomer):
    """Does the same without training anything: instead of a run, the models that would be trained are planned."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.plans: list[set[str]] = []

    def run(self, tool: str, *words: str) -> str:
        if tool == "snakemake":
            with contextlib.chdir(self.folder):
                nodes = graph.in_order(params.load(Path("params.yaml")))
            self.plans.append({n.keywords["cell"].name for n in nodes if n.name == "train"})
        return ""


def test_what_the_page_adds_is_planned(tmp_path: Path) -> None:
    reader = Planner(tmp_path)
    assert list(reader.follow())
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
    done = {}
    for title in reader.follow():
        report = reader.folder / "data/report/evening/table1.csv"
        done[title] = (reader.said, pd.read_csv(report) if report.exists() else pd.DataFrame())
    losses = ["contrastive", "batch_hard+scale=1", "batch_hard+scale=10"]
    assert done["A loss"][1]["loss"].tolist() == losses
    said, table = done["A method"]
    assert table["method"].tolist() == ["plain", "bgaugment", "held"]
    assert "moved" in said.split(",")  # what it returns has its column
    said, _ = done["A condition"]
    assert "rule train:" not in said
    of_mine = [line for line in said.splitlines() if "dimmed_background" in line and "map_at_r" in line]
    assert len(of_mine) == 2 * 3  # settings, methods
    assert "slopes:4" in done["A kind of model"][0]
    assert list((reader.folder / "slopes").glob("*.csv"))
