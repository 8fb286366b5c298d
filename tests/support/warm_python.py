"""Python processes that begin with imports done, of nothing of ours, which differs from folder to folder.

Each test process keeps two processes (this file) that fork for every command: one has imported what Snakemake, DVC and our own
commands share, the other what nodes do, for jobs of Snakemake too (warm_start/sitecustomize.py). What a command is told, its
folder, environment and arguments, is what ``python -m`` would have. In ``/proc`` such processes have the environment and the
name of this file's: tests that look there, or send signals, start what they look at by ``Project.start``, without any of this.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

# What takes more than a tenth of a second to import; MLflow and whatever starts threads is left to those who need it.
COMMANDS = (
    "snakemake.cli",
    "dvc.cli.parser",
    "dvc.repo",
    "dvc.commands.repro",
    "pandas",
    "pydantic",
    "typer",
    "rich.console",
)
NODES = ("torch", "pandas", "pyarrow.parquet", "pydantic", "typer", "matplotlib.figure", "scipy.stats")
# Commands of ours that import what nodes do; none that starts Snakemake, whose jobs would wait for its end.
LIKE_NODES = {"audit", "train", "embed"}
# What else a command's environment says must be what the imported modules have read.
FREE = {"PATH", "PYTHONPATH", "BGBIAS_TRACK"}
THREADS = "OMP_NUM_THREADS"  # which libraries read when they are imported
SOCKET, WARM_START = "BGBIAS_TESTS_WARM", Path(__file__).with_name("warm_start")
ANSWER_SECONDS = 1.0  # of a process that has nothing else to do


class Server:
    """A process that forks, for one command at a time; and, where it has a socket, for jobs of Snakemake."""

    def __init__(self, imported: tuple[str, ...], named: str = "") -> None:
        around = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, ",".join(imported), named],
            env=around | {THREADS: "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._process.communicate)

    def run(
        self, words: tuple[str, ...], folder: Path, environment: dict[str, str], said: str, seconds: float
    ) -> int:
        """``python -m WORDS`` in a folder, which says what it says to a file; its exit code."""
        assert environment[THREADS] == "1"
        assert self._process.stdin is not None
        print(json.dumps([words, str(folder), environment, said]), file=self._process.stdin, flush=True)
        child = self._told()
        late = threading.Timer(seconds, os.kill, [child, signal.SIGKILL])
        late.start()
        code = self._told()
        late.cancel()
        return code

    def _told(self) -> int:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process that tests' commands are forked from has ended"
        return int(line)


@functools.cache
def _server(kind: str) -> Server:
    """That of this test process."""
    return Server(NODES, _socket()) if kind == "nodes" else Server(COMMANDS)


@functools.cache
def _socket() -> str:
    """Its name, in a folder that is nobody else's."""
    folder = tempfile.mkdtemp(prefix="bgbias-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return f"{folder}/warm"


def run(words: tuple[str, ...], folder: Path, environment: dict[str, str], said: str, seconds: float) -> int:
    """See ``Server.run``; nodes and the jobs of Snakemake begin with what nodes import."""
    nodes = _server("nodes")
    searched = filter(None, (environment.get("PYTHONPATH"), str(WARM_START)))
    around = environment | {SOCKET: _socket(), "PYTHONPATH": os.pathsep.join(searched)}
    like_nodes = words[0] == "bgbias" and LIKE_NODES.intersection(words[1:2])
    return (nodes if like_nodes else _server("commands")).run(words, folder, around, said, seconds)


def _serve(imported: list[str], named: str) -> None:
    """Fork for each line of the standard input, and for each message that comes to the socket. Ends with the input."""
    for name in imported:
        importlib.import_module(name)
    # Else each command would look through all of it for garbage, and copy it doing so.
    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if named:
        listener.bind(named)
        listener.listen(16)
    waits = [sys.stdin.fileno(), *([listener.fileno()] if named else [])]
    while True:
        if listener.fileno() in select.select(waits, [], [])[0]:
            begin = _job(listener)
        elif line := sys.stdin.readline():
            begin = _command(line)
        else:
            return
        if begin:
            listener.close()
            begin()
            return


def _command(line: str) -> Callable[[], None] | None:
    """What the forked process begins with; this one says its number, and how it ended."""
    child = os.fork()
    if child == 0:
        return functools.partial(_become, *json.loads(line))
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return None


def _job(listener: socket.socket) -> Callable[[], None] | None:
    """As ``_command``, of a job, whose own process waits for a number at the other end of the connection."""
    connection, _ = listener.accept()
    with suppress(OSError):
        connection.settimeout(ANSWER_SECONDS)
        asked, streams, _, _ = socket.recv_fds(connection, 2**18, 2)
        child = os.fork()
        if child == 0:
            if os.fork():
                os._exit(0)
            worker = os.fork()
            if worker == 0:
                connection.close()
                for stream, number in zip(streams, (1, 2), strict=True):
                    os.dup2(stream, number)
                return functools.partial(_become, *json.loads(asked), "")
            code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
            connection.send(str(code % 256).encode())
            os._exit(0)
        os.waitpid(child, 0)
        for stream in streams:
            os.close(stream)
    connection.close()
    return None


def _become(words: list[str], folder: str, environment: dict[str, str], said: str) -> None:
    """Be this command; without ``said`` its output goes where it goes already."""
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    if said:
        with Path(said).open("ab") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    searched = environment.get("PYTHONPATH")
    sys.path[:0] = [folder, *(searched.split(os.pathsep) if searched else ())]
    sys.argv[1:] = words[1:]
    sys.orig_argv[:] = [sys.executable, "-m", *words]
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve(sys.argv[1].split(","), sys.argv[2])
