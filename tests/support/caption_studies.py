"""Studies of which captions read a few settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def selected(by: str = "clean", **sections: Any) -> Any:
    """A study whose models are selected in this way, with these sections."""
    return SimpleNamespace(train=SimpleNamespace(selection=by), **sections)
