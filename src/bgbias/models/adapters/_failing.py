"""Errors in somebody else's model, of any kind, become one that names it."""

from __future__ import annotations

import signal
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bgbias.errors import UserError

LETTERS = 300
TERMINATED = 128 + signal.SIGTERM  # the status that the command line gives itself
OURS = Path(__file__).parents[2]
INSTALLED = {"site-packages", "dist-packages"}
STANDARD = Path(sysconfig.get_path("stdlib"))


@contextmanager
def failing(name: str, on: str, remedy: str = "") -> Iterator[None]:
    """What goes wrong inside is a UserError: the model ``name`` fails ``on`` something, what it says itself, and by which line
    of somebody's own file.
    """
    try:
        yield
    except (Exception, SystemExit) as error:  # of somebody else's code: any kind
        if is_ours(error):
            raise
        said = f"{type(error).__name__}: {_said(error)}{at(error)}"
        raise UserError(f"{name} fails on {on}: {said}.{remedy}") from error


def is_ours(error: BaseException) -> bool:
    """Whether an error is already told in plain words, or ends a command of ours that was told to end; code of a model that exits
    would end the command as if all were well.
    """
    return isinstance(error, UserError) or (isinstance(error, SystemExit) and error.code == TERMINATED)


def at(error: BaseException) -> str:
    """The innermost line of a file of somebody's own that led to an error; empty where libraries alone are at work."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if frame.line and not (
            frame.filename.startswith("<")  # code that a library has written
            or INSTALLED & {*file.parts}
            or file.is_relative_to(STANDARD)
            or file.is_relative_to(OURS)
        ):
            here = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
            return f", at {here}:{frame.lineno} `{frame.line[:LETTERS]}`"
    return ""


def _said(error: BaseException) -> str:
    """The first line and, as torch's scripts have the cause there, the last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    return " ... ".join(line[:LETTERS] for line in dict.fromkeys((lines[0], lines[-1]))).rstrip(".")
