"""What every pretraining is told: how long it takes, on which views, and which pictures of no class views are kept away from."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from bgbias.errors import UserError
from bgbias.settings import Strict
from bgbias.training.settings import Ratio, Shares, Train, in_order

Share = Annotated[float, Field(ge=0, le=1)]
Sigma = Annotated[float, Field(gt=0, le=32)]  # a wider one would look beyond a photo's mirror image
Negatives = Literal["none", "patches", "textures", "surroundings", "boxes"]
# What batches carry beside photos, for negatives that are made of it.
NEEDS: dict[str, frozenset[str]] = {
    "textures": frozenset({"textures"}),
    "surroundings": frozenset({"masks"}),
    "boxes": frozenset({"masks"}),
}


class PretrainingParams(Strict):
    """What every pretraining is told: how long, on which views, and which pictures of no class it is kept away from."""

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
    smallest: int = Field(16, ge=1, le=224, description="least side of a patch, in a photo of 224 pixels")
    largest: int = Field(72, ge=1, le=224, description="greatest side of a patch")

    @model_validator(mode="after")
    def _in_order(self) -> PretrainingParams:
        if self.smallest > self.largest:
            raise ValueError(f"smallest is {self.smallest}, largest {self.largest}: exchange them")
        return self

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
        return NEEDS.get(self.active_negatives, frozenset())

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
