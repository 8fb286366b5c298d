"""Libraries that only some models need, and what they fetch: errors say which command to type.

Where the hub of Hugging Face cannot be reached, its client would say so a dozen times within
minutes, file by file.
"""

import difflib
import importlib
import logging
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.request import getproxies

from bgbias.compute.device import threads
from bgbias.errors import UserError

# Names of exceptions of huggingface_hub, requests, httpx and urllib, whichever is at work.
GATED = {"GatedRepoError"}
UNKNOWN = {"RepositoryNotFoundError", "HFValidationError", "RevisionNotFoundError"}
UNREACHABLE = {
    "OfflineModeIsEnabled", "LocalEntryNotFoundError", "URLError", "ConnectionError",
    "ConnectError", "ConnectTimeout", "ReadTimeout", "Timeout", "MaxRetryError", "ProxyError",
    "gaierror",
}  # fmt: skip

SECONDS = 5.0  # in which an address has to answer
PAGE = "https://huggingface.co/"
OFFLINE = "Fetch it where there is a network, or name a file with its weights: --weights."
OFFLINE_FOLDER = "Fetch it where there is a network, and name its folder here."
GPU = "CUDAExecutionProvider"
PROVIDERS = {"auto": "CPUExecutionProvider", "cpu": "CPUExecutionProvider", "cuda": GPU}


def import_extra(library: str, extra: str) -> Any:
    """A library of one of our extras; without it, an error says how to install it."""
    try:
        return importlib.import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library.partition(".")[0]:
            raise
        raise UserError(f"{library} is not installed: pip install 'bgbias[{extra}]'") from error


def check_name(name: str, choices: Iterable[str], what: str, command: str) -> None:
    """Refuse a name that is not among those that are there; ``command`` lists them."""
    lower = {choice.lower(): choice for choice in choices}
    if name in lower.values():
        return
    near = [lower[key] for key in difflib.get_close_matches(name.lower(), lower, 3)]
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise UserError(f"There is no {what} '{name}'.{hint} All of them: {command}")


def folder_or_page(which: str, name: str = "") -> str:
    """Where a model of the hub is, by its ``name`` there (if that differs) or a folder, which has
    to be there.
    """
    if Path(which).is_dir():
        return which
    if which.startswith((".", "/", "~")):
        raise UserError(f"The folder {which} is missing; correct --model.")
    return PAGE + (name or which)


def load_source(name: str, source: str, get: Callable[[], Any], offline: str = OFFLINE) -> Any:
    """What ``get`` loads or fetches from ``source``, a page or a file, for the model ``name``; its
    errors say what to do.

    ``offline``: what to do where the source cannot be reached.
    """
    try:
        with reached_or_offline():
            return get()
    except UserError:
        raise
    except Exception as error:  # of the hub's client, of the network or of the file
        raise UserError(_explain(name, source, error, offline)) from error


def load_graph(graph: str | bytes, whose: str, origin: str, device: str) -> Any:
    """ONNX Runtime's session of a graph, given as a file or as its bytes, on the device that was asked for.

    ``whose`` and ``origin`` name its owner and its file in errors: the library or the GPU is missing, or the file holds no graph.
    """
    import_extra("onnxruntime", "onnx")
    import onnxruntime  # by this statement its version counts in digests of code

    kind, _, number = device.partition(":")
    if kind not in PROVIDERS:
        raise UserError(f"Unknown device '{device}': use 'cpu', 'cuda' or 'cuda:N'.")
    provider = PROVIDERS[kind]
    lacking = UserError(
        f"ONNX Runtime cannot use a GPU here: --device {device} cannot be; use --device cpu, or install onnxruntime-gpu"
        f" {onnxruntime.__version__} in its place, with the CUDA and cuDNN that it wants."
    )
    if provider not in onnxruntime.get_available_providers():  # before a large graph is loaded
        raise lacking
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads()
    # Without TF32, so that both devices compute the same.
    choice = (provider, {"device_id": number or "0", "use_tf32": "0"}) if provider == GPU else provider
    session = load_source(
        whose, origin, lambda: onnxruntime.InferenceSession(graph, settings, providers=[choice])
    )
    # Where the GPU's libraries cannot be loaded, ONNX Runtime goes on with the processor.
    if provider not in session.get_providers():
        raise lacking
    return session


@contextmanager
def silence() -> Iterator[None]:
    """Without what libraries print besides: notes, bars, that a network is random until its weights
    are read here, and errors that they raise as well.
    """
    bars: Any = sys.modules.get("transformers.utils.logging")
    had_bars = bars is not None and bars.is_progress_bar_enabled()
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    if had_bars:
        bars.disable_progress_bar()
    try:
        yield
    finally:
        logging.disable(before)
        if had_bars:
            bars.enable_progress_bar()


def _explain(name: str, source: str, error: Exception, offline: str) -> str:
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    kinds = {kind.__name__ for one in causes for kind in type(one).__mro__}
    words, root = (
        (str(one).strip().splitlines() or [type(one).__name__])[0][:300].rstrip(".")
        for one in (error, causes[-1])
    )
    if kinds & GATED:
        return f"{name} is gated: accept its terms at {source}, then `hf auth login`."
    if kinds & UNKNOWN:
        return (
            f"{name} is not to be found at {source} ({words}). Correct its name; if it is private,"
            " `hf auth login` first."
        )
    if kinds & UNREACHABLE:
        return (
            f"{name} could not be fetched from {source}, and there is no copy of it here ({root}). {offline}"
        )
    if source.startswith("http"):
        return f"{name} could not be loaded from {source}: {words}."
    step = offline if ":/" in source else f"Make or copy {source} again."  # an address, or a file
    return f"{name} could not be loaded: {words}. {step}"


@contextmanager
def reached_or_offline() -> Iterator[None]:
    """Who asks the hub inside for the first time connects to it before. If nobody answers there,
    the client works offline: it takes the copies that are here, or says at once that there are none.
    """
    client = importlib.import_module("huggingface_hub").get_session()
    # Behind a proxy, the proxy finds the hub; clients before version 1.0 have no hooks.
    if not hasattr(client, "event_hooks") or getproxies().keys() & {"http", "https", "all"}:
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

    hooks = client.event_hooks["request"]
    hooks.append(check)
    try:
        yield
    finally:
        hooks.remove(check)
