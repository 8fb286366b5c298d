"""Settings of one-shot segmentation."""

from pydantic import Field

from bgbias.attribution.settings import SimilarityScore
from bgbias.settings import Strict


class Segmentation(Strict):
    """One-shot segmentation by similarity attention, then GrabCut (docs/methods.md, section 7); only where it is asked for."""

    episodes: int | None = Field(
        None, ge=1, description="test photos to segment, a keyed subset of at most so many; none if null"
    )
    score: SimilarityScore = Field("magnitude", description="what similarity attention asks of a photo")
    sure: float = Field(
        0.33,
        gt=0,
        lt=1,
        description="what GrabCut starts from: such a share of a map's object is surely object, of the rest surely background",
    )
    rounds: int = Field(5, ge=1, description="of GrabCut")
