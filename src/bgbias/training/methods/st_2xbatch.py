"""Plain training on batches of twice the size, as many photos a step as MDProp with one attack has: a control
(docs/methods.md, section 8)."""

from __future__ import annotations

from bgbias.settings import Strict
from bgbias.training.methods._adversarial import NormParams, Standard

TITLE = "Plain, twice the batch"
PLACE = 12
NEEDS: frozenset[str] = frozenset()
TRAINS = True
Params = NormParams


class Method(Standard):
    """The base loss of twice as many photos, of twice as many classes."""

    batches_a_step = 2

    @classmethod
    def photos_a_step(cls, params: Strict, batch_size: int) -> tuple[int, int]:
        """Both batches."""
        return 2 * batch_size, 2 * batch_size
