"""Settings of attribution."""

from typing import Literal

from pydantic import Field

from bgbias.settings import Strict

GRADIENTS, OCCLUSION = "gradients", "occlusion"  # by which maps are made
# What similarity attention asks of a photo (similarity.py).
SimilarityScore = Literal["magnitude", "published"]


class Attribution(Strict):
    """The attribution score (docs/methods.md, section 3)."""

    images: int | None = Field(None, ge=1, description="a keyed subset of so many test photos; all if null")
    samples: int = Field(
        25, ge=1, description="noisy copies of a photo that its attribution is averaged over"
    )
    noise: float = Field(0.15, gt=0, description="sigma as a share of the input's range")
    similarity: SimilarityScore | None = Field(
        None, description="also score similarity attention with a keyed photo of the class, asked in this way"
    )
    pretrained: bool = Field(
        False, description="also of backbones as they come, whose features are compared by their cosine"
    )
    precision: Literal["fp32", "bf16"] = Field("fp32", description="what the network computes in")


class Sanity(Strict):
    """Whether the attribution score is worth believing (docs/methods.md, section 3); only where it is asked for."""

    images: int | None = Field(
        None, ge=1, description="test photos, a keyed subset of at most so many; none if null"
    )
