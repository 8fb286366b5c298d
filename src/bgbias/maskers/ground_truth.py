"""The masks that come with the photos: exact for rendered datasets, drawn by hand for real ones. Nothing is predicted."""

from __future__ import annotations

from bgbias.strict import Strict

NEEDS_TRUTH = True


class Params(Strict):
    """No options: the dataset brings its masks."""
