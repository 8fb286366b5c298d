"""The nets behind the paper's masks. The authors' own files, as their README links them, and rembg's have the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from bgbias.files.fetch import Source
from bgbias.settings import Strict, read_yaml

if TYPE_CHECKING:
    from bgbias.masks.saliency import SaliencyMasker
    from bgbias.masks.u2net import U2Net

PREDICTS = True
SPEED = ("batch_size",)
FILES: tuple[str, ...] = ()
Colours = tuple[float, float, float]
# Of the colours R, G, B in 0..1, as usual for ImageNet.
MEAN: Colours = (0.485, 0.456, 0.406)
STD: Colours = (0.229, 0.224, 0.225)


class SaliencyParams(Strict):
    """``weights``: the authors' .pth, rembg's .onnx, or the names of the former in a .safetensors file."""

    weights: str | None = None
    input_size: int = Field(320, ge=32, le=2048)
    batch_size: int = Field(4, ge=1)
    precision: Literal["fp32", "bf16"] = "fp32"


Params = SaliencyParams


def read_sources(masker: str) -> tuple[Source, ...]:
    """The places of one of our maskers' weights, best first, as ``published.yaml`` lists them."""
    places = read_yaml(Path(__file__).with_name("published.yaml"))[masker]
    return tuple(Source(**place) for place in places)


def _net(name: str) -> dict[str, Any]:
    """How one of the nets is made, with random weights, and how its masker is built."""

    def network() -> U2Net:
        from bgbias.masks.u2net import NETS

        return NETS[name]()

    def build(params: SaliencyParams, device: str) -> SaliencyMasker:
        from bgbias.masks.saliency import build_masker

        return build_masker(name, params, device)

    return {"network": network, "build": build}


MEMBERS = {
    "u2net": {
        "__doc__": "U²-Net (Qin et al. 2020), the net behind the paper's masks: the best ones, for 176 MB of ``u2net.pth``.",
        **_net("u2net"),
        "PUBLISHED": read_sources("u2net"),
    },
    "u2netp": {
        "__doc__": "U²-Net-p (Qin et al. 2020), the small net: a fortieth of the weights, masks a little less exact.",
        **_net("u2netp"),
        "PUBLISHED": read_sources("u2netp"),
    },
}
