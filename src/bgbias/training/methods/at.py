"""Adversarial training as usual: attacked photos beside the clean ones, through the same batch norms (the baseline AT of MDProp;
docs/methods.md, section 8)."""

from __future__ import annotations

from pydantic import Field

from bgbias.training.methods._adversarial import Adversarial, ChosenAttacks, attacked_classes, used

TITLE = "AT"
PLACE = 13
ENTRIES = {"at_strong": "AT at 0.1"}
NEEDS: frozenset[str] = frozenset()
TRAINS = True


class Params(ChosenAttacks):
    """Towards one photo of another class, as published; batch norms as in plain training."""

    attacks: tuple[str, ...] = Field(
        ("stax",), min_length=1, description="names of files in attacks/: stax, mtax:3"
    )


def uses(params: Params) -> list[tuple[str, str]]:
    """Its attacks."""
    return used(params, params.attacks)


def classes(params: Params) -> int:
    """That a batch must have."""
    return attacked_classes(params, params.attacks)


class Method(Adversarial):
    """Clean and attacked photos are one pass through the network, so that norms that learn see them together."""

    SEPARATE_NORMS = False
