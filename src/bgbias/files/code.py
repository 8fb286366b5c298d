"""The code that a number comes from, as a digest sees it: so that an edited formula is noticed without anybody's saying so.

The code of a module is its own source and that of every module that it imports, and so on downwards. Families are entered only
where their file is named: ``plugins.load`` is no import, so that a loss is part of the models that are trained with it and of no
others. What is left out:

* modules that plan, bring bytes that checksums verify, or speak to people (``NO_NUMBERS``); in the files of nodes, tables and
  figures what is planned with (``PLANNING``), in those of losses, methods and datasets their titles (``NAMES``): what these say
  stands in digests itself;
* in a module's source all that moves no number: comments, layout, docstrings, annotations of functions, what an error or a
  progress line says, the descriptions of settings, and what the modules are called that a name is imported from (their code
  stands for them). So whoever formats, explains or moves code makes nothing again; whoever renames a variable says so
  (``bgbias status --accept``).

Versions of other people's packages are part of it where the code imports them (``libraries``), and so are files beside a module
that it names. What it reads elsewhere, or imports from outside its folder and bgbias, is not seen.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import json
import re
import sys
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
# Of packages that make none, but for these.
NUMBERS = ("engine.mask_cache", "study.album", "study.methods", "study.training", "study.truth")
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
# Decorators that do not look at annotations, and errors whose words are for people.
BLIND = {
    "abstractmethod",
    "cache",
    "cached_property",
    "classmethod",
    "contextmanager",
    "lru_cache",
    "property",
    "staticmethod",
}
SPOKEN = {
    "FileNotFoundError",
    "NotImplementedError",
    "OSError",
    "RuntimeError",
    "TypeError",
    "UserError",
    "ValueError",
}
NECK = "neck:"  # what a method puts into the model by its name, without an import
FILE_NAME = re.compile(r"[\w-][\w. -]*\.(?!py$)\w+")


class Module(NamedTuple):
    """A module's source: its fingerprint; what it imports of ours, in its order, and of others; files beside it that it names."""

    fingerprint: str
    imports: tuple[str, ...]
    libraries: tuple[str, ...]
    beside: tuple[str, ...]


@cache
def modules(*names: str) -> dict[str, str]:
    """The code behind some modules: file, as people call it, to the fingerprint of what stands in it."""
    return {_label(name): _own(name) for name in _followed(names)}


@cache
def fingerprint(*names: str) -> str:
    """The code behind some modules, in 16 hex digits. It does not know what files are called, so that they may be moved."""
    return _hash("\n".join(sorted(_whole(name, ())[0] for name in names)))


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
    mark = _hash("\n".join([_own(name), *(m for m, _ in below)]))
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
    targets: list[str] = []
    for imported in _module(name).imports:
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
    return _hash("\n".join([module.fingerprint, *beside])) if beside else module.fingerprint


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
    before: Any = None
    with suppress(OSError, ValueError):
        before = json.loads(remembered.read_text(encoding="utf-8"))
    rules = [*sys.version_info[:2], *_stamp(Path(__file__))]
    known = before["modules"] if isinstance(before, dict) and before.get("rules") == rules else {}
    now: dict[str, list[Any]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        file, stamp = path.relative_to(ROOT).as_posix(), _stamp(path)
        read = known.get(file, [None])
        now[file] = read if read[0] == stamp else [stamp, *_read(path, _name(file))]
    if now != known:
        with suppress(OSError):  # an installation that is not ours to write to
            write_json(remembered, {"rules": rules, "modules": now})
    return {file: Module(mark, *(tuple(names) for names in lists)) for file, (_, mark, *lists) in now.items()}


def _stamp(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def _read(path: Path, name: str) -> Module:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source, path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    folder = name.removeprefix("bgbias.").rpartition(".")[0]
    named = NAMES if folder.rpartition(".")[2] in NAMED else set()
    reader = _Reader(package, PLANNING if folder in PLANNED else named, documented="__doc__" in source)
    text = _text(reader.visit(tree))
    strings = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    beside = [s for s in strings if FILE_NAME.fullmatch(s) and (path.parent / s).is_file()]
    return Module(_hash(text), tuple(reader.imports), tuple(sorted(reader.libraries)), tuple(sorted(beside)))


def _text(value: Any) -> str:
    """A tree as text that is the same in every version of Python that reads it in the same way."""
    if isinstance(value, ast.AST):
        fields = [f"{name}={_text(v)}" for name, v in ast.iter_fields(value) if v is not None and v != []]
        return f"{type(value).__name__}({', '.join(fields)})"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return repr(value)


class _Reader(ast.NodeTransformer):
    """Takes away what moves no number, and notes what is imported."""

    def __init__(self, package: str, planning: set[str], documented: bool) -> None:
        self.imports: list[str] = []
        self.libraries: set[str] = set()
        self._package, self._planning, self._documented = package, planning, documented
        self._in_function, self._typed = 0, False

    def visit_Module(self, module: ast.Module) -> ast.AST:
        planned = [s for s in module.body if (names := _defined(s)) and names <= self._planning]
        worked = [s for s in module.body if s not in planned]
        read = {name for statement in worked for name in _read_from_outside(statement)}
        module.body = [s for s in module.body if s in worked or _defined(s) & read]
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
        # Somebody else's decorator may go by the annotations (singledispatch, validate_call).
        decorators = {_called(d.func if isinstance(d, ast.Call) else d) for d in function.decorator_list}
        outside, self._typed = self._typed, not decorators <= BLIND
        function.returns = function.returns if self._typed else None
        self._in_function += 1
        self._without_docstring(function)
        self._in_function -= 1
        self._typed = outside
        return function

    def visit_arg(self, arg: ast.arg) -> ast.AST:
        arg.annotation = arg.annotation if self._typed else None
        return arg

    def visit_AnnAssign(self, assigned: ast.AnnAssign) -> ast.AST | None:
        if not self._in_function:
            return self.generic_visit(assigned)
        if assigned.value is None:
            return None
        return self.visit(ast.Assign([assigned.target], assigned.value))  # type: ignore[no-any-return]

    def visit_If(self, choice: ast.If) -> ast.AST | list[ast.AST]:
        if _called(choice.test) == "TYPE_CHECKING":
            return [self.visit(statement) for statement in choice.orelse]
        return self.generic_visit(choice)

    def visit_Raise(self, raised: ast.Raise) -> ast.AST:
        if isinstance(raised.exc, ast.Call) and _called(raised.exc.func) in SPOKEN and _only_says(raised.exc):
            raised.exc = raised.exc.func
        return self.generic_visit(raised)

    def visit_Expr(self, statement: ast.Expr) -> ast.AST:
        called = statement.value
        said = isinstance(called, ast.Call) and ast.unparse(called.func) in ("say", "progress.say")
        return ast.Pass() if said and _only_says(called) else self.generic_visit(statement)

    def visit_Call(self, call: ast.Call) -> ast.AST:
        if _called(call.func) == "Field":
            call.keywords = [k for k in call.keywords if k.arg != "description"]
        if _called(call.func) == "add_neck" and call.args and isinstance(call.args[0], ast.Constant):
            self.imports.append(NECK + str(call.args[0].value))
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
            self.imports.append(name or module)

    def _without_docstring(self, scope: ast.Module | ast.ClassDef | ast.FunctionDef) -> ast.AST:
        if ast.get_docstring(scope, clean=False) is not None and not self._documented:
            scope.body = scope.body[1:]
        self.generic_visit(scope)
        scope.body = scope.body or [ast.Pass()]
        return scope


def _defined(statement: ast.stmt) -> set[str]:
    """The names that a statement gives something to."""
    if isinstance(statement, ast.FunctionDef):
        return {statement.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return {t.id for t in targets if isinstance(t, ast.Name)}


def _read_from_outside(statement: ast.stmt) -> set[str]:
    """The names that a statement reads without giving something to them, as a function does to its local ones."""
    names = [n for n in ast.walk(statement) if isinstance(n, ast.Name)]
    given = {n.id for n in names if not isinstance(n.ctx, ast.Load)}
    given |= {n.arg for n in ast.walk(statement) if isinstance(n, ast.arg)}
    return {n.id for n in names} - given


def _only_says(call: ast.expr) -> bool:
    """Whether nothing is remembered of what a call is given."""
    return not any(isinstance(n, (ast.NamedExpr, ast.Await, ast.Yield)) for n in ast.walk(call))


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
