"""The hub of Hugging Face, where it cannot be reached: its client would say so a dozen times within minutes, file by file."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.request import getproxies

SECONDS = 5.0  # in which an address has to answer


@contextmanager
def reached_or_offline() -> Iterator[None]:
    """Who asks the hub inside for the first time connects to it before; if nobody answers there, the client goes on as one that
    was told to be offline: it takes the copies that are here, or says at once that there are none.
    """
    hub = sys.modules.get("huggingface_hub")  # whoever asks it has imported it
    get_session = getattr(hub, "get_session", None)  # older ones have none, and do not insist
    # Behind a proxy, the proxy finds the hub.
    if get_session is None or getproxies().keys() & {"http", "https", "all"}:
        yield
        return
    client = get_session()
    before = client.event_hooks

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

    client.event_hooks = before | {"request": [*before["request"], check]}
    try:
        yield
    finally:
        client.event_hooks = before
