"""Saliency networks that are ONNX graphs, one photo in, one map out: published ones, run as rembg runs them, and any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from bgbias.masks.maskers._params import MEAN, STD, Colours, SaliencyRecipe, read_sources
from bgbias.masks.maskers._params import GraphParams as Params

if TYPE_CHECKING:
    from bgbias.masks.onnx_saliency import GraphMasker

PREDICTS = True
SPEED: tuple[str, ...] = ()
FILES: tuple[str, ...] = ()
BIREFNET_LICENCE = (
    "Licence: MIT, code and weights (github.com/ZhengPeng7/BiRefNet). Some data sets that it was trained on have terms of"
    " their own."
)
Positive = Annotated[float, Field(gt=0)]
BIREFNET = SaliencyRecipe(MEAN, STD, sigmoid=True, side=1024)
# rembg's; the authors' own script takes 0.5 away from each colour. The graph ends in a sigmoid.
ISNET = SaliencyRecipe(MEAN, std=(1.0, 1.0, 1.0), sigmoid=False, side=1024)


class OwnParams(Params):
    """What no graph tells of itself."""

    mean: Colours = Field(MEAN, description="of R, G and B in 0..1, taken away")
    std: tuple[Positive, Positive, Positive] = Field(STD, description="by which they are divided then")
    sigmoid: bool = Field(False, description="the graph gives logits")
    stretch: bool = Field(True, description="every photo's map to 0..1")
    output: str | None = Field(None, description="which output is the map; null: the first")

    @property
    def recipe(self) -> SaliencyRecipe:
        """How the graph is run."""
        return SaliencyRecipe(self.mean, self.std, self.sigmoid, stretch=self.stretch, output=self.output)

    @property
    def guesses(self) -> str:
        """What nobody gave, for a person; empty if all is given."""
        options = self.model_dump(include={"mean", "std", "sigmoid", "stretch", "output"})
        guessed = [f"{n} {v}" for n, v in options.items() if n not in self.model_fields_set]
        return f"guessed, because no graph says it: {', '.join(guessed)}" if guessed else ""


def _builder(name: str, recipe: SaliencyRecipe | None = None) -> Callable[[Any, str], GraphMasker]:

    def build(params: Any, device: str) -> GraphMasker:
        from bgbias.masks.onnx_saliency import build_masker

        return build_masker(name, params, recipe or params.recipe, device)

    return build


MEMBERS = {
    "birefnet": {
        "__doc__": "BiRefNet for general use (Zheng et al., CAAI AIR 2024), seen at 1024 pixels: the finest masks here, and"
        f" the slowest.\n\n{BIREFNET_LICENCE}",
        "build": _builder("birefnet", BIREFNET),
        "PUBLISHED": read_sources("birefnet"),
    },
    "birefnet_lite": {
        "__doc__": "BiRefNet with a Swin-T in place of its Swin-L (Zheng et al., CAAI AIR 2024): a quarter of the weights,"
        f" edges nearly as fine.\n\n{BIREFNET_LICENCE}",
        "build": _builder("birefnet_lite", BIREFNET),
        "PUBLISHED": read_sources("birefnet_lite"),
    },
    "isnet": {
        "__doc__": "IS-Net for general use (Qin et al., ECCV 2022): finer edges than U²-Net, by the same authors, seen at 1024"
        " pixels.\n\nLicence: Apache-2.0 for the authors' code and metric (github.com/xuebinqin/DIS), who publish the weights"
        " there without naming another; the photos of their data set DIS5K have terms of their own.",
        "build": _builder("isnet", ISNET),
        "PUBLISHED": read_sources("isnet"),
    },
    "onnx": {
        "__doc__": "Any saliency network that is an ONNX graph: one photo in, one map out. Its file is yours, and so is its"
        " licence to look at.",
        "Params": OwnParams,
        "build": _builder("onnx"),
    },
}
