"""STAX: photos that are embedded as one of another class is ("single-targeted", MDProp's paper; docs/methods.md, section 8)."""

from bgbias.attacks.mtax import objective

__all__ = ["TITLE", "objective", "targets"]

TITLE = "STAX"


def targets(variant: str) -> int:
    """One."""
    return 1
