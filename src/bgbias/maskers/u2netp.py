"""U²-Net-p (Qin et al. 2020), the small net: a fortieth of the weights, masks a little less exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias.maskers._params import SaliencyParams

if TYPE_CHECKING:
    from bgbias.saliency import SaliencyMasker

PREDICTS = True
SPEED = ("batch_size",)
FILES: tuple[str, ...] = ()


class Params(SaliencyParams):
    """``weights``: ``u2netp.pth`` or the same names in a .safetensors file."""


def build(params: Params, device: str) -> SaliencyMasker:
    """The masker on ``device`` ("cpu", "cuda"); UserError where weights or device are missing."""
    from bgbias import u2net
    from bgbias.saliency import build_masker

    return build_masker("u2netp", u2net.u2netp, params, device)
