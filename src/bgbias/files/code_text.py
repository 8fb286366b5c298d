"""A module's source as its fingerprint sees it: without what moves no number (``files/code.py`` says what that is)."""

from __future__ import annotations

import ast
import hashlib
import re
from pathlib import Path
from typing import Any, NamedTuple

PLANNED = ("nodes", "report.tables", "report.figures")
PLANNING = {
    "SUBJECT", "OUTPUTS", "COLLECTION", "CURVE", "PLACE", "ABOUT", "reads", "settings", "uses", "cost", "goals", "subjects",
    "keep", "wanted", "sources_are_elsewhere", "LIMITS", "threads",
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


def read(path: Path, name: str) -> Module:
    """The source at ``path`` of the module ``name``."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source, path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    folder = name.removeprefix("bgbias.").rpartition(".")[0]
    named = NAMES if folder.rpartition(".")[2] in NAMED else set()
    reader = _Reader(package, PLANNING if folder in PLANNED else named, documented="__doc__" in source)
    text = _text(reader.visit(tree))
    strings = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    beside = [s for s in strings if FILE_NAME.fullmatch(s) and (path.parent / s).is_file()]
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


def hashed(text: str) -> str:
    """16 hex digits of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
