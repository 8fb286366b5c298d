"""Settings of the evaluation."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from bgbias.settings import Strict


class Evaluation(Strict):
    """Clean and corrupted retrieval."""

    draws: int = Field(5, ge=1, description="background draws per photo")
    batch_size: int = Field(64, ge=1, description="photos to embed at once")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="what the network computes in")
