"""An audit that is killed goes on and ends with the same bytes; two at once do not meet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from project import hear_interrupts

from tests.support import toy_folder

# A model that takes its time, so that there is something to kill.
SLOW = """
import time

from torch import nn


class Slow(nn.Module):
    def forward(self, x):
        time.sleep(0.004 * len(x))
        return nn.functional.adaptive_avg_pool2d(x, 3).flatten(1)


def build():
    return Slow()
"""
PHOTOS = 144
COMMAND = ["photos", "--model", "slow.py:build", "--masker", "grabcut", "--size", "64", "--resize", "64"]
COMMAND += ["--backgrounds", "walls", "--attribution", "12"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    toy_folder.made(folder, classes=6, per_class=PHOTOS // 6)
    (folder / "slow.py").write_text(SLOW)
    return folder


def begin(place: Path, out: str, cache: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bgbias", "audit", *COMMAND, "--out", out],
        cwd=place,
        env=os.environ | {"BGBIAS_CACHE": str(place / cache)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_interrupts,
    )


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def wait_for(condition: object, process: subprocess.Popen[str]) -> None:
    while not condition():  # type: ignore[operator]
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)


def test_killed_in_each_of_its_steps_it_ends_with_the_same_bytes(place: Path) -> None:
    """Among masks, embeddings, crossed pictures and attribution maps."""
    whole = begin(place, "whole", "cache_of_whole")
    assert whole.wait() == 0, whole.communicate()[1]
    first = begin(place, "killed", "cache")
    wait_for(lambda: len(list((place / "cache").rglob("*.png"))) > 30, first)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    masked = {p: p.stat().st_mtime_ns for p in (place / "cache").rglob("*.png")}
    second = begin(place, "killed", "cache")
    done = next_file(place / "killed", "done.npy", second)
    wait_for(lambda: 1 <= done.read_bytes()[-PHOTOS:].count(1) < PHOTOS // 2, second)
    # It stands still while another one starts, which on a busy machine takes longer than all that is left of it.
    second.send_signal(signal.SIGSTOP)
    refused = begin(place, "killed", "cache")
    assert refused.wait() == 2
    assert f"Process {second.pid} is writing an audit" in refused.communicate()[1]
    second.send_signal(signal.SIGTERM)
    second.send_signal(signal.SIGCONT)
    second.communicate()
    assert second.returncode == 128 + signal.SIGTERM
    assert done.read_bytes()[-PHOTOS:].count(1) >= 1
    assert {p: p.stat().st_mtime_ns for p in masked} == masked
    third = begin(place, "killed", "cache")
    crossed = next_file(place / "killed", "vectors-there.npy", third)
    wait_for(
        lambda: crossed.read_bytes()[-3:].count(1) == 0 and crossed.read_bytes().count(1, 128) > 2, third
    )
    third.send_signal(signal.SIGINT)
    said = third.communicate()[1]
    assert third.returncode == 128 + signal.SIGINT
    assert "interrupted. What is finished is kept: the same command again goes on in killed." in said
    assert "Traceback" not in said
    fourth = begin(place, "killed", "cache")
    mapped = next_file(place / "killed", "gradients-there.npy", fourth)
    wait_for(lambda: 0 < sum(mapped.read_bytes()[-12:]) < 12, fourth)
    fourth.send_signal(signal.SIGKILL)
    fourth.communicate()
    assert 0 < sum(mapped.read_bytes()[-12:]) < 12
    fifth = begin(place, "killed", "cache")
    assert fifth.wait() == 0, fifth.communicate()[1]
    assert files(place / "killed").keys() == files(place / "whole").keys()
    for name, data in files(place / "whole").items():
        if name not in (".lock", "timing.json"):
            assert files(place / "killed")[name] == data, name


def next_file(folder: Path, name: str, process: subprocess.Popen[str]) -> Path:
    """A file, as soon as it is there."""
    wait_for(lambda: any(folder.rglob(name)), process)
    return next(folder.rglob(name))
