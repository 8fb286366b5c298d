"""`snakemake --use-conda`, with a stand-in for conda, which package registries do not have.

What is real is Snakemake's side: which file describes a rule's environment, and that the rule's command runs inside it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from project import Project

pytestmark = [pytest.mark.slow, pytest.mark.workflow]

# It makes environments that hold this one's Python.
CONDA = """\
#!{python}
import json, sys
from pathlib import Path

words = sys.argv[1:]
if words[:1] == ["info"]:
    print(json.dumps({{"conda_prefix": {folder!r}, "platform": "linux-64"}}))
elif words == ["--version"]:
    print("conda 99.0.0")
elif words[:1] == ["config"]:
    print(json.dumps({{"get": {{"channel_priority": "strict"}}}}))
elif words[:2] == ["env", "create"]:
    chosen = Path(words[words.index("--prefix") + 1])
    (chosen / "bin").mkdir(parents=True)
    (chosen / "described.yaml").write_bytes(Path(words[words.index("--file") + 1]).read_bytes())
    python = chosen / "bin" / "python"
    python.write_text('#!/bin/sh\\necho "$@" >> "$CONDA_PREFIX/ran"\\nexec {python} "$@"\\n')
    python.chmod(0o755)
elif words[:1] != ["clean"]:
    sys.exit(f"the stand-in does not know: {{words}}")
"""
ACTIVATE = 'export CONDA_PREFIX="$1" PATH="$1/bin:$PATH"\n'


def test_a_rule_runs_in_the_environment_of_the_lock(smoke_run: Project, tmp_path: Path) -> None:
    tools = tmp_path / "conda/bin"
    tools.mkdir(parents=True)
    (tools / "conda").write_text(CONDA.format(python=sys.executable, folder=str(tools.parent)))
    (tools / "conda").chmod(0o755)
    (tools / "activate").write_text(ACTIVATE)

    smoke = smoke_run.copy(tmp_path / "project")
    record = smoke.folder / "data/report/smoke/table2.json"
    record.unlink()
    path = os.pathsep.join([str(tools), smoke.environment()["PATH"]])
    options = ("--use-conda", "--conda-prefix", "environments", "--config", "grid=smoke")
    smoke.snakemake(*options, "--", "table2", PATH=path)

    (described,) = (smoke.folder / "environments").glob("*/described.yaml")
    assert described.read_bytes() == (smoke.folder / "workflow/envs/bgbias.yaml").read_bytes()
    assert "-m bgbias table table2 --grid smoke" in (described.parent / "ran").read_text(encoding="utf-8")
    assert record.exists()
