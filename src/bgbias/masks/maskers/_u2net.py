"""The nets behind the paper's masks. The authors' own files, as their README links them, and rembg's have the same weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bgbias.masks.maskers._params import SaliencyParams as Params
from bgbias.masks.maskers._params import describe_network

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

    return describe_network(name) | {"network": network, "build": build}


MEMBERS = {name: _net(name) for name in ("u2net", "u2netp")}
