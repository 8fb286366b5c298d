"""The code that a number comes from, as a digest sees it: so that an edited formula is noticed without anybody's saying so.

The code of a module is its own source and that of every module that it imports, and so on downwards. Families are entered only
where their file is named: ``plugins.load`` is no import, so that a loss is part of the models that are trained with it and of no
others. What is left out:

* modules that plan, bring bytes that checksums verify, or speak to people (``NO_NUMBERS``);
* in a module's source all that moves no number (``files/code_text.py``): comments, layout, docstrings, annotations of functions,
  what an error or a progress line says, the descriptions of settings, titles of losses, methods and datasets, what nodes, tables
  and figures are planned with (what it says stands in digests itself), and what the modules are called that a name is imported
  from (their code stands for them). So whoever formats, explains or moves code makes nothing again; whoever renames a variable
  says so (``bgbias status --accept``).

Versions of other people's packages are part of it where the code imports them (``libraries``), and so are files beside a module
that it names. What it reads elsewhere, or imports from outside its folder and bgbias, is not seen.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from bgbias import plugins
from bgbias.files import code_text
from bgbias.files.atomic import write_json
from bgbias.files.code_text import LIBRARIES, NECK, Module, hashed, read

ROOT = Path(__file__).parents[1]
NO_NUMBERS = (
    "cli", "engine", "errors", "plugins", "progress", "settings", "study", "tracking",
    "files.atomic", "files.checksums", "files.code", "files.code_text", "files.hashes", "files.download", "files.fetch",
    "files.fingerprint", "files.locks", "files.places", "files.sealed", "compute.gpu_slots", "compute.vitals",
)  # fmt: skip
# Of packages that make none, but for these.
NUMBERS = ("engine.mask_cache", "study.album", "study.methods", "study.training", "study.truth")


@cache
def modules(*names: str) -> dict[str, str]:
    """The code behind some modules: file, as people call it, to the fingerprint of what stands in it."""
    return {_label(name): _own(name) for name in _followed(names)}


@cache
def fingerprint(*names: str) -> str:
    """The code behind some modules, in 16 hex digits. It does not know what files are called, so that they may be moved."""
    return hashed("\n".join(sorted(_whole(name, ())[0] for name in names)))


def behind(scripts: Iterable[Path], without: tuple[str, ...] = ()) -> dict[str, str]:
    """The same of scripts outside the package and what they import of it, but for modules that begin like ``without``."""
    read_now = {Path(*script.parts[-3:]).as_posix(): read(script, script.stem) for script in scripts}
    imported = [name for module in read_now.values() for name in module.imports]
    ours = [m for m in _found(i for i in imported if i.startswith("bgbias.")) if not m.startswith(without)]
    return {file: module.fingerprint for file, module in read_now.items()} | modules(*sorted({*ours}))


@cache
def libraries(*names: str) -> dict[str, str]:
    """Other people's packages that the code behind some modules imports: name to version, without the build (``+cpu``)."""
    imported = {library for name in _followed(names) for library in _module(name).libraries}
    return {library: _version(library) for library in sorted(imported)}


def carries_numbers(name: str) -> bool:
    """Whether numbers come from a module, by its full name."""
    own = name.removeprefix("bgbias.")
    return own == name or _below(own, NUMBERS) or not (own == "bgbias" or _below(own, NO_NUMBERS))


def differences(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Two different states of code compared, file by file, in words; a file that was only moved is not named."""
    moved = set(before.values()) & set(now.values())
    changed = [f for f in sorted(before.keys() | now.keys()) if before.get(f) != now.get(f)]
    edited = [f"{f} changed" for f in changed if f in before and f in now]
    new = [f"{f} is new" for f in changed if f not in before and now[f] not in moved]
    gone = [f"{f} is gone" for f in changed if f not in now and before[f] not in moved]
    return edited + new + gone or ["imports of its code changed"]


def look_again() -> None:
    """Forget what was read: files may have been edited since this process started."""
    for cached in (modules, fingerprint, libraries, _followed, _own, _module, _package, _file, _version):
        cached.cache_clear()
    _wholes.clear()


_wholes: dict[str, str] = {}


def _whole(name: str, above: tuple[str, ...]) -> tuple[str, bool]:
    """A module's own code with that of all that it imports, each in the place of its name; and whether one of those ``above``,
    which import it, is among them: then it is another one seen from elsewhere.
    """
    if name in _wholes:
        return _wholes[name], False
    if name in above:
        return _own(name), True
    below = [_whole(target, (*above, name)) for target in _targets(name)]
    mark = hashed("\n".join([_own(name), *(m for m, _ in below)]))
    round_about = any(r for _, r in below) and bool(above)
    if not round_about:
        _wholes[name] = mark
    return mark, round_about


@cache
def _followed(names: tuple[str, ...]) -> tuple[str, ...]:
    """These modules and all of ours that they import, directly or not, as far as they carry numbers."""
    seen: dict[str, None] = {}
    waiting = list(names)
    while waiting:
        if (name := waiting.pop()) not in seen:
            seen[name] = None
            waiting += _targets(name)
    return tuple(seen)


def _targets(name: str) -> list[str]:
    """Those of the modules that a module imports, in its order, from which numbers come."""
    return _found(_module(name).imports)


def _found(imports: Iterable[str]) -> list[str]:
    """The modules of imported names, as far as they carry numbers."""
    targets: list[str] = []
    for imported in imports:
        if imported.startswith(NECK):
            targets.append(plugins.load("necks", imported.removeprefix(NECK)).__name__)
        else:
            targets += [m for m in (imported, imported.rpartition(".")[0]) if _file(m)][:1]
    return [target for target in targets if carries_numbers(target)]


@cache
def _own(name: str) -> str:
    """What stands in a module, and in the files beside it that it names."""
    path, module = _file(name), _module(name)
    assert path is not None
    beside = [hashlib.sha256((path.parent / file).read_bytes()).hexdigest() for file in module.beside]
    return hashed("\n".join([module.fingerprint, *beside])) if beside else module.fingerprint


@cache
def _module(name: str) -> Module:
    path = _file(name)
    if path is None:
        raise ModuleNotFoundError(f"no source of {name} can be found")
    if path.is_relative_to(ROOT):
        return _package()[path.relative_to(ROOT).as_posix()]
    return read(path, name)


@cache
def _package() -> dict[str, Module]:
    """All of our own modules by file. What was read before is remembered beside the compiled code; what changed is read again."""
    remembered = ROOT / "__pycache__" / "code.json"
    before: Any = None
    with suppress(OSError, ValueError):
        before = json.loads(remembered.read_text(encoding="utf-8"))
    rules = [*sys.version_info[:2], *_stamp(Path(code_text.__file__))]
    known = before["modules"] if isinstance(before, dict) and before.get("rules") == rules else {}
    now: dict[str, list[Any]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        file, stamp = path.relative_to(ROOT).as_posix(), _stamp(path)
        before_it = known.get(file, [None])
        now[file] = before_it if before_it[0] == stamp else [stamp, *read(path, _name(file))]
    if now != known:
        with suppress(OSError):  # an installation that is not ours to write to
            write_json(remembered, {"rules": rules, "modules": now})
    return {file: Module(mark, *(tuple(names) for names in lists)) for file, (_, mark, *lists) in now.items()}


def _stamp(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


@cache
def _file(name: str) -> Path | None:
    """The source of a module; None if there is none of this name."""
    top, _, rest = name.partition(".")
    if top == "bgbias":
        path = ROOT.joinpath(*rest.split(".")) if rest else ROOT
        return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()), None)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, AttributeError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _name(file: str) -> str:
    return ".".join(["bgbias", *file.removesuffix(".py").removesuffix("/__init__").split("/")])


def _label(name: str) -> str:
    path = _file(name)
    assert path is not None
    if path.is_relative_to(ROOT):
        return path.relative_to(ROOT).as_posix()
    depth = name.count(".") + 1
    return Path(*path.parts[-depth:]).as_posix() if path.name != "__init__.py" else name


@cache
def _version(library: str) -> str:
    for distribution in LIBRARIES[library]:
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(distribution).partition("+")[0]
    return "none"


def _below(name: str, places: Iterable[str]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in places)
