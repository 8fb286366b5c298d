"""A seeded series of accidents: whatever dies, crowds in or fills up, what is made in the end is what an undisturbed run makes.

``BGBIAS_SOAK_SEED`` repeats a series (each prints its own), ``BGBIAS_SOAK_ROUNDS`` makes it longer.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import small_study
from project import Project, wait_for

from bgbias import lineage, params, records
from bgbias.params import Study

pytestmark = [pytest.mark.slow, pytest.mark.workflow]

ROUNDS = int(os.environ.get("BGBIAS_SOAK_ROUNDS", "9"))
PATIENCE = 300.0  # seconds, after which whatever is waited for will not come
DISK = "400m"
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
REFUSALS = ("cannot be locked", "at work in this folder", "is being made by process")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk that one can fill."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


class Soak(Project):
    """A finished project under DVC, with what happens to it drawn from one seed."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder)
        self.random = random.Random(seed)
        self.study = _study(folder)
        self.nodes = lineage.in_order(self.study)
        self.happened: Counter[str] = Counter()

    def environment(self, **changed: str) -> dict[str, str]:
        """As in an activated environment, and every node raises when it is told to."""
        tools = str(Path(sys.executable).parent)
        path = os.pathsep.join([tools, super().environment()["PATH"]])
        searched = os.pathsep.join([str(self.folder / "src"), str(self.folder / "raises")])
        return super().environment(**{"PATH": path, "PYTHONPATH": searched} | changed)

    def begin(self, program: str) -> subprocess.Popen[bytes]:
        """A program at work on what is missing."""
        with self.said(program).open("wb") as said:
            return subprocess.Popen(
                [sys.executable, "-m", *PROGRAMS[program]],
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def said(self, program: str) -> Path:
        """Where that program's words go, off the disk that gets full."""
        return self.folder.parent.parent / f"{program}.log"

    def alive(self, kind: str) -> list[psutil.Process]:
        """Processes of this project: ``node``, ``snakemake``, ``dvc``, or ``all`` of them."""
        found = []
        for process in psutil.process_iter(["cmdline", "cwd", "status"]):
            line = process.info["cmdline"] or []
            if process.info["cwd"] != str(self.folder) or process.info["status"] == psutil.STATUS_ZOMBIE:
                continue
            words = [Path(word).name for word in line[:4]]
            is_kind = {
                "snakemake": words[1:3] == ["-m", "snakemake"] or words[1:2] == ["snakemake"],
                "dvc": words[1:3] == ["-m", "dvc"],
                "node": words[1:3] == ["-m", "bgbias"] and words[3:] != ["resume"],
                "all": True,
            }
            if is_kind[kind]:
                found.append(process)
        return found

    def spoil(self) -> None:
        """Let there be something to do: a node lost a file, or it and all that read from it have not been made yet."""
        node = self.random.choice(self.nodes)
        record = self.folder / node.record(self.study)
        if self.random.random() < 0.5:
            lost = self.random.choice(list(records.read(record)["outputs"]))
            (self.folder / lost).unlink()
            print(f"  without {lost}", flush=True)
            return
        unmade = {node}
        for other in self.nodes:
            if other in unmade or not unmade.isdisjoint(lineage.reads_from(self.study, other)):
                unmade.add(other)
                (self.folder / other.record(self.study)).unlink()
        print(f"  before {node.label}", flush=True)

    def wait_a_while(self, program: subprocess.Popen[bytes]) -> None:
        """Until a random moment of a random part of the run."""
        if self.random.random() < 0.7:
            wait_for(lambda: self.alive("node") or program.poll() is not None, PATIENCE, "a node")
            time.sleep(self.random.uniform(0, 8))
        else:
            time.sleep(self.random.uniform(0, 16))

    def recover(self) -> None:
        """What a person does: `make resume`, and what it says."""
        for _ in range(3):
            done = self.run("bgbias", "resume", check=False)
            if done.returncode == 0:
                return
            found = re.search(r"at work in this folder \(process (\d+)\).*stop it: kill \1", done.stdout)
            assert found, done.stdout[-6000:]
            os.kill(int(found[1]), signal.SIGTERM)
            wait_for(lambda: not self.alive("snakemake"), PATIENCE, "the end of Snakemake")
        raise AssertionError(f"three times is enough:\n{done.stdout[-6000:]}")


def kill(soak: Soak, kind: str, program: subprocess.Popen[bytes]) -> bool:
    """Kill one process of a kind outright, or all at once."""
    victims: list[psutil.Process] = []
    wait_for(
        lambda: victims.extend(soak.alive(kind)) or victims or program.poll() is not None, PATIENCE, kind
    )
    if kind != "all" and victims:
        victims = [soak.random.choice(victims)]
    for victim in victims:
        _signal(victim, signal.SIGKILL)
    program.wait(PATIENCE)
    return bool(victims) and program.returncode != 0


def raising(soak: Soak, program: subprocess.Popen[bytes]) -> bool:
    """Let a node raise where it is."""
    victims: list[psutil.Process] = []
    wait_for(
        lambda: victims.extend(soak.alive("node")) or victims or program.poll() is not None,
        PATIENCE,
        "a node",
    )
    if victims:
        _signal(soak.random.choice(victims), signal.SIGUSR1)
    program.wait(PATIENCE)
    logs = (soak.folder / "data/work/logs").rglob("*.log")
    print(
        "  rc",
        program.returncode,
        [v.pid for v in victims],
        [log for log in (soak.folder / "data/work/logs").rglob("*.log") if RAISED in log.read_text()],
    )
    return program.returncode != 0 and any(RAISED in log.read_text(encoding="utf-8") for log in logs)


def crowd(soak: Soak, program: subprocess.Popen[bytes]) -> bool:
    """Somebody else starts the same: one of both is refused, and the other does not notice."""
    second = soak.run(*PROGRAMS[soak.random.choice(list(PROGRAMS))], check=False)
    program.wait(PATIENCE)
    said = [
        second.stdout,
        *(soak.said(name).read_text(encoding="utf-8") for name in PROGRAMS if soak.said(name).exists()),
    ]
    statuses = [program.returncode, second.returncode]
    assert 0 in statuses, "\n".join(said)
    return statuses != [0, 0] and any(words in text for words in REFUSALS for text in said)


def fill(soak: Soak, program: subprocess.Popen[bytes]) -> bool:
    """Fill the disk that holds the project and all that DVC and Snakemake remember; make room once the run has failed."""
    filler = soak.folder.parent / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 2**16)
    except OSError:
        pass
    try:
        program.wait(PATIENCE)
    finally:
        filler.unlink()
    return program.returncode != 0


Accident = Callable[[Soak, subprocess.Popen[bytes]], bool]
ACCIDENTS: dict[str, tuple[Accident, tuple[str, ...]]] = {
    "a node is killed": (lambda s, p: kill(s, "node", p), tuple(PROGRAMS)),
    "Snakemake is killed": (lambda s, p: kill(s, "snakemake", p), tuple(PROGRAMS)),
    "DVC is killed": (lambda s, p: kill(s, "dvc", p), ("dvc",)),
    "all is killed": (lambda s, p: kill(s, "all", p), tuple(PROGRAMS)),
    "a node raises": (raising, tuple(PROGRAMS)),
    "two at once": (crowd, tuple(PROGRAMS)),
    "the disk is full": (fill, tuple(PROGRAMS)),
}


def test_after_any_series_of_accidents_products_are_those_of_an_undisturbed_run(
    smoke_run: Project, small_disk: Path
) -> None:
    seed = int(os.environ.get("BGBIAS_SOAK_SEED", random.SystemRandom().randrange(10**6)))
    print(f"BGBIAS_SOAK_SEED={seed} BGBIAS_SOAK_ROUNDS={ROUNDS}", flush=True)
    wanted = _made(smoke_run.folder)
    soak = _under_dvc(smoke_run.copy(small_disk / "project"), seed)
    deck: list[str] = []
    for _ in range(3 * ROUNDS):
        deck = deck or soak.random.sample(list(ACCIDENTS), len(ACCIDENTS))
        if soak.happened.total() >= ROUNDS and not set(ACCIDENTS) - set(soak.happened):
            break
        accident, programs = ACCIDENTS[deck[0]]
        name = soak.random.choice(programs)
        print(f"{deck[0]} during {name}", flush=True)
        soak.spoil()
        program = soak.begin(name)
        soak.wait_a_while(program)
        if accident(soak, program):
            soak.happened[deck.pop(0)] += 1
        else:
            print("  too late", flush=True)
        soak.recover()
        assert _made(soak.folder) == wanted
        assert _left_lying(soak.folder) == []
        assert soak.alive("all") == []
    print(dict(soak.happened), flush=True)
    assert set(soak.happened) == set(ACCIDENTS), "not every accident happened"
    soak.run(*PROGRAMS["dvc"])
    assert "up to date" in soak.run("dvc", "status").stdout
    assert _made(soak.folder) == wanted


def _under_dvc(made: Project, seed: int) -> Soak:
    made.edit("grid: demo ", "grid: smoke ")
    (made.folder / "raises").mkdir()
    (made.folder / "raises/sitecustomize.py").write_text(RAISES, encoding="utf-8")
    soak = Soak(made.folder, seed)
    subprocess.run(["git", "init", "--quiet"], cwd=made.folder, check=True)
    soak.run("dvc", "commit", "--force", "--quiet")
    return soak


def _study(folder: Path) -> Study:
    return params.load(folder / "params.yaml", "smoke")


def _made(folder: Path) -> dict[str, object]:
    """What every node made and certifies, by its bytes; of training curves, which tell the time, all but that."""
    study, found = _study(folder), dict[str, object]()
    for node in lineage.in_order(study):
        record = records.read(folder / node.record(study))
        assert record["status"] == "done"
        for name, certified in record["outputs"].items():
            assert records.sha256(folder / name) == certified, name
            found[name] = small_study.history(folder / name) if name.endswith("history.csv") else certified
    return found


def _left_lying(folder: Path) -> list[str]:
    """What nobody will ever read: halves of files, states of nodes that are finished."""
    data, study = folder / "data", _study(folder)
    running = (folder / study.files.at("running", name="x")).parent
    partial = folder / study.paths.work / "partial"
    found = [
        *data.rglob("*.partial"),
        *data.rglob(".unfinished-*"),
        *running.glob("*"),
        *partial.rglob("*.pt"),
    ]
    return sorted(str(path.relative_to(folder)) for path in found)


def _signal(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        pass  # it was faster
