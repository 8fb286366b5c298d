"""`make test` ends, whatever a test does to the process that runs it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from project import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
PASSING = "import pytest, time\n\n@pytest.mark.parametrize('n', range(4))\ndef test_passes(n):\n    time.sleep(0.02)\n"
SHORT = ("-o", "stalled=3", "--numprocesses=2")


def _command() -> list[str]:
    """What `make test` runs."""
    told = subprocess.run(["make", "--dry-run", "test"], cwd=ROOT, capture_output=True, text=True, check=True)
    line = next(line for line in told.stdout.splitlines() if " pytest " in line)
    return [sys.executable, "-m", *shlex.split(line.partition(" ")[2])]


def _run(folder: Path, *options: str, **tests: str) -> tuple[int, dict[str, int], str]:
    """Exit status, how many tests came to which end, and all that was printed by a run of these files between files that pass."""
    (folder / "tests").mkdir()
    for file in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / file, folder / file)
    (folder / "params.yaml").touch()
    for number in range(6):
        (folder / f"tests/test_{number}_passes.py").write_text(PASSING)
    for name, code in tests.items():
        (folder / f"tests/test_{name}.py").write_text(f"import os, signal, subprocess, sys, time\n\n{code}")
    paths = os.pathsep.join(str(ROOT / name) for name in ("src", ".", "tests/support"))
    said = folder / "said.txt"
    with said.open("w") as out:  # no pipe, which what is left behind would keep open
        ran = subprocess.run(
            [*_command(), *options],
            cwd=folder,
            env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
            | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            stdout=out,
            stderr=out,
            timeout=PATIENCE,
        )
    text = said.read_text()
    ends = re.findall(r"(\d+) (passed|failed|error)", text.splitlines()[-1])
    return ran.returncode, {end: int(count) for count, end in ends}, text


DIES = "def test_first(): pass\ndef test_ends(): time.sleep(0.3); os._exit(1)\ndef test_last(): pass\n"


def test_a_process_that_dies_fails_its_test_and_no_other(tmp_path: Path) -> None:
    status, ends, said = _run(tmp_path, **{"0": DIES, "9": DIES})
    assert (status, ends) == (1, {"failed": 2, "passed": 28}), said
    assert "crashed while running 'tests/test_9.py::test_ends'" in said


@pytest.mark.slow
def test_processes_that_die_again_and_again_end_the_run(tmp_path: Path) -> None:
    killed = "import pytest\n@pytest.mark.parametrize('n', range(30))\ndef test_ends(n): os.kill(os.getpid(), signal.SIGKILL)\n"
    status, ends, said = _run(tmp_path, "--max-worker-restart=2", **{"9": killed})
    assert (status, ends["failed"]) == (1, 3), said


HANGS = {
    "sleeping": "def test_hangs(): time.sleep(9999)\n",
    "waiting": "def test_hangs(): subprocess.run([sys.executable, '-c', 'import time; time.sleep(9999)'])\n",
    "stopped": "def test_hangs(): os.kill(os.getpid(), signal.SIGSTOP)\n",
    "deaf": "def test_hangs():\n    signal.signal(signal.SIGABRT, signal.SIG_IGN)\n    time.sleep(9999)\n",
    "leaving": "def test_hangs(): time.sleep(9999 * (not os.fork()) or 0.5); os._exit(1)\n",
}


@pytest.mark.parametrize(
    "kinds",
    [("sleeping",), pytest.param(("waiting", "stopped", "deaf", "leaving"), marks=pytest.mark.slow)],
)
def test_a_process_that_hangs_is_ended_and_its_test_fails(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    status, ends, said = _run(
        tmp_path, *SHORT, **{kind: f"{HANGS[kind]}def test_last(): pass\n" for kind in kinds}
    )
    assert (status, ends) == (1, {"failed": len(kinds), "passed": 24 + len(kinds)}), said
    if "sleeping" in kinds:
        assert "Fatal Python error: Aborted" in said
        assert "in test_hangs" in said


@pytest.mark.slow
def test_a_run_ends_though_nobody_knows_what_holds_it(tmp_path: Path) -> None:
    """What a process starts in its last moment lives on, unseen, and holds the pipe by which the run would hear of the end."""
    status, _, said = _run(
        tmp_path, *SHORT, **{"3": "def test_hangs(): time.sleep(99 * (not os.fork())); os._exit(1)\n"}
    )
    assert status != 0, said


@pytest.mark.slow
def test_a_test_that_never_ends_but_works_is_ended_too(tmp_path: Path) -> None:
    status, ends, said = _run(
        tmp_path, "-o", "longest=20", "-o", "stalled=60", **{"3": "def test_hangs():\n    while True: pass\n"}
    )
    assert (status, ends["failed"]) == (1, 1), said


def test_a_test_that_works_longer_than_a_run_may_stall_passes(tmp_path: Path) -> None:
    slow = "def test_works():\n    end = time.monotonic() + 4\n    while time.monotonic() < end: sum(range(10**6))\n"
    status, ends, said = _run(tmp_path, *SHORT, **{"9": slow})
    assert (status, ends) == (0, {"passed": 25}), said
