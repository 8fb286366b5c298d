"""Errors in somebody else's model, of any kind, become one that names it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from bgbias.errors import UserError

LETTERS = 300
TERMINATED = 128 + signal.SIGTERM  # the status that the command line gives itself


@contextmanager
def failing(name: str, on: str, remedy: str = "") -> Iterator[None]:
    """What goes wrong inside is a UserError: the model ``name`` fails ``on`` something, and what it says itself."""
    try:
        yield
    except (Exception, SystemExit) as error:  # of somebody else's code: any kind
        if is_ours(error):
            raise
        raise UserError(f"{name} fails on {on}: {type(error).__name__}: {_said(error)}.{remedy}") from error


def is_ours(error: BaseException) -> bool:
    """Whether an error is already told in plain words, or ends a command of ours that was told to end; code of a model that exits
    would end the command as if all were well.
    """
    return isinstance(error, UserError) or (isinstance(error, SystemExit) and error.code == TERMINATED)


def _said(error: BaseException) -> str:
    """The first line and, as torch's scripts have the cause there, the last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    return " ... ".join(line[:LETTERS] for line in dict.fromkeys((lines[0], lines[-1]))).rstrip(".")
