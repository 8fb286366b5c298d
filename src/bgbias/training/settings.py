"""Settings of training, which a grid may change key by key."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from bgbias.settings import Strict


class Train(Strict):
    """The training protocol of a grid (METHODS section 1)."""

    embedding_dim: int = Field(128, ge=2)
    batch_size: int = Field(32, ge=2)
    iterations_per_epoch: int = Field(100, ge=1)
    max_epochs: int = Field(1000, ge=1)
    patience: int = Field(15, ge=1, description="epochs without a strictly better validation MAP@R")
    optimizer: Literal["rmsprop", "adamw"] = "rmsprop"
    lr: float = Field(1e-6, gt=0)
    schedule: Literal["constant", "cosine"] = Field(
        "constant", description="of all learning rates over max_epochs; cosine ends near 0"
    )
    embedder_lr: float | None = Field(
        None, gt=0, description="of the linear embedding layer; `lr` if not given"
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="of rmsprop")
    weight_decay: float = Field(1e-4, ge=0)
    freeze_batch_norm: bool = True
    selection: Literal["published", "clean", "corrupted"] = "clean"
    precision: Literal["fp32", "bf16"] = "fp32"
    crop_scale: tuple[float, float] = (0.16, 1.0)
    crop_ratio: tuple[float, float] = (0.75, 4 / 3)
