"""Settings of one-shot segmentation."""

from pydantic import Field

from bgbias.attribution.settings import SimilarityScore
from bgbias.settings import Strict


class Segmentation(Strict):
    """One-shot segmentation by similarity attention, then GrabCut (docs/methods.md, section 7); only where it is asked for."""

    episodes: int | None = Field(None, ge=1, description="test photos to segment; none if null")
    score: SimilarityScore = Field("magnitude", description="what similarity attention asks of a photo")
    sure: float = Field(0.33, gt=0, lt=1, description="share of either side that GrabCut never doubts")
    rounds: int = Field(5, ge=1, description="of GrabCut")
