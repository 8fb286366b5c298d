"""Arithmetic that this machine lacks and a grid asks for: told before hours are spent on it."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator

from bgbias.compute import processor
from bgbias.engine import graph
from bgbias.engine.node import Node
from bgbias.study import plan
from bgbias.study.params import Study

# Whose settings say what a node computes in.
SECTIONS = {
    "train": "train",
    "embed": "evaluation",
    "embed_training": "evaluation",
    "cross": "evaluation",
    "cure": "evaluation",
    "attack": "evaluation",
    "attribute": "attribution",
    "sanity": "attribution",
}


def told(study: Study, current: Collection[Node]) -> str:
    """A sentence if nodes of the grid that are to be made compute in bf16 and neither a GPU nor the processor knows it; else
    nothing.
    """
    asking = [
        section
        for node in graph.in_order(study)
        if node not in current
        for section, precision in _asked(study, node)
        if precision == "bf16"
    ]
    if not asking or processor.bf16() != () or shutil.which("nvidia-smi"):
        return ""
    settings = " and ".join(f"{section}.precision" for section in dict.fromkeys(asking))
    return (
        f"{settings} of grid {study.grid}: bf16, for which this processor has no instructions. A step takes ten times as long as"
        " in fp32, or more; use another machine, or write fp32 there."
    )


def _asked(study: Study, node: Node) -> Iterator[tuple[str, str]]:
    """The section of params.yaml that says what a node computes in, and what it says."""
    if section := SECTIONS.get(node.name):
        yield section, getattr(node.study(study), section).precision
    elif node.name == "pretrain" and (named := plan.pretraining(study, node.keywords["backbone"])):
        yield f"pretrainings.{named.name}", named.params().precision
