"""What is followed from its first line to its last: the page on files of one's own, by a newcomer in an empty folder, and the
notebook, in a project whose smallest grid is made.
"""

import ast
import contextlib
import io
import json
import re
import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fitting
import numpy as np
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
    """Does what the page says, block by block, in full or without training; ``said``: what the last code printed, ``plans``: the
    models that each run trains.
    """

    def __init__(self, home: Path, in_full: bool) -> None:
        self.folder, self.in_full, self.said = home, in_full, ""
        self.plans: list[set[str]] = []
        (home / "bgbias").symlink_to(ROOT)

    def follow(self) -> None:
        for language, code in FENCE.findall((ROOT / "docs/own.md").read_text(encoding="utf-8")):
            if language == "text":
                assert self.said == code, "what the page shows"
            elif named := FILE.match(code):
                (self.folder / named[1]).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / named[1]).write_text(code, encoding="utf-8")
            else:
                {"python": self.python, "yaml": self.yaml, "sh": self.sh}[language](code)

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
        for line in commands.splitlines():
            tool, *words = shlex.split(line)
            if tool == "cd":
                self.folder /= words[0]
                continue
            if tool == "snakemake":
                with contextlib.chdir(self.folder):
                    nodes = graph.in_order(params.load(Path("params.yaml")))
                models = {n.keywords["cell"].name for n in nodes if n.name == "train"}
                self.plans.append({m.removeprefix("toys/tiny/").removesuffix("/seed0") for m in models})
            if self.in_full and tool in ("bgbias", "snakemake"):
                Project(self.folder).run(tool, *words, PYTHONPATH=str(ROOT / "src"))
            elif self.in_full or tool in ("mkdir", "cp"):
                subprocess.run([tool, *words], cwd=self.folder, check=True)


def _laid_over(below: Any, above: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _laid_over(below.get(key), value) for key, value in above.items()}


@pytest.mark.parametrize(
    "in_full", [False, pytest.param(True, marks=[pytest.mark.slow, pytest.mark.workflow])]
)
def test_a_newcomer_has_her_loss_method_condition_and_model_by_the_page_alone(
    tmp_path: Path, in_full: bool
) -> None:
    reader = Newcomer(tmp_path, in_full)
    reader.follow()
    assert reader.plans == [
        {"contrastive/plain", "batch_hard/plain"},
        {"contrastive/plain", "batch_hard+scale=1/plain", "batch_hard+scale=10/plain"},
        {"contrastive/plain", "contrastive/bgaugment", "contrastive/held"},
        # A condition trains no model.
        {"contrastive/plain", "contrastive/bgaugment", "contrastive/held"},
    ]
    plugins.use(reader.folder / "my_plugins", ROOT / "tests/support/plugins")
    assert fitting.method("held").loss(fitting.batch()).keys() >= {"loss", "moved"}
    condition = plugins.load("conditions", "dimmed_background")
    photo = SimpleNamespace(view=np.full((2, 2, 3), 100), foreground=SimpleNamespace(before=np.copy))
    assert (condition.DRAWS, condition.view(photo, 0).mean()) == (False, 25)
    assert adapters.load("slopes:4", adapters.Options()).embed(np.zeros((1, 64, 64, 3), np.uint8))[0].size
    plugins.use()


def test_every_cell_runs_and_says_what_the_text_promises(
    smoke_run: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = smoke_run.copy(tmp_path / "project")
    monkeypatch.chdir(copy.folder)
    commands = []

    def run(command: list[str], check: bool) -> None:
        commands.append(command[2])
        copy.run(*command[2:], check=check)

    monkeypatch.setattr(subprocess, "run", run)
    names: dict[str, Any] = {"__name__": "walkthrough"}
    cells = json.loads((ROOT / "docs/walkthrough.ipynb").read_text(encoding="utf-8"))["cells"]
    for number, cell in enumerate(cell for cell in cells if cell["cell_type"] == "code"):
        assert not cell["outputs"], "nothing that was computed once is kept"
        # As a notebook does, the last expression of a cell is shown.
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            print(eval(compile(ast.Expression(last.value), "shown", "eval"), names))
    shown = capsys.readouterr().out
    assert commands == ["snakemake"]
    assert "when only the query's background changes" in shown
    assert "plain: " in shown
