"""BiRefNet with a Swin-T in place of its Swin-L (Zheng et al., CAAI AIR 2024): a quarter of the weights, edges nearly as fine.

Licence: MIT, code and weights (github.com/ZhengPeng7/BiRefNet). Some data sets that it was trained on have terms of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias.files.fetch import Source
from bgbias.masks.maskers import _birefnet
from bgbias.masks.maskers._graph_params import GraphParams

if TYPE_CHECKING:
    from bgbias.masks.onnx_saliency import GraphMasker

PREDICTS = True
SPEED: tuple[str, ...] = ()
FILES: tuple[str, ...] = ()
GRAPH = "BiRefNet-general-bb_swin_v1_tiny-epoch_232.onnx"
# rembg's, and the same file in the authors' own release.
PUBLISHED = tuple(
    Source(
        place=place,
        file=GRAPH,
        size=224_005_088,
        md5="4fab47adc4ff364be1713e97b7e66334",
        sha256="5600024376f572a557870a5eb0afb1e5961636bef4e1e22132025467d0f03333",
    )
    for place in (
        f"https://github.com/danielgatis/rembg/releases/download/v0.0.0/{GRAPH}",
        f"https://github.com/ZhengPeng7/BiRefNet/releases/download/v1/{GRAPH}",
    )
)


class Params(GraphParams):
    """``weights``: ``BiRefNet-general-bb_swin_v1_tiny-epoch_232.onnx``."""


def build(params: Params, device: str) -> GraphMasker:
    """The masker on ``device`` ("cpu", "cuda"); UserError where weights, library or device are missing."""
    return _birefnet.build("birefnet_lite", params, device)
