"""IS-Net for general use (Qin et al., ECCV 2022): finer edges than U²-Net, by the same authors, seen at 1024 pixels.

Licence: Apache-2.0 for the authors' code and metric (github.com/xuebinqin/DIS), who publish the weights there without naming
another; the photos of their data set DIS5K have terms of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias.files.fetch import Source
from bgbias.masks.maskers._graph_params import MEAN, GraphParams

if TYPE_CHECKING:
    from bgbias.masks.onnx_saliency import GraphMasker

PREDICTS = True
SPEED: tuple[str, ...] = ()
FILES: tuple[str, ...] = ()
# rembg's: the authors publish a .pth.
PUBLISHED = (
    Source(
        place="https://github.com/danielgatis/rembg/releases/download/v0.0.0/isnet-general-use.onnx",
        size=178_648_008,
        md5="fc16ebd8b0c10d971d3513d564d01e29",
        sha256="60920e99c45464f2ba57bee2ad08c919a52bbf852739e96947fbb4358c0d964a",
    ),
)


class Params(GraphParams):
    """``weights``: ``isnet-general-use.onnx``."""


def build(params: Params, device: str) -> GraphMasker:
    """The masker on ``device`` ("cpu", "cuda"); UserError where weights, library or device are missing."""
    from bgbias.masks.onnx_saliency import SaliencyRecipe, build_masker

    # rembg's; the authors' own script takes 0.5 away from each colour. The graph ends in a sigmoid.
    recipe = SaliencyRecipe(MEAN, std=(1.0, 1.0, 1.0), sigmoid=False, side=1024)
    return build_masker("isnet", params, recipe, device)
