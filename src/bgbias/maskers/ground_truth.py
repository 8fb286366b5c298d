"""The masks that come with the photos: exact where rendered, hand-drawn elsewhere. Nothing is predicted."""

from __future__ import annotations

from bgbias.strict import Strict

NEEDS_TRUTH = True


class Params(Strict):
    """No options: the dataset brings its masks."""
