"""Errors in somebody else's model, of any kind, become one that names it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bgbias.errors import UserError

LETTERS = 300


@contextmanager
def failing(name: str, on: str, remedy: str = "") -> Iterator[None]:
    """What goes wrong inside is a UserError: the model ``name`` fails ``on`` something, and what it says itself."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # of somebody else's code: any kind
        raise UserError(f"{name} fails on {on}: {type(error).__name__}: {_said(error)}.{remedy}") from error


def _said(error: Exception) -> str:
    """The first line and, as torch's scripts have the cause there, the last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    return " ... ".join(line[:LETTERS] for line in dict.fromkeys((lines[0], lines[-1]))).rstrip(".")
