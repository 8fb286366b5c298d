"""The notebook is executed from its first cell to its last, in a project whose smallest grid is made."""

from __future__ import annotations

import ast
import json
import subprocess
from typing import Any

import pytest

from tests.support.project import ROOT, Project

CELLS = json.loads((ROOT / "docs/walkthrough.ipynb").read_text(encoding="utf-8"))["cells"]


def test_every_cell_runs_and_says_what_the_text_promises(
    smoke_run: Project, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = smoke_run.copy(tmp_path / "project")
    monkeypatch.chdir(copy.folder)
    commands = []

    def run(command: list[str], check: bool) -> None:
        commands.append(command[2])
        copy.run(*command[2:], check=check)

    monkeypatch.setattr(subprocess, "run", run)
    names: dict[str, Any] = {"__name__": "walkthrough"}
    for number, cell in enumerate(cell for cell in CELLS if cell["cell_type"] == "code"):
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
