"""Commands of one run of the workflow begin where their imports are done.

A node of little work spends its time on imports. So the first node of a run starts a process, the warm one, which imports what
nodes do, and from which they are forked: whoever calls ``python -m bgbias <node>`` gets a process that hands its arguments, its
streams and every signal over, and ends as the forked one ends. What else a node had to import it tells the warm process when it
ends. Only imports are shared, and nothing needs it:

* without ``BGBIAS_WARM``, which Snakemake sets for its own jobs to its process number (``BGBIAS_WARM=0`` keeps it from doing so),
  and wherever a warm process is not there or does not answer, a command does its work itself;
* a warm process serves only commands of the same interpreter, folder and environment, numbers of threads included; one that has
  imported a file which was touched since then ends instead of answering;
* it ends with that Snakemake, and when nobody asked for ten minutes. Killing it ends no node. A node whose command is killed is
  killed; a command whose node is killed says so.

Linux only: its socket's name is in no file system, so that none is left behind, and the kernel tells who is at the other end.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from bgbias.engine.imported import OURS, SOURCES, imports_of, loaded, states, stays

ASKED = "BGBIAS_WARM"
SERVE = "warm-process"
UNIMPORTANT = ("_", "SHLVL", "OLDPWD", "PWD")  # of a shell, not of what it starts
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
IDLE_SECONDS = 600.0
ANSWER_SECONDS = 60.0  # it may be importing
AT_ONCE_SECONDS = 1.0  # in which a signal that comes twice is one
LARGEST = 2**17  # bytes of a message
ROOM = " " * 1000  # among a warm process's arguments, for those that the forked ones show in their place

_tried: set[str] = set()  # modules that the warm process has imported, or cannot
# In a forked process: the connection to the command that it works for, and how that ended.
_works_for: list[tuple[socket.socket, int]] = []


def run(command: Callable[[], object]) -> None:
    """Do ``command`` here, or have a process do it that was forked from the warm one."""
    snakemake = os.environ.get(ASKED, "0")
    if snakemake == "0" or not sys.platform.startswith("linux") or sys.orig_argv[1:3] != ["-m", "bgbias"]:
        command()
        return
    _name()  # while the surroundings are still those that this process was started in
    if sys.argv[1:2] == [SERVE] and sys.argv[-1] == ROOM:
        atexit.register(_end_at_once)  # first, which makes it the last to be called
        _work(command, _serve(int(snakemake), int(sys.argv[2])))
    else:
        with suppress(OSError):
            _hand_over()
        _teach_at_the_end()
        command()


def _hand_over() -> None:
    """Be the command of a forked process, and end with it; returns if there is no warm process, or it does not take the work."""
    for there in (True, False):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as warm:
            worker = _asked(warm)
            if worker:
                _stand_for(warm, worker)
        if there:
            _leave_one_behind()  # the first one, or one in the place of one that has ended


def _asked(warm: socket.socket) -> int:
    """The number of the process that works for this command; 0 if nobody is there, or whoever was has ended."""
    try:
        warm.connect(_name())
        if not _same_user(warm):
            return 0
        warm.settimeout(ANSWER_SECONDS)
        socket.send_fds(warm, [_packed({"arguments": sys.argv[1:]})], [0, 1, 2])
        return int(warm.recv(LARGEST) or 0)
    except ConnectionError:
        return 0


def _stand_for(warm: socket.socket, worker: int) -> NoReturn:
    """Hand signals over until the worker ends."""
    warm.settimeout(None)
    # What follows comes as it is asked for, from anywhere: Ctrl-C reaches the forked process too, as all of a terminal's.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    threading.Thread(target=_end_with, args=[warm, worker]).start()
    while True:
        told = signal.sigwaitinfo(SIGNALS)
        if told.si_code <= 0:  # sent by a process
            with suppress(ProcessLookupError):
                os.kill(worker, told.si_signo)


def _end_with(warm: socket.socket, worker: int) -> None:
    status = 128 + signal.SIGKILL
    try:
        said = warm.recv(LARGEST)
        if said:
            status = int(said)
        else:
            told = f"bgbias: process {worker}, which worked for this command, was killed (by somebody, or for want of memory)\n"
            os.write(2, told.encode())
        with suppress(ProcessLookupError):
            select.select([os.pidfd_open(worker)], [], [])  # its last words
    finally:
        os._exit(status)


def _leave_one_behind() -> None:
    """Start a warm process that is no child of this one, in the same group: a terminal's signals reach it, too. Returns when it
    listens, or has ended.
    """
    ready, unready = os.pipe()
    child = os.fork()
    if child:
        os.close(unready)
        os.waitpid(child, 0)
        os.read(ready, 1)
        os.close(ready)
        return
    try:
        if not os.fork():
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            os.set_inheritable(unready, True)
            os.execv(sys.executable, [sys.executable, "-m", "bgbias", SERVE, str(unready), ROOM])
    finally:
        os._exit(0)


def _serve(snakemake: int, unready: int) -> socket.socket:
    """Fork a process for each command that asks. Returns in the forked ones alone, with the connection to the command.

    Whoever started this one waits until the pipe ``unready`` is closed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # Of ours, before any is imported.
    imported = states([*map(str, SOURCES.rglob("*.py")), *loaded()])
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        its_end = os.pidfd_open(snakemake)
        listener.bind(_name())
    except OSError:  # it has ended, or another process is the warm one
        sys.exit()
    listener.listen(128)
    os.close(unready)
    waits = listener.fileno()
    while waits in select.select([waits, its_end], [], [], IDLE_SECONDS)[0]:
        known = {file: imported.get(file) for file in loaded()}
        if states(known) != known:
            listener.close()
            break
        connection, _ = listener.accept()
        with suppress(OSError, ValueError):
            if _same_user(connection) and _answer(connection):
                listener.close()
                os.close(its_end)
                return connection
        connection.close()
        imported |= states(f for f in loaded() if f not in imported and not f.startswith(OURS))
    sys.exit()


def _answer(connection: socket.socket) -> bool:
    """Learn what to import, or fork. True in the forked process alone."""
    connection.settimeout(1.0)
    message, streams, _, _ = socket.recv_fds(connection, LARGEST, 3)
    try:
        request = json.loads(zlib.decompress(message))
        if "imported" in request:
            _import(request["imported"])
        elif len(streams) == 3 and not _fork_for(request["arguments"]):
            for stream, given in enumerate(streams):
                os.dup2(given, stream)
            sys.argv[1:] = request["arguments"]
            _show([sys.executable, "-m", "bgbias", *sys.argv[1:]])
            return True
        return False
    finally:
        for given in streams:
            os.close(given)


def _fork_for(arguments: list[str]) -> int:
    """Fork, once what this command will import is there. The other process's number; 0 in the forked one."""
    new = [
        name for name in ("bgbias.cli", *imports_of(arguments[0] if arguments else "")) if name not in _tried
    ]
    if new:
        _import(new)
    return os.fork()


def _show(words: list[str]) -> None:
    """Be called by these words in the list of processes."""
    import ctypes

    # After the name in brackets, which may hold anything: see proc(5), fields 48 and 49.
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[46])
    text = "\0".join(words).encode()[: end - begin - 1]
    ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)


def _import(names: list[str]) -> None:
    for name in names:
        _tried.add(name)
        with suppress(Exception):
            importlib.import_module(name)
    torch = sys.modules.get("torch")
    if threading.active_count() > 1 or (torch and torch.cuda.is_initialized()):
        sys.exit()  # neither threads nor CUDA live on in a forked process
    # Collections would have forked processes copy the pages of all that was imported.
    gc.collect()
    gc.freeze()


def _work(command: Callable[[], object], connection: socket.socket) -> None:
    """Do the work of a command in a forked process, and tell it how that ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, _once(signal.default_int_handler))
    connection.settimeout(None)
    connection.send(str(os.getpid()).encode())
    threading.Thread(target=_die_with, args=[connection], daemon=True).start()
    _teach_at_the_end()
    status = 1
    try:
        command()
        status = 0
    except SystemExit as end:
        status = 0 if end.code is None else end.code if isinstance(end.code, int) else 1
        raise
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
        raise
    finally:
        _works_for.append((connection, status))


def _end_at_once() -> None:
    """End a forked process when all else that is to be done at its end was done: taking apart, object by object, what it did not
    import itself takes longer than many a node's work.
    """
    for connection, status in _works_for:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        with suppress(OSError):
            connection.send(str(status).encode())
        os._exit(status)


def _die_with(connection: socket.socket) -> None:
    """Wait for the end of the command that this process works for; it sends nothing more."""
    with suppress(OSError):
        connection.recv(LARGEST)
    os.kill(os.getpid(), signal.SIGKILL)


def _once(handler: Callable[[int, FrameType | None], Any]) -> Callable[[int, FrameType | None], Any]:
    """A handler of signals for which one that comes by two ways, through its group and through its command, is one."""
    last = -AT_ONCE_SECONDS

    def handled(number: int, frame: FrameType | None) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if last - before >= AT_ONCE_SECONDS:
            handler(number, frame)

    return handled


def _teach_at_the_end() -> None:
    """Have the warm process import what this one did, when it ends."""
    known, name = frozenset(sys.modules), _name()

    def teach() -> None:
        new = [module for module in sys.modules if module not in known | _tried and stays(module)]
        if new:
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as warm:
                warm.connect(name)
                if _same_user(warm):
                    warm.send(_packed({"imported": new}))

    atexit.register(teach)


@cache
def _name() -> str:
    """The socket's: of all that a process takes from where it was started, so that only like is forked from like."""
    surroundings = {key: value for key, value in os.environ.items() if key not in UNIMPORTANT}
    spaces = [str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("pid", "mnt")]
    known = [sys.executable, str(SOURCES), str(Path.cwd()), spaces, sorted(surroundings.items())]
    return f"\0bgbias-{os.getuid()}-{hashlib.sha256(json.dumps(known).encode()).hexdigest()}"


def _same_user(other: socket.socket) -> bool:
    _, user, _ = struct.unpack(
        "3i", other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    )
    return bool(user == os.getuid())


def _packed(message: dict[str, list[str]]) -> bytes:
    return zlib.compress(json.dumps(message).encode())
