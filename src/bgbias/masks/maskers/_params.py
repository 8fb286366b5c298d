"""Options of the networks that predict masks, apart from them: planning must not import torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from bgbias.settings import Strict


class SaliencyParams(Strict):
    """Options of every U²-Net masker."""

    weights: str | None = None
    input_size: int = Field(320, ge=32, le=2048)
    batch_size: int = Field(4, ge=1)
    precision: Literal["fp32", "bf16"] = "fp32"
