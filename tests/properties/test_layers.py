"""The town plan: packages import downwards only, and modules in no circle."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from project import ROOT

PACKAGE = ROOT / "src/bgbias"
# From the lowest to the highest; those of one line do not import one another.
LAYERS = (
    ("errors", "progress", "seeds", "version"),
    ("settings", "plugins"),
    ("images",),
    ("files",),
    ("compute", "toy"),
    ("photos",),
    ("models",),
    ("attacks", "masks"),
    ("backgrounds", "datasets"),
    ("evaluation",),
    ("attribution",),
    ("training", "segmentation"),
    ("study",),
    ("engine",),
    ("results",),
    ("report",),
    ("auditing",),
    ("tracking", "nodes", "api"),
    ("__init__",),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


@cache
def imports() -> dict[str, set[str]]:
    """Every module of the package, and the modules that it imports, wherever in its code."""
    modules = {_name(path): path for path in PACKAGE.rglob("*.py")}
    return {name: set(_imported(path, modules.keys())) for name, path in modules.items()}


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "__init__"


def _imported(path: Path, known: set[str]) -> Iterator[str]:  # type: ignore[type-arg]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "bgbias":
            assert node.level == 0, f"{path}: relative imports hide where they lead"
            package = (node.module or "").partition(".")[2]
            for alias in node.names:
                full = f"{package}.{alias.name}".strip(".")
                yield full if full in known else package or "__init__"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "bgbias":
                    yield alias.name.partition(".")[2] or "__init__"


def test_packages_import_downwards_only() -> None:
    upwards = [
        f"{module} imports {other}"
        for module, others in imports().items()
        for other in others
        if (here := module.partition(".")[0]) != (there := other.partition(".")[0])
        and RANK[here] <= RANK[there]
    ]
    assert not upwards


def test_modules_import_one_another_in_no_circle() -> None:
    graph = {module: {o for o in others if o != module} for module, others in imports().items()}
    order = list(TopologicalSorter(graph).static_order())  # a circle is an error that names it
    assert set(order) == set(graph)
