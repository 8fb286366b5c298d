"""A project whose nodes are only pretended, in which anything may be edited, also the code that plans it.

It has its own copy of the package. A process of its own (this file) plans it anew after each edit, as a new command would: it
forks, so that nothing that was read or remembered before is left.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class Player:
    """Edits files of a folder and tells what is out of date then."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Pretend that everything was made."""
        # The libraries' folder comes first: what lies there is found instead of what is installed.
        paths = (self.folder / "libraries", self.folder / "src", Path(__file__).parent)
        (self.folder / "libraries").mkdir(exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ask("pretend")

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()

    def stale(self, deep: bool = False) -> dict[str, str]:
        """Label to reason of every node that is out of date by itself; what reads from it must be so too."""
        told: dict[str, str] = self._ask("deep" if deep else "examine")
        return told

    @contextmanager
    def edited(self, file: str, before: str, after: str) -> Iterator[None]:
        """A file of the folder in another state for a while: a passage replaced, or text added to its end."""
        path = self.folder / file
        known, times = path.read_bytes(), path.stat()
        text = known.decode()
        assert not before or text.count(before) == 1, (file, before)
        path.write_text(text.replace(before, after) if before else text + after)
        try:
            yield
        finally:
            path.write_bytes(known)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def _ask(self, what: str) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        assert "error" not in said, said["error"]
        return said


def _answer(what: str) -> dict[str, str]:
    import pretended

    from bgbias.engine import freshness, graph
    from bgbias.study import params

    study = params.load(Path("params.yaml"))
    if what == "pretend":
        pretended.run(study)
        return {}
    findings = freshness.examine(study, what == "deep")
    old = {f.node for f in findings if f.state != "current"}
    for finding in findings:
        followed = not old.isdisjoint(graph.reads_from(study, finding.node))
        assert (finding.state == "behind") == followed, finding
    return {f.node.label: f.why for f in findings if f.state == "stale"}


def _main() -> None:
    import pandas  # noqa: F401  what takes long to import is imported once
    import pydantic  # noqa: F401
    import torch  # noqa: F401

    for line in sys.stdin:
        ready, written = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ready)
            try:
                said = _answer(line.strip())
            except BaseException as error:
                said = {"error": f"{type(error).__name__}: {error}"}
            with os.fdopen(written, "w") as pipe:
                pipe.write(json.dumps(said))
            os._exit(0)
        os.close(written)
        with os.fdopen(ready) as pipe:
            print(pipe.read(), flush=True)
        os.waitpid(child, 0)


if __name__ == "__main__":
    _main()
