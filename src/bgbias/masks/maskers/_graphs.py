"""Saliency networks that are ONNX graphs, one photo in, one map out: published ones, run as rembg runs them, and any other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bgbias.masks.maskers._params import NETWORKS, SaliencyRecipe, describe_network
from bgbias.masks.maskers._params import GraphParams as Params

if TYPE_CHECKING:
    from bgbias.masks.onnx_saliency import GraphMasker

PREDICTS = True
SPEED: tuple[str, ...] = ()
FILES: tuple[str, ...] = ()


class OwnParams(SaliencyRecipe, Params):
    """What no graph tells of itself."""

    @property
    def guesses(self) -> str:
        """What nobody gave, for a person; empty if all is given."""
        options = self.model_dump(include=set(SaliencyRecipe.model_fields))
        guessed = [f"{n} {v}" for n, v in options.items() if n not in self.model_fields_set]
        return f"guessed, because no graph says it: {', '.join(guessed)}" if guessed else ""


def _published(name: str) -> dict[str, Any]:

    def build(params: Params, device: str) -> GraphMasker:
        from bgbias.masks.onnx_saliency import build_masker

        recipe = SaliencyRecipe(**NETWORKS[name]["recipe"])
        return build_masker(name, params, recipe, device, NETWORKS[name]["side"])

    return describe_network(name) | {"build": build}


def _build_own(params: OwnParams, device: str) -> GraphMasker:
    from bgbias.masks.onnx_saliency import build_masker

    return build_masker("onnx", params, params, device)


MEMBERS: dict[str, dict[str, Any]] = {
    **{name: _published(name) for name in ("birefnet", "birefnet_lite", "isnet")},
    "onnx": {
        "__doc__": "Any saliency network that is an ONNX graph: one photo in, one map out. Its file is yours, and so is its"
        " licence to look at.",
        "Params": OwnParams,
        "build": _build_own,
    },
}
