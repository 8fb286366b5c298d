"""Draw the rules of the grid `paper` into docs/workflow.md, as Snakemake plans them: `make rulegraph`.

GitHub draws Mermaid. Left out are the target `all` and arrows that follow from others.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs/workflow.md"
BEGIN, END = "<!-- rulegraph: written by `make rulegraph` -->\n", "<!-- end of rulegraph -->\n"
COMMAND = ("--config", "grid=paper", "--rulegraph", "mermaid-js")
Arrow = tuple[str, str]


def arrows(said: str) -> set[Arrow]:
    """What Snakemake said, as (rule, other rule that reads from it)."""
    names = dict(re.findall(r"^\s*(id\d+)\[(\w+)\]$", said, re.MULTILINE))
    found = re.findall(r"^\s*(id\d+) --> (id\d+)$", said, re.MULTILINE)
    return {(names[a], names[b]) for a, b in found if names[b] != "all" and a != b}


def essential(found: set[Arrow]) -> set[Arrow]:
    """Arrows without which the order would be another one."""
    return {(a, b) for a, b in found if not _follows(a, b, found - {(a, b)})}


def mermaid(found: set[Arrow]) -> str:
    """The rules from left to right."""
    lines = "".join(f"    {a} --> {b}\n" for a, b in sorted(essential(found)))
    return f"```mermaid\nflowchart LR\n{lines}```\n"


def drawn(text: str, graph: str) -> str:
    """A text with the graph between its two marks."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + graph + END + rest.split(END)[1]


def _follows(a: str, b: str, found: set[Arrow]) -> bool:
    return any(y == b or _follows(y, b, found) for x, y in found if x == a)


if __name__ == "__main__":
    command = [sys.executable, "-m", "snakemake", *COMMAND]
    said = subprocess.run(command, cwd=PAGE.parents[1], check=True, stdout=subprocess.PIPE, text=True).stdout
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8"), mermaid(arrows(said))), encoding="utf-8")
