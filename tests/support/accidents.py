"""What happens to people's runs: processes die, and nodes raise."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
from project import PATIENCE, Project, wait_for

from bgbias.engine import graph, records
from bgbias.study import params

PROGRAMS = {
    "snakemake": ("snakemake", "--cores", "2"),
    "resume": ("bgbias", "resume"),
    "dvc": ("dvc", "repro"),
}
RAISED = "raised by a test"
# Every Python that finds this file on its path raises where it happens to be when it is signalled.
RAISES = f"""\
import signal

def disturbed(*_):
    raise RuntimeError({RAISED!r})

signal.signal(signal.SIGUSR1, disturbed)
"""
Program = subprocess.Popen[bytes]


class Frail(Project):
    """A finished run of the grid `smoke` to which things happen; which and when is drawn from one seed."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder)
        self.random = random.Random(seed)
        self.study = params.load(folder / "params.yaml", "smoke")
        self.nodes = graph.in_order(self.study)
        (folder / "raises").mkdir()
        (folder / "raises/sitecustomize.py").write_text(RAISES, encoding="utf-8")

    def environment(self, **changed: str) -> dict[str, str]:
        """As in an activated environment, and every node raises when it is told to."""
        tools = str(Path(sys.executable).parent)
        path = os.pathsep.join([tools, super().environment()["PATH"]])
        searched = os.pathsep.join([str(self.folder / "src"), str(self.folder / "raises")])
        return super().environment(**(changed | {"PATH": path, "PYTHONPATH": searched}))

    def begin(self, name: str) -> Program:
        """One of the three programs, at work on what is missing."""
        return self.start(program=PROGRAMS[name])

    def spoil(self) -> str:
        """Let there be something to do: a node lost a file, or it and all that read from it have not been made yet."""
        node = self.random.choice(self.nodes)
        if self.random.random() < 0.5:
            record = records.read(self.folder / node.record(self.study))
            lost = self.random.choice(list(record["outputs"]))
            (self.folder / lost).unlink()
            return f"without {lost}"
        unmade = {node}
        for other in self.nodes:
            if other in unmade or not unmade.isdisjoint(graph.reads_from(self.study, other)):
                unmade.add(other)
                (self.folder / other.record(self.study)).unlink()
        return f"before {node.label}"

    def wait_a_while(self, program: Program) -> None:
        """Until a random moment: mostly of the nodes' work, at times of anything before, between and after."""
        if self.random.random() < 0.7:
            wait_for(lambda: self.alive("node") or program.poll() is not None, "a node")
            time.sleep(self.random.uniform(0, 8))
        else:
            time.sleep(self.random.uniform(0, 16))

    def alive(self, kind: str) -> list[psutil.Process]:
        """Processes of this project: ``node``, ``snakemake``, ``dvc`` or ``all`` of them."""

        def is_meant(process: psutil.Process) -> bool:
            words = [Path(word).name for word in (process.info["cmdline"] or [])[1:4]]
            return {
                "snakemake": words[:2] == ["-m", "snakemake"] or words[:1] == ["snakemake"],
                "dvc": words[:2] == ["-m", "dvc"],
                "node": words[:2] == ["-m", "bgbias"] and words[2:] != ["resume"],
                "all": True,
            }[kind]

        here = (
            p for p in psutil.process_iter(["cmdline", "cwd", "status"]) if p.info["cwd"] == str(self.folder)
        )
        return [p for p in here if p.info["status"] != psutil.STATUS_ZOMBIE and is_meant(p)]

    def victim(self, kind: str, program: Program) -> psutil.Process | None:
        """One of a kind, as soon as there is one; None if the program ends before."""
        wait_for(lambda: self.alive(kind) or program.poll() is not None, kind)
        found = self.alive(kind)
        return self.random.choice(found) if found else None

    def recover(self) -> None:
        """What a person does: `make resume`, and what it says."""
        for _ in range(3):
            done = self.run("bgbias", "resume", check=False)
            if done.returncode == 0:
                return
            found = re.search(r"at work in this folder \(process (\d+)\).*stop it: kill \1", done.stdout)
            assert found, done.stdout[-6000:]
            _send(psutil.Process(int(found[1])), signal.SIGTERM)
            wait_for(lambda: not self.alive("snakemake"), "the end of Snakemake")
        raise AssertionError(f"three times is enough:\n{done.stdout[-6000:]}")


def kill(kind: str, run: Frail, program: Program) -> bool:
    """Kill a process of some kind outright."""
    victim = run.victim(kind, program)
    return victim is not None and _send(victim, signal.SIGKILL) and program.wait(PATIENCE) != 0


def power_cut(run: Frail, program: Program) -> bool:
    """Kill everything at once."""
    killed = [_send(process, signal.SIGKILL) for process in run.alive("all")]
    return any(killed) and program.wait(PATIENCE) != 0


def bug(run: Frail, program: Program) -> bool:
    """Let a node raise where it is."""
    victim = run.victim("node", program)
    if victim is None or not _send(victim, signal.SIGUSR1):
        return False
    program.wait(PATIENCE)
    logs = (run.folder / "data/work/logs").rglob("*.log")
    return program.returncode != 0 and any(RAISED in log.read_text(encoding="utf-8") for log in logs)


# An accident tells whether it happened, or came too late; it goes with all programs or with one.
ACCIDENTS: dict[str, tuple[Callable[[Frail, Program], bool], tuple[str, ...]]] = {
    "a node is killed": (partial(kill, "node"), tuple(PROGRAMS)),
    "Snakemake is killed": (partial(kill, "snakemake"), tuple(PROGRAMS)),
    "DVC is killed": (partial(kill, "dvc"), ("dvc",)),
    "the power is cut": (power_cut, tuple(PROGRAMS)),
    "a node raises": (bug, tuple(PROGRAMS)),
}


def _send(process: psutil.Process, number: int) -> bool:
    """Whether the process was still there."""
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return False
    return True
