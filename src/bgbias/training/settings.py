"""Settings of training, which a grid may change key by key."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from bgbias.settings import Strict

METRICS = (
    "map_at_r",
    "precision_at_1",
)  # of validation photos, after each epoch; the first one stops and picks
Positive = Annotated[float, Field(gt=0)]


class Train(Strict):
    """The training protocol of a grid (docs/methods.md, section 1)."""

    embedding_dim: int = Field(128, ge=2, description="length of an embedding")
    batch_size: int = Field(32, ge=2, description="photos per step")
    iterations_per_epoch: int = Field(100, ge=1, description="steps between two validations")
    max_epochs: int = Field(1000, ge=1, description="after which training ends at the latest")
    patience: int = Field(15, ge=1, description="epochs without a strictly better validation MAP@R")
    optimizer: Literal["rmsprop", "adam", "adamw", "sgd"] = Field(
        "rmsprop", description="rmsprop as published"
    )
    lr: float = Field(1e-6, gt=0, description="learning rate of the network; a loss with weights has its own")
    schedule: Literal["constant", "cosine"] = Field(
        "constant", description="of all learning rates over max_epochs; cosine ends near 0"
    )
    embedder_lr: float | None = Field(None, gt=0, description="of the embedding layer, if not `lr`")
    momentum: float = Field(0.9, ge=0, lt=1, description="of rmsprop and sgd")
    weight_decay: float = Field(1e-4, ge=0, description="of the optimizer")
    frozen: tuple[str, ...] = Field(
        (), description="parts of the network that stay as they are, by name: `layer1`, `features.0`"
    )
    freeze_batch_norm: bool = Field(True, description="keep the statistics of the pretrained network")
    selection: Literal["published", "clean", "corrupted"] = Field(
        "clean",
        description="validation photos whose score stops and picks; published: corrupted for methods that replace backgrounds",
    )
    precision: Literal["fp32", "bf16"] = Field("fp32", description="what the network computes in")
    crop_scale: tuple[Positive, Positive] = Field(
        (0.16, 1.0), description="share of a photo that a random crop has"
    )
    crop_ratio: tuple[Positive, Positive] = Field(
        (0.75, 4 / 3), description="width of a random crop by its height"
    )

    @field_validator("crop_scale", "crop_ratio")
    @classmethod
    def _from_to(cls, range_: tuple[float, float], info: ValidationInfo) -> tuple[float, float]:
        if range_[0] > range_[1]:
            raise ValueError("the smaller number comes first")
        if info.field_name == "crop_scale" and range_[1] > 1:
            raise ValueError("a crop is a share of the photo, 1 at most")
        return range_
