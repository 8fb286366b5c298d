"""Settings of training, which a grid may change key by key."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bgbias.settings import Strict

# Of validation photos, after each epoch; the first one stops and picks.
METRICS = ("map_at_r", "precision_at_1")
Positive = Annotated[float, Field(gt=0)]
Part = Annotated[float, Field(gt=0, le=1)]


def in_order(range_: tuple[float, float]) -> tuple[float, float]:
    """A range from a smaller number to a larger one; another one is refused."""
    if range_[0] > range_[1]:
        raise ValueError("the smaller number comes first")
    return range_


Ratio = Annotated[tuple[Positive, Positive], AfterValidator(in_order)]
Shares = Annotated[tuple[Part, Part], AfterValidator(in_order)]


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
    crop_scale: Shares = Field((0.16, 1.0), description="share of a photo that a random crop has")
    crop_ratio: Ratio = Field((0.75, 4 / 3), description="width of a random crop by its height")
