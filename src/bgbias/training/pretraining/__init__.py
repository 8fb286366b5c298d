"""How a network learns from photos without their labels, before it is trained for retrieval; one file a pretraining.

A pretraining is one file: ``class Params(PretrainingParams)``, its settings, and ``class Pretraining(BasePretraining)``. A
backbone of params.yaml names an entry of ``pretrainings``, whose ``kind`` is such a file; the node ``pretrain`` does the work,
and every model of that backbone starts from what comes of it. Planning reads these files: they take torch from
``compute.lazy``, which imports it when it is used.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field

from bgbias import seeds
from bgbias.compute.lazy import F, Tensor, nn, torch
from bgbias.errors import UserError
from bgbias.training import patch_negatives
from bgbias.training.methods import BaseMethod, Batch, Passes
from bgbias.training.pretraining import _colours
from bgbias.training.settings import Ratio, Shares, Train, in_order

if TYPE_CHECKING:
    from bgbias.models.model import EmbeddingModel
    from bgbias.training.batches import TrainingPhotos


Share = Annotated[float, Field(ge=0, le=1)]
Sigma = Annotated[float, Field(gt=0, le=32)]  # a wider one would look beyond a photo's mirror image
Negatives = Literal["none", "patches", "textures", "surroundings", "boxes"]


class PretrainingParams(patch_negatives.Sides):
    """What every pretraining takes: how long, on which views, and which pictures of no class it is kept away from."""

    dataset: str | None = Field(
        None,
        description="whose training photos; those of the dataset that its models are trained on, if none is named",
    )
    epochs: int = Field(200, ge=1, description="passes over the training photos; the last is kept")
    batch_size: int = Field(512, ge=2, description="photos per step, of each of which there are two views")
    optimizer: Literal["sgd", "adamw"] = Field("sgd", description="sgd as published")
    lr: float = Field(0.8, gt=0, description="learning rate at its peak; it falls to 0 as a cosine")
    momentum: float = Field(0.9, ge=0, lt=1, description="of sgd")
    weight_decay: float = Field(1e-4, ge=0, description="of the optimizer")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="what the network computes in")
    crop_scale: Shares = Field((0.2, 1.0), description="share of a photo that a view has")
    crop_ratio: Ratio = Field((0.75, 4 / 3), description="width of a view by its height")
    jitter: tuple[Share, Share, Share, Annotated[float, Field(ge=0, le=0.5)]] = Field(
        (0.4, 0.4, 0.4, 0.1), description="strength of changes of brightness, contrast, saturation and hue"
    )
    jitter_share: Share = Field(0.8, description="of the views whose colours are changed")
    grey_share: Share = Field(0.2, description="of the views that are grey")
    blur: Annotated[tuple[Sigma, Sigma], AfterValidator(in_order)] = Field(
        (0.1, 2.0), description="standard deviation of a blur, in pixels of a photo of 224"
    )
    blur_share: Share = Field(0.5, description="of the views that are blurred")
    dim: int = Field(128, ge=2, description="length of what views are compared by")
    hidden: int | None = Field(
        None, ge=1, description="width of the layer before that; the network's channels if not given"
    )
    negatives: Negatives = Field(
        "none",
        description="pictures of no class that views are kept away from: tiled patches or a texture of the photo, or the photo"
        " with its surroundings over its object, or over the box around it",
    )
    alpha: float = Field(1.0, ge=0, description="how much these negatives count; 0: there are none")

    @property
    def active_negatives(self) -> Negatives:
        return self.negatives if self.alpha else "none"

    @property
    def beside_negatives(self) -> dict[str, Any]:
        """All that does not speak of negatives."""
        return self.model_dump(exclude={"negatives", "alpha", "smallest", "largest"})

    @property
    def needs(self) -> frozenset[str]:
        """What batches carry beside photos: masks, textures, or nothing."""
        return patch_negatives.NEEDS.get(self.active_negatives, frozenset())

    def check(self, photos: int) -> None:
        """Refuse settings that ask for more photos than there are to learn from."""
        if photos < self.batch_size:
            raise UserError(
                f"A batch of {self.batch_size} photos is asked for, and there are {photos} to learn from. Set the pretraining's"
                f" batch_size to at most {photos} in params.yaml."
            )

    def steps(self, photos: int) -> int:
        """How many full batches an epoch has; fewer photos than one has are an error."""
        self.check(photos)
        return photos // self.batch_size

    def as_training(self, photos: int) -> Train:
        return Train(
            **self.model_dump(include=set(Train.model_fields)),
            iterations_per_epoch=self.steps(photos),
            max_epochs=self.epochs,
            patience=self.epochs,
            schedule="cosine",
            freeze_batch_norm=False,
        )


class BasePretraining(BaseMethod):
    """A network that learns, a head behind it, and a slower copy of both, the teacher, that it is compared with.

    The training loop takes it for a method. A batch holds every photo twice, as two views; labels are not looked at.
    """

    params: PretrainingParams
    ASKS: ClassVar[int] = 2
    """How many of a photo's two views the network sees, and has negatives of."""

    def __init__(
        self, model: EmbeddingModel, params: PretrainingParams, key: Sequence[object], steps: int
    ) -> None:
        """``key``: (dataset, seed), what all randomness is keyed by; ``steps``: of the whole pretraining."""
        self.key, self.steps = tuple(key), steps
        self._epoch = self._step = 0
        super().__init__(model, nn.Identity(), params)

    def prepare(self) -> None:
        """The head, and the teacher, which begins as a copy."""
        self.heads = nn.ModuleDict({"projector": self.head(self.model.embedder.in_features, "projector")})
        parts = nn.ModuleDict({"trunk": self.model.trunk, "head": self.heads["projector"]})
        self.teacher = copy.deepcopy(parts).requires_grad_(False)

    @classmethod
    def photos_a_step(cls, params: Any, batch_size: int) -> tuple[int, int]:
        """Views that go forward through network and teacher, and how many of the network's go backward."""
        raise NotImplementedError(cls)

    def head(self, channels: int, purpose: str) -> nn.Module:
        """Two layers on features of so many channels, random by the pretraining's key and ``purpose``."""
        raise NotImplementedError(type(self))

    def two_layers(self, channels: int, purpose: str, norm: bool) -> nn.Module:
        """A hidden layer, perhaps with a batch norm, and a linear one, as PyTorch begins layers."""
        hidden = self.params.hidden or self.model.embedder.in_features
        generator = seeds.torch_generator("head", purpose, *self.key)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(generator.initial_seed())
            norms = [nn.BatchNorm1d(hidden)] if norm else []
            return nn.Sequential(
                nn.Linear(channels, hidden), *norms, nn.ReLU(), nn.Linear(hidden, self.params.dim)
            )

    def modules(self) -> dict[str, nn.Module]:
        """The network, its heads, and the teacher, which is kept with them."""
        return {"model": self.model, "heads": self.heads, "teacher": self.teacher}

    def own_parameters(self, lr: float) -> list[dict[str, Any]]:
        """The heads learn as fast as the network."""
        return [{"params": list(self.heads.parameters()), "lr": lr}]

    def start_epoch(self, epoch: int, passes: Passes) -> None:
        """What is drawn in an epoch depends on its number and the step's alone."""
        self._epoch, self._step = epoch, 0

    def views(self, batch: Batch) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Both views of every photo, normalised [2 B, 3, S, S], first all first ones; the negatives of those that the network
        sees, the first ``ASKS`` B, and which of these count, bool, if there are any.
        """
        # What is seen does not depend on what the network computes in.
        with torch.autocast(batch.images.device.type, enabled=False):
            generator = seeds.torch_generator("pretraining", *self.key, self._epoch, self._step)
            self._step += 1
            changes = _colours.draw(len(batch.images), self.params, batch.images.shape[-1], generator)

            def show(pictures: Tensor) -> Tensor:
                return self.model.preprocess(_colours.change_colours(pictures, changes))

            views, kind = show(batch.images), self.params.active_negatives
            if kind == "none":
                return views, None, None
            seen = views[: len(views) // 2 * self.ASKS]
            # Textures are shown as their photo is: what differs is what is on them.
            return views, *patch_negatives.make(kind, seen, batch, show, self.params, generator)

    def online(self, photos: Tensor) -> Tensor:
        """What the network and its projector make of normalised photos [N, 3, S, S]: [N, dim]."""
        return self.heads["projector"](self.model.features(photos).mean((2, 3)))  # type: ignore[no-any-return]

    def taught(self, photos: Tensor) -> Tensor:
        """What the teacher makes of them, to unit length, float32 [N, dim], without gradients."""
        with torch.no_grad():
            output = self.teacher["head"](self.teacher["trunk"](photos).mean((2, 3)))
            return F.normalize(output.float(), dim=1)

    def follow(self, keep: float) -> None:
        """The teacher keeps a share of its weights and takes the network's for the rest, as a moving mean."""
        students = [*self.model.trunk.parameters(), *self.heads["projector"].parameters()]
        with torch.no_grad():
            for weights, student in zip(self.teacher.parameters(), students, strict=True):
                weights.mul_(keep).add_(student, alpha=1 - keep)


def epoch_views(
    photos: TrainingPhotos, key: Sequence[object], epoch: int, params: PretrainingParams
) -> Iterator[Batch]:
    """The full batches of an epoch (from 1): every photo at most once, in random order, each batch with two views of its photos,
    first all first ones. ``key``: (dataset, seed).
    """
    order = seeds.generator("pretraining order", *key, epoch).permutation(len(photos.labels))
    for step in range(params.steps(len(order))):
        rows = order[step * params.batch_size : (step + 1) * params.batch_size]
        crops = seeds.generator("pretraining crop", *key, epoch, step)
        yield photos.batch(np.concatenate([rows, rows]), crops, crops, params.crop_scale, params.crop_ratio)
