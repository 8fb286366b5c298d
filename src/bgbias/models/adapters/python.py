"""Code of one's own: ``file.py:function`` or ``module:function``, and any Python object that embeds pictures.

What is named is a network (``torch.nn.Module``), an object with ``encode`` (a list of Pillow's pictures to vectors, or as MTEB's
encoders have it), a function from a list of pictures uint8 [S, S, 3] to vectors, or a function without arguments that returns one
of these. Networks are given RGB, normalised as the options say; the others prepare pictures themselves.
"""

import copy
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from bgbias import plugins
from bgbias.compute.lazy import torch
from bgbias.errors import UserError
from bgbias.models.adapters import LOOKS, NORMALISES, Adapted, Options, _network, _pictures
from bgbias.models.adapters._calls import failing
from bgbias.models.adapters._library import check_name, reached_or_offline
from bgbias.models.adapters._preparation import usual

TAKES = "file.py:function or module:function"
OPTIONS = LOOKS | NORMALISES | {"weights", "pooling"}


def adapt(which: str, options: Options) -> Adapted:
    """What the code makes; the file is executed once, with its own folder on the path of modules while it runs."""
    origin, _, name = which.rpartition(":")
    if not origin or not name.isidentifier():
        raise UserError(f"'{which}' names no function; write {TAKES}.")
    file = Path(origin).resolve() if origin.endswith(".py") else None
    folder = file.parent if file else Path.cwd()
    with _import_from(folder):
        code = (
            _load_file(Path(origin))
            if file
            else _call_user_code(origin, lambda: importlib.import_module(origin))
        )
        public = [n for n in vars(code) if not n.startswith("_") and callable(getattr(code, n))]
        if not hasattr(code, name):
            check_name(name, public, f"function in {origin}:", ", ".join(public) or "none")
        model = _make(getattr(code, name), which)
        if inspect.isfunction(model):
            model = _import_from(folder)(model)  # it may import what lies beside it when it is called
        return of_object(model, options, which)


def is_module(name: str) -> bool:
    """Whether a module of this name can be imported, from the folder that we are in too."""
    with _import_from(Path.cwd()):
        try:
            return bool(name) and importlib.util.find_spec(name) is not None
        except (ImportError, ValueError, AttributeError):
            return False


def of_object(model: Any, options: Options, name: str = "") -> Adapted:
    """A network, an object with ``encode`` or a function; one of a library that is known by how that library prepares photos."""
    name = name or getattr(model, "__name__", type(model).__name__)
    adapters = [plugins.load("adapters", kind) for kind in plugins.names("adapters")]
    by_library = {adapter.OF: adapter for adapter in adapters if hasattr(adapter, "OF")}
    for kind in type(model).__mro__:
        if adapter := by_library.get(kind.__module__.partition(".")[0]):
            options.only(adapter.OPTIONS, name)
            return adapter.of_object(model, options, name)
    if isinstance(model, torch.nn.Module):
        # Not hers: it changes its device and its mode.
        network = copy.deepcopy(model)
        notes = () if options.weights is None else _network.fill(network, options.weights, name)
        return _network.adapt_network(name, network, usual(options), options, notes)
    # Texts have an encode() of their own.
    encode = None if isinstance(model, str) else getattr(model, "encode", None)
    if callable(encode) and "task_metadata" in inspect.signature(encode).parameters:
        options.only(LOOKS, name)
        return plugins.load("adapters", "mteb").of_object(model, options, name)
    if not callable(encode) and not callable(model):
        raise UserError(
            f"{name} is a {type(model).__name__}; a model is a network (torch.nn.Module), an object with encode(), or a function"
            " from a list of pictures to vectors."
        )
    options.only(LOOKS, name)
    if options.device != "auto":
        raise UserError(f"{name} chooses its device itself; leave --device out.")
    options.refuse_precision(name)
    if callable(encode):
        embed, what = (lambda views: encode(_pictures.pillow(views))), "its encode()"
    else:
        embed, what = model, "what it returns"
    words = f"embedding: {what}; the code is given these pictures, and prepares them itself"
    return _pictures.adapt_pictures(name, embed, usual(options, normalises_itself=True), words)


def _make(thing: Any, which: str) -> Any:
    """The model itself: what a function or class without arguments returns, else the thing."""
    is_encoder = hasattr(thing, "encode") and not inspect.isclass(thing)
    if is_encoder or isinstance(thing, torch.nn.Module) or not callable(thing):
        return thing
    required = [
        p.name
        for p in inspect.signature(thing).parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if not required:
        model = _call_user_code(which, thing)
        if model is None:
            raise UserError(f"{which} returns nothing; it must return the model.")
        return model
    if len(required) > 1 or inspect.isclass(thing):
        raise UserError(
            f"{which} wants {', '.join(required)}. Write a function without arguments that returns the model, or one with one"
            " argument, a list of pictures, that returns their vectors."
        )
    return thing


def _load_file(path: Path) -> ModuleType:
    """The module in a file, as it stands now: executed once, an edited file again. Nothing that was
    compiled before is taken: that may be of the same second, and of another text.
    """
    if not path.is_file():
        raise UserError(f"{path} is missing; correct --model.")
    path = path.resolve()
    code = path.read_bytes()
    name = f"bgbias_model_{hashlib.sha256(str(path).encode() + code).hexdigest()[:12]}"
    if name not in sys.modules:
        module = sys.modules[name] = ModuleType(name)
        module.__file__ = str(path)
        try:
            _call_user_code(str(path), lambda: exec(compile(code, str(path), "exec"), vars(module)))
        except UserError:
            del sys.modules[name]
            raise
    return sys.modules[name]


def _call_user_code(where: str, run: Callable[[], Any]) -> Any:
    """What somebody's code gives; an error in it is told with file and line. Nothing compiled is written into her folder."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        with failing(f"{where} cannot be used"), reached_or_offline():
            return run()
    finally:
        sys.dont_write_bytecode = before


@contextmanager
def _import_from(folder: Path) -> Iterator[None]:
    """The folder on the path of modules, as if its code had been started there; not afterwards."""
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = before
