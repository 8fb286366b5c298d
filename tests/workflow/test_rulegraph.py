"""The documents' graph of rules is the one that Snakemake plans."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import project
import pytest
from project import ROOT

from bgbias import plugins
from bgbias.engine.node import TOGETHER


@pytest.mark.workflow
def test_the_page_shows_the_rules_as_snakemake_plans_them(tmp_path: Path) -> None:
    drawing = runpy.run_path(str(ROOT / "workflow/rulegraph.py"))
    planned = project.fresh(tmp_path / "project").snakemake(*drawing["command"](tmp_path))
    graph = drawing["mermaid"](drawing["arrows"](planned))
    text = (ROOT / "docs/workflow.md").read_text(encoding="utf-8")
    assert drawing["drawn"](text, graph) == text, "run: make rulegraph"
    rules = {*plugins.names("nodes"), "evaluate"} - set(TOGETHER)
    assert set(re.findall(r"\w+(?= -->)|(?<=--> )\w+", graph)) == rules
