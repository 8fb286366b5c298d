"""Splits that share no class: whole classes go to train, val or test, in a seeded or in sorted order."""

from collections.abc import Collection, Iterable

from pydantic import Field

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.settings import Strict


class ClassSplit(Strict):
    """How many classes train and select; the rest of the classes are the test."""

    train_classes: int | None = Field(None, ge=2, description="half of the classes if null")
    val_classes: int | None = Field(None, ge=1, description="a tenth of the classes if null")
    shuffle: int | None = Field(0, ge=0, description="seed of the classes' order; null: sorted")


def assign(
    classes: Collection[str], params: ClassSplit, name: str, together: Iterable[Collection[str]] = ()
) -> dict[str, str]:
    """The split of each class. Classes that stand ``together`` in a collection (they share a product, say) get the same one.

    Bundles of classes are taken in order until train has its number of classes, then until val has. Too few classes for three
    splits are an error.
    """
    bundles = _bundles(sorted(classes), together)
    if params.shuffle is not None:
        seeds.generator("split", params.shuffle).shuffle(bundles)
    train = params.train_classes or max(2, len(classes) // 2)
    val = params.val_classes or max(1, len(classes) // 10)
    roles: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for bundle in bundles:
        role = next((r for r, most in (("train", train), ("val", val)) if len(roles[r]) < most), "test")
        roles[role] += bundle
    if train + val >= len(classes) or not all(roles.values()):
        raise UserError(
            f"{name} has {len(classes)} classes, too few for {train} to train, {val} to validate and at least one to test;"
            f" set datasets.{name}.options.train_classes and val_classes in params.yaml."
        )
    return {c: role for role, members in roles.items() for c in members}


def _bundles(classes: list[str], together: Iterable[Collection[str]]) -> list[list[str]]:
    """Classes joined by any chain of collections, in the order of each bundle's first class."""
    bundle_of = {c: [c] for c in classes}
    for joined in together:
        merged = sorted({c for member in joined for c in bundle_of[member]})
        for c in merged:
            bundle_of[c] = merged
    return list({bundle[0]: bundle for bundle in bundle_of.values()}.values())
