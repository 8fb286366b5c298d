"""The nets behind the paper's masks. The authors' own files, as their README links them, and rembg's have the same weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bgbias.files.fetch import Source
from bgbias.masks.maskers._params import REMBG, SaliencyParams

if TYPE_CHECKING:
    from bgbias.masks.saliency import SaliencyMasker
    from bgbias.masks.u2net import U2Net

PREDICTS = True
SPEED = ("batch_size",)
FILES: tuple[str, ...] = ()
DRIVE = "https://drive.google.com/uc?id="


class Params(SaliencyParams):
    """``weights``: the authors' .pth, rembg's .onnx, or the names of the former in a .safetensors file."""


def _net(name: str) -> dict[str, Any]:
    """How one of the nets is made, with random weights, and how its masker is built."""

    def network() -> U2Net:
        from bgbias.masks.u2net import NETS

        return NETS[name]()

    def build(params: Params, device: str) -> SaliencyMasker:
        from bgbias.masks.saliency import build_masker

        return build_masker(name, params, device)

    return {"network": network, "build": build}


MEMBERS = {
    "u2net": {
        "__doc__": "U²-Net (Qin et al. 2020), the net behind the paper's masks: the best ones, for 176 MB of ``u2net.pth``.",
        **_net("u2net"),
        "PUBLISHED": (
            Source(
                place=f"{REMBG}/u2net.onnx",
                md5="60024c5c889badc19c04ad937298a77b",
                sha256="8d10d2f3bb75ae3b6d527c77944fc5e7dcd94b29809d47a739a7a728a912b491",
            ),
            Source(
                place=f"{DRIVE}1ao1ovG1Qtx4b7EoskHXmi2E9rp5CHLcZ",
                file="u2net.pth",
                sha256="10025a17f49cd3208afc342b589890e402ee63123d6f2d289a4a0903695cce58",
            ),
        ),
    },
    "u2netp": {
        "__doc__": "U²-Net-p (Qin et al. 2020), the small net: a fortieth of the weights, masks a little less exact.",
        **_net("u2netp"),
        "PUBLISHED": (
            Source(
                place=f"{REMBG}/u2netp.onnx",
                md5="8e83ca70e441ab06c318d82300c84806",
                sha256="309c8469258dda742793dce0ebea8e6dd393174f89934733ecc8b14c76f4ddd8",
            ),
            Source(
                place=f"{DRIVE}1rbSTGKAE-MTxBYHd-51l2hMOQPT_7EPy",
                file="u2netp.pth",
                sha256="e7567cde013fb64813973ce6e1ecc25a80c05c3ca7adbc5a54f3c3d90991b854",
            ),
        ),
    },
}
