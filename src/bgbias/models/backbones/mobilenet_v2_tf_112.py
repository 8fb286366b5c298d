"""``mobilenet_v2_tf`` on photos of half the side: a quarter of the cost, where a CPU attacks or trains on real photos."""

from __future__ import annotations

from dataclasses import replace

from bgbias.models.backbones import mobilenet_v2_tf
from bgbias.models.backbones.mobilenet_v2_tf import HEAD, PREFIX, Params, build

__all__ = ["FACTS", "HEAD", "PREFIX", "Params", "build"]

FACTS = replace(mobilenet_v2_tf.FACTS, input_size=112, resize=128)
