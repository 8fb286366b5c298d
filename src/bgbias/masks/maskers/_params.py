"""Options of the networks that predict masks, apart from them: planning must not import torch."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from bgbias.files.fetch import Source
from bgbias.settings import Strict, read_yaml

Colours = tuple[float, float, float]
Positive = Annotated[float, Field(gt=0)]
# Of the colours R, G, B in 0..1, as usual for ImageNet.
MEAN: Colours = (0.485, 0.456, 0.406)
STD: Colours = (0.229, 0.224, 0.225)
NETWORKS: dict[str, dict[str, Any]] = read_yaml(Path(__file__).with_name("networks.yaml"))


def describe_network(name: str) -> dict[str, Any]:
    """What ``networks.yaml`` says of one of our maskers for people, and the places of its weights, best first."""
    row = NETWORKS[name]
    paragraphs = [row["doc"], *([row["licence"]] if "licence" in row else [])]
    return {"__doc__": "\n\n".join(paragraphs), "PUBLISHED": tuple(Source(**p) for p in row["published"])}


class SaliencyParams(Strict):
    """``weights``: the authors' .pth, rembg's .onnx, or the names of the former in a .safetensors file."""

    weights: str | None = None
    input_size: int = Field(320, ge=32, le=2048)
    batch_size: int = Field(4, ge=1)
    precision: Literal["fp32", "bf16"] = "fp32"


class GraphParams(Strict):
    """``weights``: the file that is published, or its copy."""

    weights: str | None = Field(None, description="an .onnx file, its URL, or `published`")
    input_size: int | None = Field(
        None, ge=32, le=4096, description="side in pixels at which a graph looks that takes any"
    )


class SaliencyRecipe(Strict):
    """What a graph wants of a photo, and what its map is."""

    mean: Colours = Field(MEAN, description="of R, G and B in 0..1, taken away")
    std: tuple[Positive, Positive, Positive] = Field(STD, description="by which they are divided then")
    sigmoid: bool = Field(False, description="the graph gives logits")
    stretch: bool = Field(True, description="every photo's map to 0..1")
    output: str | None = Field(None, description="which output is the map; null: the first")
