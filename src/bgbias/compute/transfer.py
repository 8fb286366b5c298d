"""Work of the processor and of a GPU at the same time: the next batch comes while the last one is used, results leave late.

A step that waits for a copy, or for a number, leaves the GPU idle. So batches are made in a thread of their own, put into pinned
memory and sent in a stream of their own; results are fetched when the device has been told what to do next. On a CPU batches are
made ahead as well, and all numbers are those of doing one thing after the other.
"""

from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


def to_device(thing: T, device: str) -> T:
    """A tensor, or a dataclass whose fields are tensors or None, on the device, without waiting for the copy; one that is there
    already is itself.
    """
    if not isinstance(thing, Tensor):
        fields = {name: to_device(part, device) for name, part in vars(thing).items() if part is not None}
        return replace(thing, **fields)  # type: ignore[type-var]
    tensor: Any = thing
    if device.startswith("cuda") and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)  # type: ignore[no-any-return]


def prefetch(things: Iterable[T], device: str) -> Generator[T, None, None]:
    """The things on the device, each made and sent while the one before it is used.

    Whoever takes one may use it in the device's current stream.
    """
    source = iter(things)
    stream = _get_stream(device) if device.startswith("cuda") else None
    if stream is not None:
        # What the things are made from may still be on its way.
        stream.wait_stream(torch.cuda.current_stream(device))

    def prepare() -> tuple[T, torch.cuda.Event | None] | None:
        with torch.cuda.stream(stream) if stream is not None else nullcontext():
            thing = next(source, None)
            if thing is None:
                return None
            result = to_device(thing, device)
            return result, stream.record_event() if stream is not None else None

    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as thread:
        future = thread.submit(prepare)
        while (result := future.result()) is not None:
            future = thread.submit(prepare)
            thing, arrival = result
            if arrival is not None:
                user = torch.cuda.current_stream(device)
                user.wait_event(arrival)
                for tensor in [thing] if isinstance(thing, Tensor) else vars(thing).values():
                    if isinstance(tensor, Tensor):
                        # Its memory goes back to the other stream, which must not write into it before this one has read it.
                        tensor.record_stream(user)
            yield thing


def to_host(tensors: Iterable[Tensor]) -> Iterator[Tensor]:
    """The tensors in the computer's memory, in their order; on a GPU each is waited for when the next has been asked for."""
    pending: tuple[Tensor, torch.cuda.Event] | None = None
    for tensor in tensors:
        if not tensor.is_cuda:
            yield tensor
            continue
        # A copy that nobody waits for goes to pinned memory.
        copy = tensor.to("cpu", non_blocking=True)
        event = torch.cuda.current_stream(tensor.device).record_event()
        if pending is not None:
            yield _wait_for(*pending)
        pending = copy, event
    if pending is not None:
        yield _wait_for(*pending)


@cache
def _get_stream(device: str) -> torch.cuda.Stream:
    """The stream in which things come to a device: always the same, as torch keeps freed memory for the stream that had it."""
    return torch.cuda.Stream(device)


def _wait_for(copy: Tensor, event: torch.cuda.Event) -> Tensor:
    event.synchronize()
    return copy.clone()  # pinned memory is scarce
