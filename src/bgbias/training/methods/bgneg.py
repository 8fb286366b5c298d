"""Background-only negatives: each photo is kept away from itself with its surroundings over its object
(docs/methods.md, section 6)."""

from __future__ import annotations

from bgbias.training.methods._negatives import NegativeParams
from bgbias.training.methods._surroundings import Surroundings

TITLE = "Background as negative"
PLACE = 19
NEEDS = frozenset({"masks"})
TRAINS = True
REPELS = True
Params = NegativeParams


class Method(Surroundings):
    """What is covered has the object's shape."""

    BOX = False
