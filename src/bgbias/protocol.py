"""Settings of the protocol in params.yaml, which a grid may change key by key: training, masks, evaluation, attribution."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from bgbias.strict import Strict


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


class MaskPolicy(Strict):
    """How masks are used, and which are trusted: a photo whose mask is not keeps its own background and is no query; it is
    counted in every table. Areas are those of the soft mask, whatever its use."""

    kind: Literal["soft", "threshold"] = Field(
        "soft",
        description="blend photo and background by the mask as it is (as published), or by 0 and 255 alone",
    )
    threshold: int = Field(128, ge=1, le=255, description="grey level from which a pixel is object")
    min_area: float = Field(0.01, ge=0, le=1)
    max_area: float = Field(0.95, ge=0, le=1)
    keep_all: bool = Field(
        False, description="replace backgrounds behind empty and full masks too (as published)"
    )

    @model_validator(mode="after")
    def _threshold_is_used(self) -> MaskPolicy:
        if self.kind == "soft" and "threshold" in self.model_fields_set:
            raise ValueError("soft masks have no threshold; set `kind: threshold`, or leave `threshold` out")
        if self.min_area >= self.max_area:
            raise ValueError("min_area must lie below max_area")
        return self


class Evaluation(Strict):
    """Clean and corrupted retrieval."""

    draws: int = Field(5, ge=1, description="background draws per photo")
    batch_size: int = Field(64, ge=1)
    precision: Literal["fp32", "bf16"] = "fp32"


# What similarity attention asks of a photo (similarity_attention.py).
SimilarityScore = Literal["magnitude", "published"]


class Attribution(Strict):
    """The attribution score (METHODS section 3)."""

    images: int | None = Field(None, ge=1, description="a keyed subset of so many test photos; all if null")
    samples: int = Field(25, ge=1)
    noise: float = Field(0.15, gt=0, description="sigma as a share of the input's range")
    similarity: SimilarityScore | None = Field(
        None, description="also score similarity attention with a keyed photo of the class, asked in this way"
    )
    precision: Literal["fp32", "bf16"] = "fp32"


class Segmentation(Strict):
    """One-shot segmentation by similarity attention, then GrabCut (METHODS section 7); only where it is asked for."""

    episodes: int | None = Field(
        None, ge=1, description="test photos to segment, a keyed subset of at most so many; none if null"
    )
    score: SimilarityScore = "magnitude"
    sure: float = Field(
        0.33,
        gt=0,
        lt=1,
        description="what GrabCut starts from: such a share of a map's object is surely object, of the rest surely background",
    )
    rounds: int = Field(5, ge=1, description="of GrabCut")
