"""Background-only negatives whose surroundings cover the box around the object, so that its outline is gone, too
(docs/methods.md, section 6)."""

from __future__ import annotations

from bgbias.training.methods._negatives import NegativeParams
from bgbias.training.methods._surroundings import Surroundings

TITLE = "Background as negative, box"
PLACE = 20
NEEDS = frozenset({"masks"})
TRAINS = True
REPELS = True
Params = NegativeParams


class Method(Surroundings):
    """What is covered has the shape of a box."""

    BOX = True
