"""BiRefNet for general use (Zheng et al., CAAI AIR 2024), seen at 1024 pixels: the finest masks here, and the slowest.

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
GRAPH = "BiRefNet-general-epoch_244.onnx"
# rembg's, and the same file as Hugging Face's ONNX community has it.
PUBLISHED = tuple(
    Source(
        place=place,
        file=GRAPH,
        size=972_666_916,
        md5="7a35a0141cbbc80de11d9c9a28f52697",
        sha256="58f621f00f5d756097615970a88a791584600dcf7c45b18a0a6267535a1ebd3c",
    )
    for place in (
        f"https://github.com/danielgatis/rembg/releases/download/v0.0.0/{GRAPH}",
        "https://huggingface.co/onnx-community/BiRefNet-ONNX/resolve/main/onnx/model.onnx",
    )
)


class Params(GraphParams):
    """``weights``: ``BiRefNet-general-epoch_244.onnx``."""


def build(params: Params, device: str) -> GraphMasker:
    """The masker on ``device`` ("cpu", "cuda"); UserError where weights, library or device are missing."""
    return _birefnet.build("birefnet", params, device)
