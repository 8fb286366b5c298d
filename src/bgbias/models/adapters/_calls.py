"""How somebody's model is called: its errors name it, as many pictures go through it at once as its memory holds, and each
picture's vector is its own.
"""

import signal
import sys
import sysconfig
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np

from bgbias.errors import UserError
from bgbias.progress import say

LETTERS = 300
TERMINATED = 128 + signal.SIGTERM  # the status that the command line gives itself
OURS, STANDARD = Path(__file__).parents[2], Path(sysconfig.get_path("stdlib"))
INSTALLED = {"site-packages", "dist-packages"}
T = TypeVar("T")
USUAL = 64
# What torch, ONNX Runtime, NumPy and Python say when there is none left, in small letters.
SHORT = ("out of memory", "not enough memory", "allocate memory", "unable to allocate", "memoryerror")
# Of the range of a batch's numbers: by so much rounding in another batch moves them at most, in float32 and in fewer bits. That
# range is taken to be no smaller than half of the largest number, which rounding goes by.
SAME, SAME_ROUNDED = 0.02, 0.1
FLOOR = 0.5


@contextmanager
def failing(what: str, remedy: str = "") -> Iterator[None]:
    """An error inside is a UserError: ``what`` fails, what the error says, and by which line of somebody's own file."""
    try:
        yield
    except (Exception, SystemExit) as error:  # of somebody else's code: any kind
        # In plain words already, or the end of a command of ours that was stopped; code of a model that
        # exits would end the command as if all were well.
        is_stop = isinstance(error, SystemExit) and error.code == TERMINATED
        if is_stop or isinstance(error, UserError):
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
        ends = dict.fromkeys((lines[0], lines[-1]))  # torch's scripts have the cause in the last line
        words = " ... ".join(line[:LETTERS] for line in ends).rstrip(".")
        raise UserError(f"{what}: {type(error).__name__}: {words}{at(error)}.{remedy}") from error


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


class BatchSize:
    """``size`` pictures at once; where memory is short, half as many from then on."""

    def __init__(self, size: int = USUAL) -> None:
        self.size = size

    def run(self, name: str, there: int, work: Callable[[int], T]) -> T:
        """What ``work`` gives, told how many of the pictures that are ``there`` it may take at once.
        Memory that is short for one picture is a UserError.
        """
        while True:
            before = min(self.size, there)
            try:
                return work(before)
            except Exception as error:  # each library has its own
                text = f"{type(error).__name__} {error}".lower()
                if not any(words in text for words in SHORT):
                    raise
                if before <= 1:
                    raise UserError(
                        f"{name} needs more memory than there is, even with --batch-size 1: give a smaller"
                        " --size, or another --device."
                    ) from error
            # The error is gone, and with its traceback what was computed.
            if (torch := sys.modules.get("torch")) and torch.cuda.is_initialized():
                torch.cuda.empty_cache()
            self.size = before // 2
            say(
                f"{name}: memory is short for {before} pictures at once; goes on with {self.size}"
                f" (--batch-size {self.size})"
            )


class AloneCheck:
    """Embeds pictures of a batch again, each alone, and refuses a model that gives one of them another vector.

    Three pictures of the first batch of each size are tried, and of the second, fourth, eighth, ... of that size: at the sizes
    at which the model works, and late as well.
    """

    def __init__(self) -> None:
        self._batches: Counter[int] = Counter()

    def __call__(
        self,
        name: str,
        pictures: Sequence[np.ndarray] | np.ndarray,
        vectors: np.ndarray,
        embed: Callable[..., np.ndarray],
        same: float = SAME,
    ) -> None:
        """``vectors`` float32 [N, D] are those of the N ``pictures`` together; ``embed`` gives [1, D] of a list of one."""
        count = len(pictures)
        self._batches[count] += 1
        if count < 2 or self._batches[count].bit_count() != 1:
            return
        # Of what tells pictures apart: a number that all share may be as large as it likes.
        spread = max(np.ptp(vectors, axis=0).max(), FLOOR * np.abs(vectors).max())
        for row in sorted({0, count // 2, count - 1}):
            alone = embed(pictures[row : row + 1])[0]
            if np.abs(alone - vectors[row]).max() > same * spread:
                raise UserError(
                    f"{name} gives picture {row + 1} of {count} another vector among the others than alone. Put a network into"
                    " evaluation mode (model.eval()); export a graph again, for any number of pictures at once or for one."
                )
