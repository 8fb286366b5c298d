"""Whether a method can be trained with a loss and with batches of a size: told when planning, not after an hour of training."""

from __future__ import annotations

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.study.methods import NamedMethod


def check(cell: str, method: NamedMethod, loss: str, batch_size: int) -> None:
    """Refuse a loss without the class weights that the method re-weights, batches that photos of a class do not fill evenly, and
    batches without the tuples that the method compares. ``cell`` is what messages call it.
    """
    if getattr(method.module, "CLASS_WEIGHTS", False) and not _has_class_weights(loss):
        with_class_weights = filter(_has_class_weights, plugins.names("losses"))
        raise UserError(
            f"{cell}: the method '{method.entry}' re-weights cross-entropies, but '{loss}' compares pairs."
            f" Name it in params.yaml with a loss that has class weights ({', '.join(with_class_weights)})."
        )
    own: int | None = getattr(method.params(), "images_per_class", None)
    per_class: int = own or plugins.load("losses", loss).IMAGES_PER_CLASS
    if batch_size % per_class:
        raise UserError(
            f"{cell}: train.batch_size is {batch_size}, but {f'method {method.entry!r}' if own else f'the loss {loss!r}'} wants"
            f" {per_class} photos a class; set it to a multiple of {per_class} in params.yaml."
        )
    negatives: int | None = getattr(method.module, "NEGATIVES", None)
    if negatives is None:
        return
    if per_class < 2:
        several = [n for n in plugins.names("losses") if plugins.load("losses", n).IMAGES_PER_CLASS > 1]
        raise UserError(
            f"{cell}: the method '{method.entry}' compares photos of one class, but with '{loss}' a batch has one photo of each."
            f" Name it in params.yaml with a loss that has several ({', '.join(several)})."
        )
    if batch_size // per_class < 1 + negatives:
        raise UserError(
            f"{cell}: the method '{method.entry}' compares photos of {1 + negatives} classes, but a batch of {batch_size} has"
            f" {batch_size // per_class}, with {per_class} photos each. Raise train.batch_size in params.yaml to at least"
            f" {per_class * (1 + negatives)}."
        )


def _has_class_weights(loss: str) -> bool:
    return getattr(plugins.load("losses", loss), "CLASS_WEIGHTS", False)
