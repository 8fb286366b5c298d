"""AdvProp-D: photos attacked towards one of another class, through batch norms of their own (AP' in MDProp's paper, after Xie et
al., CVPR 2020; docs/methods.md, section 8)."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from bgbias.training.methods._adversarial import (
    BATCH_NORM,
    Adversarial,
    AttackParams,
    BatchNorm,
    attacked_classes,
    used,
)

TITLE = "AdvProp-D"
PLACE = 14
NEEDS: frozenset[str] = frozenset()
TRAINS = True
ATTACKS = ("stax",)


class Params(AttackParams):
    """As published: batch norms learn their statistics."""

    batch_norm: BatchNorm = Field("trained", description=BATCH_NORM)


def uses(params: Params) -> list[tuple[str, str]]:
    """Its attack."""
    return used(params, ATTACKS)


def classes(params: Params) -> int:
    """That a batch must have."""
    return attacked_classes(params, ATTACKS)


def needs_batch_norm(params: Params) -> bool:
    """For the attacked photos."""
    return bool(uses(params))


class Method(Adversarial):
    """Two distributions: clean photos and STAX."""

    @classmethod
    def named(cls, params: Any) -> tuple[str, ...]:
        """STAX alone."""
        return ATTACKS
