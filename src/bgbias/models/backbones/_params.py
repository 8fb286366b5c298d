"""Options that all backbones with published weights share."""

from __future__ import annotations

import re

from pydantic import Field, model_validator

from bgbias.settings import Strict


class Pretrained(Strict):
    """Where the weights come from."""

    weights: str | None = Field(
        description="a state dict (.safetensors or .pth; shared:<file>), a URL, `published`, or null: random weights"
    )
    sha256: str | None = Field(
        None,
        description="of the file behind a URL: all of it, or its beginning as published file names give it",
    )

    @model_validator(mode="after")
    def _checksum_of_a_url(self) -> Pretrained:
        if ("://" in (self.weights or "")) != (self.sha256 is not None):
            raise ValueError("a URL as `weights` needs a `sha256` beside it, and nothing else takes one")
        if self.sha256 is not None and not re.fullmatch("[0-9a-f]{8,64}", self.sha256):
            raise ValueError("`sha256` is 64 lower-case hexadecimal digits, or the first 8 or more of them")
        return self
