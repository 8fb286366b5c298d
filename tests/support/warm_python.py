"""Python processes that begin with the imports done that Snakemake, DVC and our own commands share.

Each test process keeps one process (this file) that has imported them, and nothing of ours: it forks for every command. What a
command is told, its folder, environment and arguments, is what ``python -m`` would have; its jobs are processes as ever.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
from pathlib import Path

# What takes more than a tenth of a second to import; torch, MLflow and whatever starts threads is left to those who need it.
IMPORTED = (
    "snakemake.cli",
    "dvc.cli.parser",
    "dvc.repo",
    "dvc.commands.repro",
    "pandas",
    "pydantic",
    "typer",
    "rich.console",
)
# What else a command's environment says must be what the imported modules have read.
FREE = {"PATH", "PYTHONPATH", "BGBIAS_TRACK"}


class Server:
    """The process that forks, for one command at a time."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__],
            env={name: value for name, value in environment.items() if name != "PYTHONPATH"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._process.communicate)

    def run(
        self, words: tuple[str, ...], folder: Path, environment: dict[str, str], said: str, seconds: float
    ) -> int:
        """``python -m WORDS`` in a folder, which says what it says to a file; its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([words, str(folder), environment, said]), file=self._process.stdin, flush=True)
        child = int(self._process.stdout.readline())
        late = threading.Timer(seconds, os.kill, [child, signal.SIGKILL])
        late.start()
        code = int(self._process.stdout.readline())
        late.cancel()
        return code


@functools.cache
def server() -> Server:
    """That of this test process."""
    return Server(dict(os.environ))


def _serve() -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    # Else each command would look through all of it for garbage, and copy it doing so.
    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1
    while line := sys.stdin.readline():
        child = os.fork()
        if child == 0:
            _become(*json.loads(line))
            return
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(words: list[str], folder: str, environment: dict[str, str], said: str) -> None:
    with Path(os.devnull).open() as nothing, Path(said).open("ab") as log:
        for source, number in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source.fileno(), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    searched = environment.get("PYTHONPATH")
    sys.path[:0] = [folder, *(searched.split(os.pathsep) if searched else ())]
    sys.argv[1:] = words[1:]
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve()
