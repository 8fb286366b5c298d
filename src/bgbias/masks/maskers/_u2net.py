"""The nets behind the paper's masks. The authors' own files, as their README links them, and rembg's have the same weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bgbias.masks.maskers._params import SaliencyParams as Params
from bgbias.masks.maskers._params import read_sources

if TYPE_CHECKING:
    from bgbias.masks.saliency import SaliencyMasker
    from bgbias.masks.u2net import U2Net

PREDICTS = True
SPEED = ("batch_size",)
FILES: tuple[str, ...] = ()


def _net(name: str) -> dict[str, Any]:

    def network() -> U2Net:
        from bgbias.masks.u2net import NETS

        return NETS[name]()

    def build(params: Params, device: str) -> SaliencyMasker:
        from bgbias.masks.saliency import build_masker

        return build_masker(name, params, device)

    return {"network": network, "build": build, "PUBLISHED": read_sources(name)}


MEMBERS = {
    "u2net": {
        "__doc__": "U²-Net (Qin et al. 2020), the net behind the paper's masks: the best ones, for 176 MB of ``u2net.pth``.",
        **_net("u2net"),
    },
    "u2netp": {
        "__doc__": "U²-Net-p (Qin et al. 2020), the small net: a fortieth of the weights, masks a little less exact.",
        **_net("u2netp"),
    },
}
