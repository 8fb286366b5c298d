"""The code that a number comes from, as a digest sees it: so that an edited formula is noticed.

The code of a module is its syntax tree and that of every module that it imports, and so on. Families
are entered only where their file is named: ``plugins.load`` is no import, so that a loss is part of
the models that are trained with it and of no others. Left out is what no number depends on:

* modules that plan, fetch bytes that checksums verify, or speak to people (``code.yaml``);
* comments, layout, docstrings, the words of errors, and descriptions of settings;
* how nodes, tables and figures are planned (that is in digests already), and what losses, methods
  and datasets are called.

All else counts, a renamed variable and a moved file too; ``snakemake --touch`` is for edits that
compute the same. Versions of other people's packages count where the code imports them
(``libraries``), and so do files beside a module that it names. What the code reads elsewhere, or
imports from outside its folder and bgbias, is not seen.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from bgbias import plugins
from bgbias.files.atomic import write_json

ROOT = Path(__file__).parents[1]
RULES_FILE = Path(__file__).with_suffix(".yaml")
RULES: dict[str, Any] = yaml.safe_load(RULES_FILE.read_text(encoding="utf-8"))
PLANNING, NAMES = frozenset(RULES["planning"]), frozenset(RULES["names"])
NECK = "neck:"  # what a method puts into the model by its name, without an import
FILE_NAME = re.compile(r"[\w-][\w. -]*\.(?!py$)\w+")
# What was parsed before, by its bytes and those of the rules: each command of a study saves a third of a second.
MEMORY = ROOT / "__pycache__" / "code.json"
MOST_REMEMBERED = 5000
READ_BY = hashlib.sha256(Path(__file__).read_bytes() + RULES_FILE.read_bytes()).digest()


class Module(NamedTuple):
    """A module's source: its fingerprint, and what it imports of ours and of others."""

    fingerprint: str
    imports: list[str]
    libraries: list[str]


@cache
def modules(*names: str) -> dict[str, str]:
    """The code behind some modules: file, as people call it, to the fingerprint of its content."""
    return {_find_label(name): _read_module(name).fingerprint for name in _follow_imports(names)}


@cache
def fingerprint(*names: str) -> str:
    """The code behind some modules, in 16 hex digits."""
    return hash_text(json.dumps(modules(*names), sort_keys=True))


@cache
def libraries(*names: str) -> dict[str, str]:
    """Other people's packages that modules import: name to version, without the build."""
    imported = {library for name in _follow_imports(names) for library in _read_module(name).libraries}
    return {library: _find_version(library) for library in sorted(imported)}


def hash_text(text: str) -> str:
    """16 hex digits of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def carries_numbers(name: str) -> bool:
    """Whether numbers come from a module, by its full name."""
    part = name.removeprefix("bgbias.")
    return part == name or _is_below(part, RULES["numbers"]) or not _is_below(part, RULES["no_numbers"])


@cache
def _follow_imports(names: tuple[str, ...]) -> tuple[str, ...]:
    count = len(_read_memory())
    seen: dict[str, None] = {}
    queue = list(names)
    while queue:
        if (name := queue.pop()) not in seen:
            seen[name] = None
            queue += filter(carries_numbers, _list_targets(name))
    if len(_read_memory()) > count:
        with suppress(OSError):  # an installation that is not ours to write to
            write_json(MEMORY, _read_memory())
    return tuple(seen)


def _list_targets(name: str) -> Iterator[str]:
    for imported in _read_module(name).imports:
        if imported.startswith(NECK):
            yield plugins.load("necks", imported.removeprefix(NECK)).__name__
        elif _find_file(imported):
            yield imported
        elif _find_file(package := imported.rpartition(".")[0]):
            yield package


@cache
def _read_module(name: str) -> Module:
    path = _find_file(name)
    if path is None:
        raise ModuleNotFoundError(f"no source of {name} can be found")
    source, memory = path.read_bytes(), _read_memory()
    key = hashlib.sha256(READ_BY + str(path).encode() + source).hexdigest()[:32]
    if key not in memory:
        memory[key] = _parse_source(source, name, is_package=path.name == "__init__.py")
    text, imports, libraries, file_names = memory[key]
    files = [path.parent / file for file in file_names]
    sums = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()]
    return Module(hash_text("\n".join([text, *sums])) if sums else text, imports, libraries)


def _parse_source(source: bytes, name: str, is_package: bool) -> tuple[str, list[str], list[str], list[str]]:
    """A source's fingerprint, its imports of ours and of others, and strings that may name files."""
    tree = ast.parse(source)
    strings = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    reader = _Reader(name, is_package)
    text = hash_text(_to_text(reader.visit(tree)))
    return text, reader.imports, sorted(reader.libraries), sorted(filter(FILE_NAME.fullmatch, strings))


@cache
def _read_memory() -> dict[str, Any]:
    with suppress(OSError, ValueError):
        memory = dict(json.loads(MEMORY.read_text(encoding="utf-8")))
        return memory if len(memory) < MOST_REMEMBERED else {}
    return {}


@cache
def _find_file(name: str) -> Path | None:
    top, _, rest = name.partition(".")
    if top == "bgbias":  # Python would import all packages around it
        path = ROOT.joinpath(*rest.split(".")) if rest else ROOT
        return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()), None)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, AttributeError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _find_label(name: str) -> str:
    path = _find_file(name)
    assert path is not None
    if path.is_relative_to(ROOT):
        return path.relative_to(ROOT).as_posix()
    depth = name.count(".") + 1
    return Path(*path.parts[-depth:]).as_posix() if path.name != "__init__.py" else name


@cache
def _find_version(library: str) -> str:
    for distribution in RULES["libraries"][library]:
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(distribution).partition("+")[0]
    return "none"


def _is_below(name: str, prefixes: Iterable[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def _to_text(value: Any) -> str:
    """A tree as text that is the same in every version of Python that reads it in the same way."""
    if isinstance(value, ast.AST):
        fields = [f"{name}={_to_text(v)}" for name, v in ast.iter_fields(value) if v is not None and v != []]
        return f"{type(value).__name__}({', '.join(fields)})"
    if isinstance(value, list):
        return f"[{', '.join(map(_to_text, value))}]"
    return repr(value)


class _Reader(ast.NodeTransformer):
    """Takes away what moves no number, and notes what is imported."""

    def __init__(self, name: str, is_package: bool) -> None:
        self.imports: list[str] = []
        self.libraries: set[str] = set()
        self._package = name if is_package else name.rpartition(".")[0]
        folder = self._package.rpartition(".")[2]
        names = NAMES if folder in RULES["named"] else frozenset()
        self._planning = PLANNING if folder in RULES["planned"] else names

    def visit(self, node: ast.AST) -> Any:
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            return super().visit(node)
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
        super().visit(node)
        node.body = node.body or [ast.Pass()]
        return node

    def visit_Module(self, module: ast.Module) -> ast.AST:
        statements = [s for s in module.body if not (_list_names(s) and _list_names(s) <= self._planning)]
        used = {n.id for s in statements for n in ast.walk(s) if isinstance(n, ast.Name)}
        module.body = [s for s in module.body if s in statements or _list_names(s) & used]
        return self.generic_visit(module)

    def visit_If(self, choice: ast.If) -> ast.AST | list[ast.AST]:
        if _last_name(choice.test) == "TYPE_CHECKING":
            return [self.visit(statement) for statement in choice.orelse]
        return self.generic_visit(choice)

    def visit_Raise(self, statement: ast.Raise) -> ast.AST:
        if isinstance(statement.exc, ast.Call) and _last_name(statement.exc.func).endswith("Error"):
            statement.exc = statement.exc.func  # its words are for people
        return self.generic_visit(statement)

    def visit_Call(self, call: ast.Call) -> ast.AST:
        if _last_name(call.func) == "Field":
            call.keywords = [k for k in call.keywords if k.arg != "description"]
        if _last_name(call.func) == "add_neck" and call.args and isinstance(call.args[0], ast.Constant):
            self.imports.append(NECK + str(call.args[0].value))
        return self.generic_visit(call)

    def visit_Dict(self, dictionary: ast.Dict) -> ast.AST:
        # What is an option's own in a file that several share (plugins.py).
        words = {"__doc__"} | (NAMES if self._planning is NAMES else set())
        pairs = list(zip(dictionary.keys, dictionary.values, strict=True))
        entries = [(k, v) for k, v in pairs if getattr(k, "value", None) not in words]
        dictionary.keys = [key for key, _ in entries]
        dictionary.values = [value for _, value in entries]
        return self.generic_visit(dictionary)

    def visit_JoinedStr(self, string: ast.JoinedStr) -> ast.AST:
        # Python 3.12 alone puts an empty string behind a format that ends with a field: f"{x:{width}}".
        string.values = [v for v in string.values if not (isinstance(v, ast.Constant) and v.value == "")]
        return self.generic_visit(string)

    def visit_Import(self, statement: ast.Import) -> ast.AST:
        for alias in statement.names:
            self._note(alias.name, alias.name)
        return statement

    def visit_ImportFrom(self, statement: ast.ImportFrom) -> ast.AST:
        relative = "." * statement.level + (statement.module or "")
        module = importlib.util.resolve_name(relative, self._package)
        for alias in statement.names:
            self._note(module, f"{module}.{alias.name}")
        return statement

    def _note(self, module: str, name: str) -> None:
        top = module.partition(".")[0]
        if top in RULES["libraries"]:
            self.libraries.add(top)
        elif top in ("bgbias", self._package.partition(".")[0]):
            self.imports.append(name)


def _list_names(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef):
        return {statement.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return {t.id for t in targets if isinstance(t, ast.Name)}


def _last_name(expression: ast.expr) -> str:
    """The last part of a name: ``Field`` of ``pydantic.Field``; empty for what is no name."""
    return getattr(expression, "attr", getattr(expression, "id", ""))
