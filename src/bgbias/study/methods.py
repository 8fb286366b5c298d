"""From a method's name in a grid to its file, its options, and the photos it sees.

A name is an entry of params.yaml's section ``methods`` (``dcml_no_inv_emb: {kind: dcml_code, alpha: 0}``) or, with no options to
set, an option of methods/. ``<name>+bgaugment`` is the same method on photos whose backgrounds were replaced.
"""

from dataclasses import dataclass
from typing import Any

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.study.named import Entries, NamedEntry, split_kind
from bgbias.training.methods import REPLACING

ON_REPLACED = "+bgaugment"


@dataclass(frozen=True)
class NamedMethod(NamedEntry):
    """A method as a cell names it. ``replaces``: its photos get other backgrounds before it sees them."""

    replaces: bool

    @property
    def needs(self) -> frozenset[str]:
        """What its batches carry beside photos."""
        return frozenset(self.module.NEEDS) | (REPLACING if self.replaces else frozenset())

    @property
    def uses(self) -> list[tuple[str, str]]:
        """Files of other families that it works by, by family and name."""
        return list(self.fact("uses", ()))

    @property
    def repels(self) -> bool:
        """Whether it gives its loss further negatives."""
        return bool(getattr(self.module, "REPELS", False))

    @property
    def trains(self) -> bool:
        return bool(self.module.TRAINS)

    @property
    def identity(self) -> dict[str, Any]:
        """What a training depends on beside the cell's own name: nothing for a file with the options it comes with."""
        chosen = self.params().model_dump(exclude_defaults=True)
        return {"kind": self.kind, "options": chosen} if chosen or self.kind != self.name else {}


def find(entries: Entries, name: str) -> NamedMethod:
    """The method that a grid calls ``name``; an entry that hides a file and a senseless combination are errors."""
    entry = name.removesuffix(ON_REPLACED)
    kind, options = split_kind("methods", entry, entries.get(entry, {}))
    method = NamedMethod("methods", entry, kind, options, replaces=entry != name)
    if method.replaces and (not method.trains or "backgrounds" in method.module.NEEDS):
        raise UserError(
            f"'{name}' makes no sense: {entry} {'has its own use of backgrounds' if method.trains else 'trains nothing'}."
            f" Name it without '{ON_REPLACED}'."
        )
    return method


def check(cell: str, method: NamedMethod, loss: str, batch_size: int) -> None:
    """Refuse what cannot be trained together when planning, not after an hour: a loss without the class weights that the method
    re-weights, batches that photos of a class do not fill evenly, batches with fewer classes than an attack has targets, batches
    without the tuples that the method compares. ``cell`` is what messages call it.
    """
    if getattr(method.module, "CLASS_WEIGHTS", False) and not _has_class_weights(loss):
        with_class_weights = filter(_has_class_weights, plugins.names("losses"))
        raise UserError(
            f"{cell}: the method '{method.name}' re-weights cross-entropies, but '{loss}' compares pairs."
            f" Name it in params.yaml with a loss that has class weights ({', '.join(with_class_weights)})."
        )
    if method.repels:
        _check_repelled(cell, method, loss)
    wished: int | None = getattr(method.params(), "images_per_class", None)
    per_class: int = wished or plugins.load("losses", loss).IMAGES_PER_CLASS
    if batch_size % per_class:
        raise UserError(
            f"{cell}: train.batch_size is {batch_size}, but {f'method {method.name!r}' if wished else f'the loss {loss!r}'} wants"
            f" {per_class} photos a class; set it to a multiple of {per_class} in params.yaml."
        )
    least: int = method.fact("classes", 1)
    if batch_size // per_class < least:
        raise UserError(
            f"{cell}: the method '{method.name}' attacks photos towards {least - 1} other classes of a batch, but a batch of"
            f" {batch_size} with {per_class} photos a class has {batch_size // per_class}. Name attacks with fewer targets, or"
            f" raise train.batch_size in params.yaml to at least {per_class * least}."
        )
    negatives: int | None = getattr(method.module, "NEGATIVES", None)
    if negatives is None:
        return
    if per_class < 2:
        several = [n for n in plugins.names("losses") if plugins.load("losses", n).IMAGES_PER_CLASS > 1]
        raise UserError(
            f"{cell}: the method '{method.name}' compares photos of one class, but with '{loss}' a batch has one photo of each."
            f" Name it in params.yaml with a loss that has several ({', '.join(several)})."
        )
    if batch_size // per_class < 1 + negatives:
        raise UserError(
            f"{cell}: the method '{method.name}' compares photos of {1 + negatives} classes, but a batch of {batch_size} has"
            f" {batch_size // per_class}, with {per_class} photos each. Raise train.batch_size in params.yaml to at least"
            f" {per_class * (1 + negatives)}."
        )


def _check_repelled(cell: str, method: NamedMethod, loss: str) -> None:
    if not plugins.known("repulsions", loss):
        raise UserError(
            f"{cell}: the method '{method.name}' has negatives of no class; what these are to the loss '{loss}' nobody said."
            f" Name it with another ({', '.join(plugins.names('repulsions'))}), or write repulsions/{loss}.py (docs/extend.md)."
        )
    alpha = getattr(method.params(), "alpha", 1.0)
    if alpha != 1 and not plugins.load("repulsions", loss).ALPHA:
        raise UserError(
            f"{cell}: methods.{method.name}.alpha is {alpha}, but '{loss}' compares distances and has no use for it; leave it at"
            " 1 in params.yaml, and weigh these negatives by kappa."
        )


def _has_class_weights(loss: str) -> bool:
    return getattr(plugins.load("losses", loss), "CLASS_WEIGHTS", False)
