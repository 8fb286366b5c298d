"""The hub of Hugging Face, where it cannot be reached: its client would say so a dozen times within minutes, file by file."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.request import getproxies

SECONDS = 5.0  # in which an address has to answer


@contextmanager
def reached_or_offline() -> Iterator[None]:
    """Who asks the hub inside for the first time connects to it before; if nobody answers there, the client goes on as one that
    was told to be offline: it takes the copies that are here, or says at once that there are none.
    """
    client = _client()
    # Behind a proxy, the proxy finds the hub.
    if client is None or getproxies().keys() & {"http", "https", "all"}:
        yield
        return

    @cache
    def why_not(host: str, port: int) -> OSError | None:
        try:
            socket.create_connection((host, port), SECONDS).close()
        except OSError as error:
            return error
        return None

    def check(request: Any) -> None:
        from huggingface_hub.errors import OfflineModeIsEnabled

        url = request.url
        if error := why_not(url.host, url.port or {"http": 80}.get(url.scheme, 443)):
            raise OfflineModeIsEnabled(f"{url.host}: {error}") from error

    _hook(client, [*client.event_hooks["request"], check])
    try:
        yield
    finally:
        _hook(client, [hook for hook in client.event_hooks["request"] if hook is not check])


def _client() -> Any:
    """What the hub is asked by, if it lets others look at what it asks: versions before 1.0 do not."""
    if find_spec("huggingface_hub") is None:
        return None
    hub = import_module("huggingface_hub")
    client = hub.get_session() if hasattr(hub, "get_session") else None
    return client if hasattr(client, "event_hooks") else None


def _hook(client: Any, hooks: list[Any]) -> None:
    client.event_hooks = client.event_hooks | {"request": hooks}
