"""The base of every set of options: frozen, and closed to unknown keys."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Options that are refused, never dropped: a misspelt margin must not train happily."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
