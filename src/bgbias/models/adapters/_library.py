"""Libraries that only some models need, and what they fetch: errors say which command to type.

Where the hub of Hugging Face cannot be reached, its client would say so a dozen times within minutes, file by file.
"""

from __future__ import annotations

import difflib
import importlib
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import getproxies

from bgbias.errors import UserError

# What went wrong, by the names of exceptions of huggingface_hub, requests, httpx and urllib, whichever is at work.
GATED = ("GatedRepoError",)
UNKNOWN = ("RepositoryNotFoundError", "HFValidationError", "RevisionNotFoundError")
UNREACHABLE = (
    "OfflineModeIsEnabled", "LocalEntryNotFoundError", "URLError", "ConnectionError", "ConnectError", "ConnectTimeout",
    "ReadTimeout", "Timeout", "MaxRetryError", "ProxyError", "gaierror",
)  # fmt: skip

SECONDS = 5.0  # in which an address has to answer
PAGE = "https://huggingface.co/"
OFFLINE = "Fetch it where there is a network, or name a file with its weights: --weights."
OFFLINE_FOLDER = "Fetch it where there is a network, and name its folder here."


def needed(library: str, extra: str) -> Any:
    """A library that comes with an extra of bgbias; without it, an error says how to install it."""
    try:
        return importlib.import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library.partition(".")[0]:
            raise
        raise UserError(f"{library} is not installed: pip install 'bgbias[{extra}]'") from error


def named(name: str, there: Iterable[str], what: str, command: str) -> None:
    """Refuse a name that is not among those that are there; ``command`` lists them."""
    known = list(there)
    if name in known:
        return
    lower = {k.lower(): k for k in known}
    near = [lower[k] for k in difflib.get_close_matches(name.lower(), lower, 3)]
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise UserError(f"There is no {what} '{name}'.{hint} All of them: {command}")


def present(file: Path, what: str) -> None:
    """Refuse a file that is missing; ``what`` it is for people."""
    if not file.is_file():
        raise UserError(f"{what} {file} is missing; correct --model.")


def folder_or_page(which: str, name: str = "") -> str:
    """Where a model of the hub is, by its name there (``name``, if that differs) or a folder; one that is missing is an error."""
    folder = Path(which)
    if which.startswith((".", "/", "~")) and not folder.is_dir():
        raise UserError(f"The folder {which} is missing; correct --model.")
    return which if folder.is_dir() else PAGE + (name or which)


def asked(name: str, source: str, get: Callable[[], Any], offline: str = OFFLINE) -> Any:
    """What ``get`` loads or fetches from ``source``, a page or a file, for the model ``name``; its errors say what to do.

    ``offline``: what to do where the source cannot be reached.
    """
    try:
        with reached_or_offline():
            return get()
    except UserError:
        raise
    except Exception as error:  # of the hub's client, of the network or of the file
        raise UserError(_why(name, source, error, offline)) from error


def _why(name: str, source: str, error: Exception, offline: str) -> str:
    causes = list(_causes(error))
    kinds = {kind for one in causes for kind in _kinds(one)}
    said = _said(error)
    if kinds & set(GATED):
        return f"{name} is gated: accept its terms at {source}, then `hf auth login`."
    if kinds & set(UNKNOWN):
        return f"{name} is not to be found at {source} ({said}). Correct its name; if it is private, `hf auth login` first."
    if kinds & set(UNREACHABLE):
        return f"{name} could not be fetched from {source}, and there is no copy of it here ({_said(causes[-1])}). {offline}"
    step = f" {offline}" if ":/" in source else f" Make or copy {source} again."  # an address, or a file
    return f"{name} could not be loaded: {said}.{'' if source.startswith('http') else step}"


def _said(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300].rstrip(".")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _kinds(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


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
    hub = importlib.import_module("huggingface_hub")
    client = hub.get_session() if hasattr(hub, "get_session") else None
    return client if hasattr(client, "event_hooks") else None


def _hook(client: Any, hooks: list[Any]) -> None:
    client.event_hooks = client.event_hooks | {"request": hooks}
