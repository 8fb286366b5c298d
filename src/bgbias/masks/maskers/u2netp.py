"""U²-Net-p (Qin et al. 2020), the small net: a fortieth of the weights, masks a little less exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias.files.fetch import Source
from bgbias.masks.maskers._params import SaliencyParams

if TYPE_CHECKING:
    from bgbias.masks.saliency import SaliencyMasker
    from bgbias.masks.u2net import U2Net

PREDICTS = True
SPEED = ("batch_size",)
FILES: tuple[str, ...] = ()
# rembg's, with which the paper's masks were made, and the authors' own file, as their README links it: the same weights.
PUBLISHED = (
    Source(
        place="https://github.com/danielgatis/rembg/releases/download/v0.0.0/u2netp.onnx",
        md5="8e83ca70e441ab06c318d82300c84806",
        sha256="309c8469258dda742793dce0ebea8e6dd393174f89934733ecc8b14c76f4ddd8",
    ),
    Source(
        place="https://drive.google.com/uc?id=1rbSTGKAE-MTxBYHd-51l2hMOQPT_7EPy",
        file="u2netp.pth",
        sha256="e7567cde013fb64813973ce6e1ecc25a80c05c3ca7adbc5a54f3c3d90991b854",
    ),
)


class Params(SaliencyParams):
    """``weights``: ``u2netp.pth``, rembg's ``u2netp.onnx``, or the names of the former in a .safetensors file."""


def network() -> U2Net:
    """The net, with random weights."""
    from bgbias.masks import u2net

    return u2net.u2netp()


def build(params: Params, device: str) -> SaliencyMasker:
    """The masker on ``device`` ("cpu", "cuda"); UserError where weights or device are missing."""
    from bgbias.masks.saliency import build_masker

    return build_masker("u2netp", network, params, device)
