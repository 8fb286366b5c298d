"""How a batch becomes a training loss: the plain way, and the cures for background bias.

A method is one file: ``NEEDS`` (what its batches carry beside photos), ``TRAINS``, ``class Params(Strict)`` if it has options,
``CLASS_WEIGHTS = True`` if its losses must have them, ``NEGATIVES`` if it compares tuples of two photos of a class and so many of
other classes, ``classes(params)`` if it attacks photos towards others of a batch, which must be of so many classes,
``needs_batch_norm(params)`` if not every network will do, ``REPELS = True`` if it gives its loss further negatives
(training/repulsions/), ``uses(params)`` if it works by files of other families (pairs of
family and name), and ``class Method``. What tables and figures call it may be left out: ``TITLE``; ``PLACE``, that of its rows
and of its colour; ``ENTRIES``, titles of entries of params.yaml that are this method with other options, each in a shade of its
colour by its place in that order: a new one goes to the end, so that the others keep theirs. Planning reads the facts of every
method, so these files take torch from ``compute.lazy``, which imports it when it is used. ``study/methods.py`` says which names a
grid may use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bgbias.compute.lazy import Tensor, nn
from bgbias.images.composite import blend_batch

if TYPE_CHECKING:
    from bgbias.models.model import EmbeddingModel

# Options that share a file.
SHARED = {
    "_adversarial": ("advprop_d", "at", "mdprop", "st_2xbatch", "st_unfrozen"),
    "_attribution_penalty": ("attr_emb", "attr_frac", "attr_loss"),
    "_dcml": ("dcml_code", "dcml_paper"),
    "_negatives": ("bgneg", "bgneg_rect", "patch_ns", "texture_ns"),
    "pretrained": ("untrained",),
    "_sam": ("sam_quad", "sam_siamese", "sam_triplet"),
}
REPLACING = frozenset({"masks", "backgrounds"})


@dataclass(frozen=True)
class Batch:
    """Photos as a method gets them, on the model's device.

    images: uint8 [B, 3, S, S], RGB; labels: int64 [B], 0..classes-1; masks: float32 [B, 1, S, S] in 0..1, backgrounds and
    textures: like images, where the method needs them; index: int64 [B], the photos' rows in the training table.
    """

    images: Tensor
    labels: Tensor
    index: Tensor
    masks: Tensor | None = None
    backgrounds: Tensor | None = None
    textures: Tensor | None = None


Passes = Callable[[str, int], Iterator[Batch]]
"""(what for, photos a batch) to batches that show every training photo once, in an order and crops of that purpose's own."""


@dataclass(frozen=True)
class Task:
    """What is learned: the classes of all training photos, int64 [N] from 0, by ``Batch.index``; and what randomness of a
    method's own is keyed by: (dataset, seed). ``loss_of`` builds the base loss anew, for embeddings of another length;
    ``loss_lr`` is the rate of its class weights, if it names one. ``repelled``: what the base loss becomes with further negatives
    (training/repulsions/), of a method that has such.
    """

    labels: Tensor
    key: tuple[object, ...]
    loss_of: Callable[[int], nn.Module] | None = None
    loss_lr: float | None = None
    repelled: Callable[..., Tensor] | None = None


class BaseMethod:
    """What training asks of a method; one with parts of its own (attention nets, environments) overrides ``prepare`` and the last
    four, one that passes photos through the trunk more than once a step says so for forecasts."""

    replaces_backgrounds = False
    """Whether ``photos`` stand before other backgrounds: a batch then carries masks and backgrounds."""

    images_per_class: int | None
    """Photos of each class in a batch, if the method's options have another number than its loss."""

    batches_a_step = 1
    """Batches of the grid's size that are drawn as one for each step."""

    lr_key = "train.lr"
    """Where a learning rate that is too high stands in params.yaml."""

    full_precision = False
    """Whether a GPU must not put TF32 in place of float32, as it does in convolutions."""

    def __init__(
        self, model: EmbeddingModel, base_loss: nn.Module, params: Any = None, task: Task | None = None
    ) -> None:
        self.model, self.base_loss, self.params, self.task = model, base_loss, params, task
        self.images_per_class = getattr(params, "images_per_class", None)
        self.prepare()

    def prepare(self) -> None:
        """Called once, when all of the above is known: for a method with parts of its own."""

    @classmethod
    def photos_a_step(cls, params: Any, batch_size: int) -> tuple[int, int]:
        """Photos that go forward through the trunk in a step, and how many of these backward too, at most: for forecasts.

        On a way back that gives no gradients of weights, three photos count as two.
        """
        return cls.batches_a_step * batch_size, cls.batches_a_step * batch_size

    @classmethod
    def photos_between_epochs(cls, params: Any, photos: int, epochs: int) -> int:
        """Photos that go forward through the trunk beside all steps of so many epochs, of ``photos`` training photos."""
        return 0

    def photos(self, batch: Batch) -> Tensor:
        """The normalised batch, float [B, 3, S, S], on other backgrounds if these are replaced."""
        return self.model.preprocess(self.grey_levels(batch))

    def grey_levels(self, batch: Batch) -> Tensor:
        """The same before the model normalises it, in 0..255: uint8 or, with replaced backgrounds, float32."""
        if not self.replaces_backgrounds:
            return batch.images
        if batch.masks is None or batch.backgrounds is None:
            raise ValueError("replacing backgrounds needs batches with masks and backgrounds")
        return blend_batch(batch.images, batch.masks, batch.backgrounds)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The scalar to minimise under ``loss``; further entries are logged beside it."""
        raise NotImplementedError(type(self))

    def modules(self) -> dict[str, nn.Module]:
        """Everything that training changes, by name: trained, checkpointed and restored."""
        return {"model": self.model, "loss": self.base_loss}

    def own_parameters(self, lr: float) -> list[dict[str, Any]]:
        """Optimiser groups beyond the model's and the loss's; ``lr`` is the trunk's learning rate, theirs if they name none."""
        return []

    def start_epoch(self, epoch: int, passes: Passes) -> None:
        """Called before each epoch (from 1), for methods that alternate between training and something else."""

    def end_epoch(self) -> None:
        """Called after each epoch's steps, before the model is validated: what it embeds with must be in ``model`` by then."""
