"""The activation that a network computes: it changes all numbers, and weights in a file seldom tell it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from bgbias.errors import UserError
from bgbias.models.adapters import _weights

if TYPE_CHECKING:
    from torch import nn

KINDS = re.compile("GELU|ELU|ReLU|SiLU|Swish|Mish")
# Entries of OpenAI's own files, which were trained with QuickGELU.
OPENAI = {"input_resolution", "context_length", "vocab_size"}


def names(network: nn.Module) -> str:
    """Those that are modules of their own, by their classes; empty where there are none."""
    leaves = (m for m in network.modules() if not any(True for _ in m.children()))
    kinds = {str(getattr(leaf, "original_name", type(leaf).__name__)) for leaf in leaves}
    return ", ".join(sorted(filter(KINDS.search, kinds)))


def guess(name: str, weights: Path, quick: str) -> str:
    """The sentence on a file of weights for a network that computes GELU, and whose twin ``quick`` computes QuickGELU; a file
    that is known to want the twin is an error.
    """
    says = "its name says it" if "quickgelu" in weights.name.lower() else ""
    if _weights.read(weights, name)[0].keys() >= OPENAI:
        says = "it is one of OpenAI's files"
    if says:
        raise UserError(
            f"{weights} was trained with QuickGELU ({says}), and {name} computes GELU: name {quick}."
        )
    return (
        f"{name} computes GELU, and {weights.name} does not tell its activation. Weights of OpenAI, among others, were trained"
        f" with QuickGELU: {quick} computes that."
    )
