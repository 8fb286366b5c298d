"""Draw the rules into docs/workflow.md, as Snakemake plans them for a grid that needs each of them: `make rulegraph`.

GitHub draws Mermaid. Left out are the target `all` and arrows that follow from others.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from bgbias.study import params

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/workflow.md"
BEGIN, END = "<!-- rulegraph: written by `make rulegraph` -->\n", "<!-- end of rulegraph -->\n"
Arrow = tuple[str, str]


def command(folder: Path) -> tuple[str, ...]:
    """Arguments of Snakemake that print the graph; ``folder`` gets the settings: published weights, both kinds of background
    pools, pretraining, textures, segmentation, controls, both kinds of probes and attacks.
    """
    study = params.read(ROOT / "params.yaml")
    study["backgrounds"]["walls"] = {"propose": {"source": str(folder), "masker": "u2net"}}
    study["datasets"]["indoors"] = study["datasets"]["cub200"] | {
        "backgrounds": "walls",
        "fit_probes_on": "indoors",
    }
    cells = {"losses": ["contrastive"], "methods": ["bgaugment", "texture_ns"], "seeds": [0]}
    cells |= {"datasets": ["cub200", "indoors"], "backbones": ["resnet18", "learned"]}
    study["pretrainings"]["here"] = {"kind": "moco_v2", "negatives": "surroundings"}
    study["backbones"]["learned"] = study["backbones"]["resnet18"] | {
        "kind": "resnet18",
        "pretraining": "here",
    }
    asked = {"segmentation": {"episodes": 1}, "crossing": {"objects": 2}, "sanity": {"images": 1}}
    asked |= {"cures": {"names": ["grey"]}, "attacked": {"attacks": ["stax"]}, "probes": {"folds": 2}}
    study["grids"]["every_rule"] = {"cells": [cells], **asked}
    path = folder / "params.yaml"
    path.write_text(yaml.safe_dump(study), encoding="utf-8")
    return "--config", f"params={path}", "grid=every_rule", "--rulegraph", "mermaid-js"


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
    with tempfile.TemporaryDirectory() as folder:
        call = [sys.executable, "-m", "snakemake", *command(Path(folder))]
        said = subprocess.run(call, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8"), mermaid(arrows(said))), encoding="utf-8")
