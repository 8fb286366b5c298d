"""Long work tells how far it is, names are such as no terminal obeys, and random numbers belong to names: the numbers themselves
are frozen, since published results hang on them.
"""

import io
import signal
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from project import hear_interrupts

from bgbias import progress, seeds


def test_long_work_says_how_far(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A line now and then in a log, a bar in a notebook."""
    assert [progress.minutes(seconds) for seconds in (99.4, 720, 11100)] == ["99 s", "12 min", "3 h 05 min"]
    with monkeypatch.context() as patched:
        clock = iter(range(0, 1000, 8))
        patched.setattr(progress.time, "monotonic", lambda: next(clock))
        assert list(progress.track("abcdefg", 7, "letters")) == list("abcdefg")
        lines = capsys.readouterr().err.splitlines()
        assert lines == [
            "letters: 3 of 7, about 32 s left (0.1/s)",
            "letters: 6 of 7, about 8 s left (0.1/s)",
        ]
        assert list(progress.track(iter("abc"), None, "letters")) == list("abc")
        assert capsys.readouterr().err == "letters: 3 (0.1/s)\n"
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    assert list(progress.track("ab", 2, "letters")) == ["a", "b"]
    assert "letters:   0%" in capsys.readouterr().err


def test_terminals_obey_no_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, shown in (
        ("a\x1b[2Jb.jpg", r"a\x1b[2Jb.jpg"),
        ("photo\u202egpj.exe", r"photo\u202egpj.exe"),  # which a terminal shows from right to left
        ("\udcff.jpg", r"\udcff.jpg"),
        ("Käse 日本 [red]\n\tline", "Käse 日本 [red]\n\tline"),
    ):
        progress.say(name)
        progress.say(name, sys.stdout)
        assert capsys.readouterr() == (f"{shown}\n", f"{shown}\n")
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", screen)
    assert list(progress.track([1, 2], 2, "looking at [/x] a\x07b")) == [1, 2]
    assert r"looking at [/x] a\x07b" in screen.getvalue()  # as it is, on a bar


def test_numbers_and_generators_are_frozen() -> None:
    # `printf %s 'cub200|test|bg|4|5923' | sha256sum` begins with these 16 hex digits.
    assert seeds.number(seeds.key("cub200", "test", "bg", 4, 5923)) == 0x1D891A38FEEF03F0
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    crops = seeds.generator("crop", "cub50", 0, 1, 2).integers(0, 1000, 5)
    assert crops.tolist() == [376, 361, 122, 833, 174]
    drawn = torch.randint(0, 1000, (5,), generator=seeds.torch_generator("model", "cub50", "tiny", 0))
    assert drawn.tolist() == [971, 692, 176, 350, 162]


INTERRUPTED = """
import os, signal, sys
from bgbias.__main__ import main

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "bgbias.cli":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
main()
"""


def test_ctrl_c_before_a_command_has_begun_is_no_traceback() -> None:
    words = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(words, capture_output=True, text=True, preexec_fn=hear_interrupts)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
