"""Settings of masks: how they are used, and which are trusted."""

from typing import Literal, Self

from pydantic import Field, model_validator

from bgbias.settings import Strict


class MaskPolicy(Strict):
    """How masks are used, and which are trusted: a photo whose mask is not keeps its own background and is no query; captions
    of retrieval and attribution count it. Areas are those of the soft mask, whatever its use."""

    kind: Literal["soft", "threshold"] = Field(
        "soft",
        description="blend photo and background by the mask as it is (as published), or by 0 and 255 alone",
    )
    threshold: int = Field(128, ge=1, le=255, description="grey level from which a pixel is object")
    min_area: float = Field(0.01, ge=0, le=1, description="least share of the photo that a mask may cover")
    max_area: float = Field(0.95, ge=0, le=1, description="largest share of the photo that a mask may cover")
    keep_all: bool = Field(False, description="use empty and full masks, too (as published)")

    @model_validator(mode="after")
    def _threshold_is_used(self) -> Self:
        if self.kind == "soft" and "threshold" in self.model_fields_set:
            raise ValueError("soft masks have no threshold; set `kind: threshold`, or leave `threshold` out")
        if self.min_area >= self.max_area:
            raise ValueError("min_area must lie below max_area")
        return self
