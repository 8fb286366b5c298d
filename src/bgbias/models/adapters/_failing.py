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
OURS, STANDARD = Path(__file__).parents[2], Path(sysconfig.get_path("stdlib"))
INSTALLED = {"site-packages", "dist-packages"}


@contextmanager
def failing(name: str, on: str, remedy: str = "") -> Iterator[None]:
    """An error inside is a UserError: the model ``name`` fails ``on`` something, what the error says,
    and by which line of somebody's own file.
    """
    try:
        yield
    except (Exception, SystemExit) as error:  # of somebody else's code: any kind
        if is_ours(error):
            raise
        words = f"{type(error).__name__}: {first_and_last(error)}{at(error)}"
        raise UserError(f"{name} fails on {on}: {words}.{remedy}") from error


def is_ours(error: BaseException) -> bool:
    """Whether an error is in plain words already, or ends a command of ours that was stopped; code
    of a model that exits would end the command as if all were well.
    """
    is_stop = isinstance(error, SystemExit) and error.code == TERMINATED
    return is_stop or isinstance(error, UserError)


def at(error: BaseException) -> str:
    """The innermost line of a file of somebody's own; empty where libraries alone are at work."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        is_written = frame.filename.startswith("<")  # by a library, while it runs
        is_library = INSTALLED & {*file.parts} or any(map(file.is_relative_to, (STANDARD, OURS)))
        if frame.line and not is_written and not is_library:
            here = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
            return f", at {here}:{frame.lineno} `{frame.line[:LETTERS]}`"
    return ""


def first_and_last(error: BaseException) -> str:
    """The first line of its text and, as torch's scripts have the cause there, the last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    ends = dict.fromkeys((lines[0], lines[-1]))
    return " ... ".join(line[:LETTERS] for line in ends).rstrip(".")
