"""Libraries that only some models need, and what they fetch: errors say which command to type."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bgbias.errors import UserError
from bgbias.models.adapters._hub import reached_or_offline

# What went wrong, by the names of exceptions of huggingface_hub, requests, httpx and urllib, whichever is at work.
GATED = ("GatedRepoError",)
UNKNOWN = ("RepositoryNotFoundError", "HFValidationError", "RevisionNotFoundError")
UNREACHABLE = (
    "OfflineModeIsEnabled", "LocalEntryNotFoundError", "URLError", "ConnectionError", "ConnectError", "ConnectTimeout",
    "ReadTimeout", "Timeout", "MaxRetryError", "ProxyError", "gaierror",
)  # fmt: skip

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
