"""What this process has imported: from which files, whether they are as they were, and what a node will import."""

from __future__ import annotations

import ast
import os
import site
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

SOURCES = Path(__file__).parents[1]
OURS = f"{SOURCES}{os.sep}"
# Folders of files that are looked at again: ours and the libraries', no script's.
STABLE = (OURS, *(f"{folder}{os.sep}" for folder in (*site.getsitepackages(), Path(os.__file__).parent)))


def imports_of(node: str) -> list[str]:
    """The modules that a node's function imports whatever is asked of it; none if this is no node."""
    file = SOURCES / "nodes" / f"{node}.py"
    if not node.isidentifier() or not file.is_file():
        return []
    functions = [
        f for f in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(f, ast.FunctionDef)
    ]
    found = [f"bgbias.nodes.{node}"]
    for line in (line for f in functions if f.name == node for line in f.body):
        if isinstance(line, ast.Import):
            found += [name.name for name in line.names]
        elif isinstance(line, ast.ImportFrom):
            found += [str(line.module), *(f"{line.module}.{name.name}" for name in line.names)]
    return found


def stays(name: str) -> bool:
    """Whether the file of a module is one whose changes the warm process notices."""
    file = getattr(sys.modules[name], "__file__", None)
    return isinstance(file, str) and file.startswith(STABLE) and name != "__main__"


def loaded() -> list[str]:
    """The files of all that was imported."""
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return [file for file in files if isinstance(file, str) and file.startswith(STABLE)]


def states(files: Iterable[str]) -> dict[str, tuple[int, ...] | None]:
    """What changes with a file, of each. (Not what linking it into another environment changes.)"""

    def state(file: str) -> tuple[int, ...] | None:
        with suppress(OSError):
            found = os.stat(file)  # noqa: PTH116  # of thousands, at each start
            return found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns * file.startswith(OURS)
        return None

    return {file: state(file) for file in files}
