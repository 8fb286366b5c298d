"""How many pictures go through a model at once: as many as the device's memory holds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from bgbias.errors import UserError
from bgbias.progress import say

T = TypeVar("T")
USUAL = 64
# What torch, ONNX Runtime, NumPy and Python say when there is none left, in small letters.
SHORT = ("out of memory", "not enough memory", "allocate memory", "unable to allocate", "memoryerror")


class BatchSize:
    """``size`` pictures at once; where memory is short, half as many from then on."""

    def __init__(self, size: int = USUAL) -> None:
        self.size = size

    def run(self, name: str, work: Callable[[int], T]) -> T:
        """What ``work`` gives, told how many pictures it may take at once. Memory that is short for
        one picture is a UserError.
        """
        while True:
            try:
                return work(self.size)
            except Exception as error:  # each library has its own
                text = f"{type(error).__name__} {error}".lower()
                if not any(words in text for words in SHORT):
                    raise
                if self.size == 1:
                    raise UserError(
                        f"{name} needs more memory than there is, even with --batch-size 1: give a smaller"
                        " --size, or another --device."
                    ) from error
            # The error is gone, and with its traceback what was computed.
            if (torch := sys.modules.get("torch")) and torch.cuda.is_initialized():
                torch.cuda.empty_cache()
            before, self.size = self.size, self.size // 2
            say(
                f"{name}: memory is short for {before} pictures at once; goes on with {self.size}"
                f" (--batch-size {self.size})"
            )
