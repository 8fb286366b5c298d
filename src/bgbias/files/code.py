"""The code that a number comes from, as a digest sees it: so that an edited formula is noticed without anybody's saying so.

The code of a module is its own source and that of every module that it imports, and so on downwards. Families are entered only
where their file is named: ``plugins.load`` is no import, so that a loss is part of the models that are trained with it and of no
others. What is left out:

* modules that plan, bring bytes that checksums verify, or speak to people (``NO_NUMBERS``); in the files of nodes, tables and
  figures what is planned with (``PLANNING``), in those of losses, methods and datasets their titles (``NAMES``): what these say
  stands in digests itself;
* in a module's source all that moves no number: comments, layout, docstrings, annotations of functions, what an error or a
  progress line says, the descriptions of settings, and from which of our modules a name is imported. So whoever formats, explains
  or moves code makes nothing again; whoever renames a variable says so (``bgbias status --accept``).

Versions of other people's packages are part of it where the code imports them (``libraries``).
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import json
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from bgbias import plugins
from bgbias.files.atomic import write_json

ROOT = Path(__file__).parents[1]
NO_NUMBERS = (
    "cli", "engine", "errors", "plugins", "progress", "settings", "study", "tracking",
    "files.atomic", "files.checksums", "files.code", "files.contents", "files.download", "files.fetch", "files.fingerprint",
    "files.locks", "files.places", "files.sealed", "compute.gpu_slots", "compute.vitals",
)  # fmt: skip
NUMBERS = ("study.album", "study.training")  # of packages that make none, but for these
PLANNED = ("nodes", "report.tables", "report.figures")
PLANNING = {
    "SUBJECT", "OUTPUTS", "COLLECTION", "CURVE", "PLACE", "ABOUT", "reads", "settings", "uses", "cost", "goals", "subjects",
    "keep", "wanted", "sources_are_elsewhere",
}  # fmt: skip
# What tables call them stands in the digests of what prints it.
NAMED, NAMES = ("losses", "methods", "datasets"), {"TITLE", "PLACE", "ENTRIES"}
# Who imports it gets numbers from it: import name to distributions of which one is installed.
LIBRARIES = {
    "torch": ("torch",), "torchvision": ("torchvision",), "timm": ("timm",), "numpy": ("numpy",), "pandas": ("pandas",),
    "scipy": ("scipy",), "PIL": ("pillow",), "cv2": ("opencv-python-headless", "opencv-python"), "matplotlib": ("matplotlib",),
    "pytorch_metric_learning": ("pytorch-metric-learning",), "faiss": ("faiss-gpu", "faiss-cpu", "faiss-gpu-cu12"),
    "onnxruntime": ("onnxruntime",),
}  # fmt: skip
NECK = "neck:"  # what a method puts into the model by its name, without an import


class Module(NamedTuple):
    """A module's source: its fingerprint, and what it imports of ours (as written) and of others."""

    fingerprint: str
    imports: tuple[str, ...]
    libraries: tuple[str, ...]


@cache
def modules(*names: str) -> dict[str, str]:
    """The code behind some modules: file, as people call it, to its fingerprint."""
    return {_label(name): _module(name).fingerprint for name in _followed(names)}


@cache
def fingerprint(*names: str) -> str:
    """The code behind some modules, in 16 hex digits. It does not know what files are called, so that they may be moved."""
    return _hash("\n".join(sorted(set(modules(*names).values()))))


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
    """Two states of code compared, file by file, in words; a file that was only moved is no difference."""
    moved = set(before.values()) & set(now.values())
    changed = [f for f in sorted(before.keys() | now.keys()) if before.get(f) != now.get(f)]
    edited = [f"{f} changed" for f in changed if f in before and f in now]
    new = [f"{f} is new" for f in changed if f not in before and now[f] not in moved]
    gone = [f"{f} is gone" for f in changed if f not in now and before[f] not in moved]
    return edited + new + gone


def look_again() -> None:
    """Forget what was read: files may have been edited since this process started."""
    for cached in (modules, fingerprint, libraries, _followed, _module, _package, _file, _version):
        cached.cache_clear()


@cache
def _followed(names: tuple[str, ...]) -> tuple[str, ...]:
    """These modules and all of ours that they import, directly or not, as far as they carry numbers."""
    seen: dict[str, None] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in seen or not carries_numbers(name):
            continue
        seen[name] = None
        for imported in _module(name).imports:
            if imported.startswith(NECK):
                waiting.append(plugins.load("necks", imported.removeprefix(NECK)).__name__)
            else:
                waiting += [m for m in (imported, imported.rpartition(".")[0]) if _file(m)][:1]
    return tuple(seen)


@cache
def _module(name: str) -> Module:
    path = _file(name)
    if path is None:
        raise ModuleNotFoundError(f"no source of {name} can be found")
    if path.is_relative_to(ROOT):
        return _package()[path.relative_to(ROOT).as_posix()]
    return _read(path, name)


@cache
def _package() -> dict[str, Module]:
    """All of our own modules by file. What was read before is remembered beside the compiled code; what changed is read again."""
    remembered = ROOT / "__pycache__" / "code.json"
    before: dict[str, list[Any]] = {}
    with suppress(OSError, ValueError):
        before = json.loads(remembered.read_text(encoding="utf-8"))
    rules = _stamp(Path(__file__))
    now: dict[str, list[Any]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        file, stamp = path.relative_to(ROOT).as_posix(), [*rules, *_stamp(path)]
        known = before.get(file, [None])
        now[file] = known if known[0] == stamp else [stamp, *_read(path, _name(file))]
    if now != before:
        with suppress(OSError):  # an installation that is not ours to write to
            write_json(remembered, now)
    return {file: Module(mark, tuple(ours), tuple(others)) for file, (_, mark, ours, others) in now.items()}


def _stamp(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def _read(path: Path, name: str) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"), path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    folder = name.removeprefix("bgbias.").rpartition(".")[0]
    named = NAMES if folder.rpartition(".")[2] in NAMED else set()
    reader = _Reader(package, PLANNING if folder in PLANNED else named)
    text = ast.unparse(ast.fix_missing_locations(reader.visit(tree)))
    return Module(_hash(text), tuple(sorted(reader.imports)), tuple(sorted(reader.libraries)))


class _Reader(ast.NodeTransformer):
    """Takes away what moves no number, and notes what is imported."""

    def __init__(self, package: str, planning: set[str]) -> None:
        self.imports: set[str] = set()
        self.libraries: set[str] = set()
        self._package, self._planning, self._in_function = package, planning, 0

    def visit_Module(self, module: ast.Module) -> ast.AST:
        module.body = [s for s in module.body if not _defined(s) & self._planning]
        return self._without_docstring(module)

    def visit_ClassDef(self, found: ast.ClassDef) -> ast.AST:
        outside, self._in_function = (
            self._in_function,
            0,
        )  # annotations of fields are part of what a class does
        self._without_docstring(found)
        self._in_function = outside
        return found

    def visit_FunctionDef(self, function: ast.FunctionDef) -> ast.AST:
        function.returns = None
        self._in_function += 1
        self._without_docstring(function)
        self._in_function -= 1
        return function

    def visit_arg(self, arg: ast.arg) -> ast.AST:
        arg.annotation = None
        return arg

    def visit_AnnAssign(self, assigned: ast.AnnAssign) -> ast.AST | None:
        if not self._in_function:
            return self.generic_visit(assigned)
        if assigned.value is None:
            return None
        return self.visit(ast.Assign([assigned.target], assigned.value))  # type: ignore[no-any-return]

    def visit_If(self, choice: ast.If) -> ast.AST | None:
        return None if _called(choice.test) == "TYPE_CHECKING" else self.generic_visit(choice)

    def visit_Raise(self, raised: ast.Raise) -> ast.AST:
        if isinstance(raised.exc, ast.Call) and _called(raised.exc.func).endswith("Error"):
            raised.exc = raised.exc.func
        return self.generic_visit(raised)

    def visit_Expr(self, statement: ast.Expr) -> ast.AST:
        said = isinstance(statement.value, ast.Call) and _called(statement.value.func) == "say"
        return ast.Pass() if said else self.generic_visit(statement)

    def visit_Call(self, call: ast.Call) -> ast.AST:
        call.keywords = [k for k in call.keywords if k.arg != "description"]
        if _called(call.func) == "add_neck" and call.args and isinstance(call.args[0], ast.Constant):
            self.imports.add(NECK + str(call.args[0].value))
        return self.generic_visit(call)

    def visit_Import(self, statement: ast.Import) -> ast.AST:
        for alias in statement.names:
            self._note(alias.name)
        return statement

    def visit_ImportFrom(self, statement: ast.ImportFrom) -> ast.AST | None:
        above = self._package.split(".")[: len(self._package.split(".")) - statement.level + 1]
        module = ".".join([*(above if statement.level else []), *filter(None, [statement.module])])
        for alias in statement.names:
            self._note(module, f"{module}.{alias.name}")
        if module == "__future__":
            return None
        if statement.level or module.partition(".")[0] == "bgbias":
            statement.module, statement.level = "bgbias", 0
        return statement

    def _note(self, module: str, name: str = "") -> None:
        top = module.partition(".")[0]
        if top in LIBRARIES:
            self.libraries.add(top)
        elif top in ("bgbias", self._package.partition(".")[0]):
            self.imports.add(name or module)

    def _without_docstring(self, scope: ast.Module | ast.ClassDef | ast.FunctionDef) -> ast.AST:
        if ast.get_docstring(scope, clean=False) is not None:
            scope.body = scope.body[1:]
        self.generic_visit(scope)
        scope.body = scope.body or [ast.Pass()]
        return scope


def _defined(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef):
        return {statement.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return {t.id for t in targets if isinstance(t, ast.Name)}


def _called(expression: ast.expr) -> str:
    """The last part of a name: ``say`` of ``progress.say``; empty for what is no name."""
    return getattr(expression, "attr", getattr(expression, "id", ""))


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


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
