"""CMC at 5 in a gallery with one photo of each person, the classic protocol of CUHK03 (Li et al., CVPR 2014; docs/methods.md,
section 15).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bgbias.evaluation.metrics._cmc import within_persons

if TYPE_CHECKING:
    from bgbias.evaluation.whole_gallery import WholeRanking

TITLE = "CMC@5, single shot"
WHOLE = True


def per_query(n: WholeRanking) -> np.ndarray:
    """The mean over all such galleries, 0..1, float64 [N]; NaN for a query with nobody to find."""
    return within_persons(n, 5)
