"""What several processes make beside this one, in its order: torch's ``DataLoader``, with errors as they were raised."""

import gc
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from bgbias.errors import UserError

T = TypeVar("T")


def make_in_workers(make: Callable[[int], T], count: int, processes: int) -> Iterator[T]:
    """``make(0)`` to ``make(count - 1)``, by so many processes, which see all that this one has opened.

    A UserError of ``make`` is raised here when its turn comes, any other error as a RuntimeError, as is a death of a process.
    ``make`` must not touch a GPU, which a forked process cannot use.
    """
    import torch
    from torch.utils.data import DataLoader

    def run(number: int) -> T | Exception:
        try:
            return make(number)
        except Exception as error:
            told = error
            if not isinstance(error, UserError):  # which may hold what cannot be sent
                told = RuntimeError("".join(traceback.format_exception_only(error)).strip())
            told.add_note(f"In a process of its own:\n{traceback.format_exc()}")
            return told

    gc.freeze()  # garbage stays where it is: to collect what belongs to a GPU would end a forked process
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the locks of other threads, and of more processes than cores
        # Arrays go through pipes: tensors would take /dev/shm, of which containers have little.
        loader: Any = DataLoader(
            range(count),  # type: ignore[arg-type]  # has all that a dataset needs
            batch_size=None,
            collate_fn=run,  # type: ignore[arg-type]  # of one number
            num_workers=processes,
            multiprocessing_context="fork",
            generator=torch.Generator(),  # else it would draw from the global one
        )
        stream = iter(loader)
    gc.unfreeze()
    try:
        for made in stream:
            if isinstance(made, Exception):
                raise made
            yield made
    finally:
        del stream  # which ends the processes, whoever keeps the error
