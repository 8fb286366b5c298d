"""``resnet50`` on photos of 96 pixels, as STL-10's are: a fifth of the cost. What is published was trained on larger ones."""

from __future__ import annotations

from dataclasses import replace

from bgbias.models.backbones import resnet50
from bgbias.models.backbones.resnet50 import HEAD, PUBLISHED, Params, build

__all__ = ["FACTS", "HEAD", "PUBLISHED", "Params", "build"]

FACTS = replace(resnet50.FACTS, input_size=96, resize=96)
