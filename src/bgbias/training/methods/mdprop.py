"""MDProp: photos of several attacks, each through batch norms of its own ("Advancing deep metric learning through multiple batch
norms and multi-targeted adversarial examples"; docs/methods.md, section 8)."""

from __future__ import annotations

from pydantic import Field

from bgbias.training.methods._adversarial import (
    BATCH_NORM,
    Adversarial,
    BatchNorm,
    ChosenAttacks,
    attacked_classes,
    used,
)

TITLE = "MDProp"
PLACE = 15
ENTRIES = {
    "mdprop_2": "MDProp, 2 attacks",
    "mdprop_2_strong": "MDProp, 2 attacks at 0.1",
    "mdprop_3": "MDProp, 3 attacks",
}
NEEDS: frozenset[str] = frozenset()
TRAINS = True


class Params(ChosenAttacks):
    """The paper's MP' with three targets; MP'' is [stax, mtax:5], MP''' [stax, mtax:3, mtax:5]."""

    attacks: tuple[str, ...] = Field(
        ("mtax:3",), min_length=1, description="names of files in attacks/: [stax, mtax:5]"
    )
    batch_norm: BatchNorm = Field("trained", description=BATCH_NORM)


def uses(params: Params) -> list[tuple[str, str]]:
    """Its attacks."""
    return used(params, params.attacks)


def classes(params: Params) -> int:
    """That a batch must have."""
    return attacked_classes(params, params.attacks)


def needs_batch_norm(params: Params) -> bool:
    """For the attacked photos."""
    return bool(uses(params))


class Method(Adversarial):
    """Clean photos, and each attack's."""
