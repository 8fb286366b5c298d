"""U²-Net (Qin et al. 2020), the net behind the paper's masks: the best ones, for 176 MB of ``u2net.pth``."""

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
        place="https://github.com/danielgatis/rembg/releases/download/v0.0.0/u2net.onnx",
        md5="60024c5c889badc19c04ad937298a77b",
        sha256="8d10d2f3bb75ae3b6d527c77944fc5e7dcd94b29809d47a739a7a728a912b491",
    ),
    Source(
        place="https://drive.google.com/uc?id=1ao1ovG1Qtx4b7EoskHXmi2E9rp5CHLcZ",
        file="u2net.pth",
        sha256="10025a17f49cd3208afc342b589890e402ee63123d6f2d289a4a0903695cce58",
    ),
)


class Params(SaliencyParams):
    """``weights``: ``u2net.pth``, rembg's ``u2net.onnx``, or the names of the former in a .safetensors file."""


def network() -> U2Net:
    """The net, with random weights."""
    from bgbias.masks import u2net

    return u2net.u2net()


def build(params: Params, device: str) -> SaliencyMasker:
    """The masker on ``device`` ("cpu", "cuda"); UserError where weights or device are missing."""
    from bgbias.masks.saliency import build_masker

    return build_masker("u2net", network, params, device)
