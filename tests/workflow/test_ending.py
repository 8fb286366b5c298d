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
from project import PATIENCE, ROOT

PASSING = "import pytest\n\n@pytest.mark.parametrize('n', range(4))\ndef test_passes(n): pass\n"
DIES = "def test_first(): pass\ndef test_ends(): time.sleep(0.3); os._exit(1)\ndef test_last(): pass\n"
HANGS = "def test_ends(): subprocess.run(['sleep', '9999'])\ndef test_last(): pass\n"


@pytest.mark.parametrize(
    ("code", "passed", "words"),
    [(DIES, 28, "crashed while running 'tests/test_9.py::test_ends'"), (HANGS, 26, "in test_ends")],
    ids=["dies", "hangs"],
)
def test_a_process_that_dies_or_hangs_fails_its_test_and_no_other(
    tmp_path: Path, code: str, passed: int, words: str
) -> None:
    """Two files of it between files that pass."""
    (tmp_path / "tests").mkdir()
    for file in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    for number in range(6):
        (tmp_path / f"tests/test_{number}_passes.py").write_text(PASSING)
    for number in (0, 9):
        (tmp_path / f"tests/test_{number}.py").write_text(f"import os, subprocess, time\n\n{code}")
    paths = os.pathsep.join(str(ROOT / name) for name in ("src", ".", "tests/support"))
    around = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")} | {"PYTHONPATH": paths}
    told = subprocess.run(["make", "--dry-run", "test"], cwd=ROOT, capture_output=True, text=True, check=True)
    line = next(line for line in told.stdout.splitlines() if " pytest " in line)
    command = [sys.executable, "-m", *shlex.split(line.partition(" ")[2])]
    command += ["--numprocesses=2", "-o", "faulthandler_timeout=3"]
    # No pipe, which what is left behind would keep open.
    with (tmp_path / "said.txt").open("w") as out:
        ran = subprocess.run(command, cwd=tmp_path, env=around, stdout=out, stderr=out, timeout=PATIENCE)
    said = (tmp_path / "said.txt").read_text()
    ends = {end: int(count) for count, end in re.findall(r"(\d+) (passed|failed)", said.splitlines()[-1])}
    assert (ran.returncode, ends) == (1, {"failed": 2, "passed": passed}), said
    assert words in said
