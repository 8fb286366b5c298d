"""The page of Snakemake's --report: tables, figures and rules in one file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from project import Project

pytestmark = pytest.mark.workflow


def test_page_says_what_the_study_is_and_how_each_result_is_made_again(
    smoke_run: Project, tmp_path: Path
) -> None:
    run = smoke_run.copy(tmp_path / "project")
    run.snakemake("--report", "page.html", "--config", "grid=smoke")
    text = (run.folder / "page.html").read_text(encoding="utf-8")
    assert "Models of the grid <em>smoke</em>" in text
    assert "What training took" in text
    results = json.loads(re.search(r"var results = (\{.*\});", text)[1])  # type: ignore[index]
    assert {p.rpartition("/")[2] for p in results} == {
        *("table1.html", "table2.html", "table3.html"),
        *("photos.png", "masks.png", "retrieval.png", "attribution.png", "change.png", "drop.png"),
    }
    for path, result in results.items():
        name = Path(path).stem
        node = "table" if name.startswith("table") else "figure"
        assert f"python -m bgbias {node} {name} --grid smoke" in re.sub("<.*?>", "", result["caption"])
