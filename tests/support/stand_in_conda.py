"""A stand-in for conda, which package registries do not have: it makes environments that hold this one's Python.

What is real is Snakemake's side: which file describes a rule's environment, when it is made, and that the rule's command
runs inside it.
"""

from __future__ import annotations

import sys
from pathlib import Path

CONDA = """\
#!{python}
import json, os, sys
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


def install(folder: Path) -> Path:
    """Make the stand-in below ``folder``; the folder that comes back belongs into PATH."""
    tools = folder / "bin"
    tools.mkdir(parents=True)
    (tools / "conda").write_text(CONDA.format(python=sys.executable, folder=str(folder)), encoding="utf-8")
    (tools / "conda").chmod(0o755)
    (tools / "activate").write_text(ACTIVATE, encoding="utf-8")
    return tools
