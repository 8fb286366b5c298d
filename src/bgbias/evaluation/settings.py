"""Settings of the evaluation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.settings import Names, Strict, each_once


class Evaluation(Strict):
    """Retrieval under several conditions."""

    conditions: Names = Field(
        (CLEAN, RANDOM_BACKGROUND), description="what is done to the photos (files in conditions/)"
    )
    draws: int = Field(5, ge=1, description="draws per photo of a condition with chance in it")
    batch_size: int = Field(64, ge=1, description="photos to embed at once")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="what the network computes in")

    @model_validator(mode="after")
    def _comparable(self) -> Evaluation:
        for name in (CLEAN, RANDOM_BACKGROUND):
            if name not in self.conditions:
                raise ValueError(f"drops are measured from {CLEAN} to {RANDOM_BACKGROUND}; add {name}")
        return self


class Crossing(Strict):
    """Objects before the same backgrounds (docs/methods.md, sections 9 and 13), if asked for."""

    objects: int | None = Field(
        None,
        ge=2,
        description="test photos with a trusted mask, a keyed subset of at most so many; none if null",
    )
    backgrounds: int = Field(20, ge=2, description="of the test pool; each for all objects")


class Probes(Strict):
    """Linear and nearest-neighbour evaluation of embeddings (docs/methods.md, section 6); only where it is asked for."""

    folds: int | None = Field(None, ge=2, description="parts of each class; no probes if null")


class Attacked(Strict):
    """Attacks on the test photos, of every model of the grid (docs/methods.md, section 8); only where they are asked for."""

    attacks: Names = Field((), description="names of files in attacks/: [stax, mtax:5]")
    epsilon: Annotated[tuple[Annotated[float, Field(ge=0)], ...], AfterValidator(each_once)] = Field(
        (0.01, 0.1),
        min_length=1,
        description="by how much a pixel may change in each attack, in standard deviations of ImageNet's channels",
    )
    steps: int = Field(20, ge=1, description="of projected gradient descent, of epsilon / steps each")


class Cures(Strict):
    """Cures without training, on every model of the grid (docs/methods.md, section 14); only where they are asked for."""

    names: tuple[str, ...] = Field((), description="files in evaluation/cures/")
    draws: int = Field(1, ge=1, description="backgrounds of each test photo")
    objects: int = Field(200, ge=2, description="most validation photos that a fit sees")
    backgrounds: int = Field(20, ge=2, description="of the validation pool that each object is put on")
