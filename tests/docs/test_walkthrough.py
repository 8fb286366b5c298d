"""The notebook is executed from its first cell to its last, in a project whose smallest grid is made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.project import ROOT, Project

NOTEBOOK = ROOT / "docs/walkthrough.ipynb"


def cells() -> list[str]:
    return [
        "".join(cell["source"])
        for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]


def test_every_cell_runs_and_says_what_the_text_promises(smoke_run: Project, tmp_path: Path) -> None:
    copy = smoke_run.copy(tmp_path / "project")
    # As a notebook does, the last expression of a cell is shown.
    program = "import ast\nshown = {}\n"
    for number, cell in enumerate(cells()):
        program += f"tree = ast.parse({cell!r})\n"
        program += "last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None\n"
        program += f"exec(compile(tree, 'cell {number}', 'exec'))\n"
        program += "if last: print(eval(compile(ast.Expression(last.value), 'shown', 'eval')))\n"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=copy.folder,
        env=copy.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "when only the query's background changes" in done.stdout
    assert "plain: " in done.stdout


def test_nothing_that_was_computed_once_is_kept_in_it() -> None:
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
