"""The code that a number comes from, as a digest sees it: so that an edited formula is noticed by itself.

The code of a module is its syntax tree and that of every module that it imports, and so on. Families are entered only where
their file is named: ``plugins.load`` is no import, so that a loss is part of the models that are trained with it and of no
others. The following is left out, because no number depends on it:

* modules that plan, fetch bytes that checksums verify, or speak to people (``NO_NUMBERS``);
* comments, layout, docstrings, the words of errors and of progress lines, and descriptions of settings;
* how nodes, tables and figures are planned (that is in digests already), and what losses, methods and datasets are called;
* the names of the modules that are imported, since their code stands for them: a module may be moved.

All else counts, a renamed variable and an annotation too; ``snakemake --touch`` is for edits that compute the same.
Versions of other people's packages count where the code imports them (``libraries``), and so do files beside a module that
it names. What the code reads elsewhere, or imports from outside its folder and bgbias, is not seen.
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
    "files.atomic", "files.checksums", "files.code", "files.hashes", "files.download", "files.fetch",
    "files.fingerprint", "files.locks", "files.places", "files.sealed", "compute.gpu_slots", "compute.vitals",
)  # fmt: skip
# Of packages that make none, but for these.
NUMBERS = ("engine.mask_cache", "study.album", "study.methods", "study.training", "study.truth")
PLANNED = ("nodes", "report.tables", "report.figures")
PLANNING = {
    "SUBJECT", "OUTPUTS", "COLLECTION", "CURVE", "PLACE", "ABOUT", "reads", "settings", "uses", "cost", "goals", "subjects",
    "keep", "wanted", "sources_are_elsewhere", "LIMITS", "threads",
}  # fmt: skip
# What tables call them is in the digests of what prints it.
NAMED, NAMES = ("losses", "methods", "datasets"), {"TITLE", "PLACE", "ENTRIES"}
# Who imports it gets numbers from it: import name to distributions of which one is installed.
LIBRARIES = {
    "torch": ("torch",), "torchvision": ("torchvision",), "timm": ("timm",), "numpy": ("numpy",), "pandas": ("pandas",),
    "scipy": ("scipy",), "PIL": ("pillow",), "cv2": ("opencv-python-headless", "opencv-python"), "matplotlib": ("matplotlib",),
    "pytorch_metric_learning": ("pytorch-metric-learning",), "faiss": ("faiss-gpu", "faiss-cpu", "faiss-gpu-cu12"),
    "onnxruntime": ("onnxruntime",),
}  # fmt: skip
# Errors whose words are for people.
SPOKEN = {
    "FileNotFoundError", "NotImplementedError", "OSError", "RuntimeError", "TypeError", "UserError", "ValueError",
}  # fmt: skip
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
    return hashed("\n".join(sorted(_with_imports(name) for name in names)))


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
    for cached in (
        *(modules, fingerprint, libraries, _with_imports, _followed, _own),
        *(_module, _package, _file, _version),
    ):
        cached.cache_clear()


@cache
def _with_imports(name: str) -> str:
    """A module with all that it imports: each one's own code and the numbers of those that it imports, in their order."""
    numbers = {module: number for number, module in enumerate(_followed((name,)))}
    lines = [f"{_own(module)} {[numbers[t] for t in _targets(module)]}" for module in numbers]
    return hashed("\n".join(lines))


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
        before_it = known.get(file, [None])
        now[file] = before_it if before_it[0] == stamp else [stamp, *_read(path, _name(file))]
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


def _read(path: Path, name: str) -> Module:
    """The source at ``path`` of the module ``name``."""
    tree = ast.parse(path.read_text(encoding="utf-8"), path)
    strings = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    beside = [s for s in strings if FILE_NAME.fullmatch(s) and (path.parent / s).is_file()]
    reader = _Reader(name, is_package=path.name == "__init__.py")
    text = _text(reader.visit(tree))
    return Module(hashed(text), tuple(reader.imports), tuple(sorted(reader.libraries)), tuple(sorted(beside)))


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

    def __init__(self, name: str, is_package: bool) -> None:
        self.imports: list[str] = []
        self.libraries: set[str] = set()
        self._package = name if is_package else name.rpartition(".")[0]
        folder = name.removeprefix("bgbias.").rpartition(".")[0]
        names = NAMES if folder.rpartition(".")[2] in NAMED else set()
        self._planning = PLANNING if folder in PLANNED else names

    def visit(self, node: ast.AST) -> Any:
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            return super().visit(node)
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
        super().visit(node)
        node.body = node.body or [ast.Pass()]
        return node

    def visit_Module(self, module: ast.Module) -> ast.AST:
        worked = [s for s in module.body if not (_defined(s) and _defined(s) <= self._planning)]
        used = {n.id for s in worked for n in ast.walk(s) if isinstance(n, ast.Name)}
        module.body = [s for s in module.body if s in worked or _defined(s) & used]
        return self.generic_visit(module)

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

    def visit_Dict(self, dictionary: ast.Dict) -> ast.AST:
        # What is an option's own in a file that several share (plugins.py).
        if self._planning is NAMES:
            pairs = list(zip(dictionary.keys, dictionary.values, strict=True))
            kept = [(k, v) for k, v in pairs if getattr(k, "value", None) not in {*NAMES, "__doc__"}]
            dictionary.keys = [key for key, _ in kept]
            dictionary.values = [value for _, value in kept]
        return self.generic_visit(dictionary)

    def visit_JoinedStr(self, string: ast.JoinedStr) -> ast.AST:
        # Python 3.12 alone puts an empty string behind a format that ends with a field: f"{x:{width}}".
        string.values = [v for v in string.values if not (isinstance(v, ast.Constant) and v.value == "")]
        return self.generic_visit(string)

    def visit_Import(self, statement: ast.Import) -> ast.AST:
        for alias in statement.names:
            self._note(alias.name)
        return statement

    def visit_ImportFrom(self, statement: ast.ImportFrom) -> ast.AST | None:
        above = self._package.split(".")[: len(self._package.split(".")) - statement.level + 1]
        module = ".".join([*(above if statement.level else []), *filter(None, [statement.module])])
        for alias in statement.names:
            self._note(module, f"{module}.{alias.name}")
        if statement.level or module.partition(".")[0] == "bgbias":
            statement.module, statement.level = "bgbias", 0
        return statement

    def _note(self, module: str, name: str = "") -> None:
        top = module.partition(".")[0]
        if top in LIBRARIES:
            self.libraries.add(top)
        elif top in ("bgbias", self._package.partition(".")[0]):
            self.imports.append(name or module)


def _defined(statement: ast.stmt) -> set[str]:
    """The names that a statement gives something to."""
    if isinstance(statement, ast.FunctionDef):
        return {statement.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return {t.id for t in targets if isinstance(t, ast.Name)}


def _only_says(call: ast.expr) -> bool:
    """Whether nothing is remembered of what a call is given."""
    return not any(isinstance(n, (ast.NamedExpr, ast.Await, ast.Yield)) for n in ast.walk(call))


def _called(expression: ast.expr) -> str:
    """The last part of a name: ``say`` of ``progress.say``; empty for what is no name."""
    return getattr(expression, "attr", getattr(expression, "id", ""))


def hashed(text: str) -> str:
    """16 hex digits of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
