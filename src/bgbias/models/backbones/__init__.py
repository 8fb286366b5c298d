"""Networks from a photo to a feature map, each with its preprocessing facts.

A file here offers ``FACTS``, ``Params`` and ``build(params)``, a trunk with random weights. Where weights are published it also
says where (``PUBLISHED``) and how their keys become the trunk's (``PREFIX``, taken away; ``HEAD``, the classifier, left out). A
file that stands for a library of networks (``VARIANTS`` says what goes behind the colon, as in ``timm:vit_tiny_patch16_224``)
offers ``facts``, ``likely_resize`` (of forecasts, which must not take long), ``build``, ``adapted`` and ``published``, which are
given the variant first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bgbias import plugins
from bgbias.models.preprocess import Preprocess

if TYPE_CHECKING:
    from torch import nn

    from bgbias.settings import Strict


@dataclass(frozen=True)
class Facts:
    """What a network was trained to see, and what it gives.

    ``input_size``: side of the square crop, pixels; ``resize``: short side of the photo before the crop; ``channels``: of the
    feature map.
    """

    input_size: int
    resize: int
    preprocess: Preprocess
    channels: int


def facts(name: str, params: Strict) -> Facts:
    """The facts of the backbone ``name`` with these options; a variant that does not exist is an error."""
    module, variant = plugins.load("backbones", name), plugins.variant(name)
    return module.facts(variant, params) if variant else module.FACTS


def build(name: str, params: Strict) -> nn.Module:
    """The trunk, float [B, 3, H, W] to [B, channels, h, w], with random weights from torch's global generator."""
    module, variant = plugins.load("backbones", name), plugins.variant(name)
    return module.build(variant, params) if variant else module.build(params)
