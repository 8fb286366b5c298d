"""Commands do what nodes do, tell mistakes in plain words, and end when they are told to."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import commands
import numpy as np
import pytest
import typer
from miniatures import as_folder, as_zip
from project import PATIENCE, ROOT, hear_interrupts
from small_study import data_nodes, described, load, record
from snapshots import shop
from typer.testing import CliRunner

import bgbias
from bgbias import cli
from bgbias.engine import graph
from bgbias.errors import UserError
from bgbias.images.pixels import encode_png
from bgbias.study.params import Study


@pytest.fixture
def study(tmp_path: Path, small_plugins: None) -> Study:
    return load(tmp_path, described(tmp_path))


def test_command_runs_a_node_as_it_was_planned_and_names_itself(study: Study, tmp_path: Path) -> None:
    planned = graph.digest(study, "index", dataset="squares")
    assert commands.bgbias(tmp_path, "index", "squares", "--expect", planned).returncode == 0
    command = record(study, "index_record", dataset="squares")["command"]
    assert command.startswith("python -m bgbias index squares")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["index", "squarez"], "no dataset 'squarez'; there are: squares"),
        (["masks", "squares", "u2ned"], "no masker 'u2ned'; there are: ground_truth, other"),
        (["train", "squares", "pixel", "arcface", "plain"], "no backbone 'pixel'"),
        (["train", "squares", "pixels", "arcfac", "plain"], "no 'arcfac' in losses"),
        (["train", "squares", "pixels", "arcface", "plain", "--device", "cuda:7"], "cuda:7"),
        (["index", "squares", "--expect", "0123"], "was edited since this was planned (0123, now "),
        (["fetch", "squares"], "squares has nothing to fetch"),
        (["weights", "pixels"], "backbones/pixels has nothing to fetch"),
        (["index", "squares", "--params", "else/params.yaml"], "else/params.yaml is missing; run from the"),
    ],
)
def test_mistakes_are_told_in_plain_words(study: Study, tmp_path: Path, words: list[str], told: str) -> None:
    if "--device" in words:
        data_nodes(study)
    done = commands.bgbias(tmp_path, *words)
    assert done.returncode == 2
    assert "\nbgbias: " in done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_help_has_a_line_for_each_command() -> None:
    for words, told in (("--version", f"bgbias {bgbias.__version__}\n"), ("train -h", "Train one model")):
        assert told in CliRunner().invoke(cli.app, words).stdout
    group: Any = typer.main.get_command(cli.app)
    assert {name for names in cli.PANELS.values() for name in names} <= group.commands.keys()
    assert {c.rich_help_panel for c in group.commands.values()} == {*cli.PANELS, cli.STEPS}
    for name, command in group.commands.items():
        line = command.short_help or command.help.partition("\n\n")[0]
        assert len(line) <= 62, name  # what is left of 80 columns


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ModuleNotFoundError("", name="mlflow.entities"), "pip install 'bgbias[workflow]'"),
        (OSError(errno.EROFS, "Read-only", "run.json"), "run.json cannot be written or read (Read-only)"),
        (OSError(errno.ENOSPC, "No space", "run.json"), "the disk is full (run.json). Free some space"),
        (ModuleNotFoundError("", name="no_such_thing"), None),
        (OSError(errno.EIO, "Input/output error"), None),
    ],
)
def test_what_a_person_can_put_right_is_told_and_nothing_else(
    capsys: pytest.CaptureFixture[str], error: Exception, told: str | None
) -> None:
    with pytest.raises(SystemExit if told else type(error)):
        cli.run_reporting_errors(Mock(side_effect=error))
    assert (told or "") in capsys.readouterr().err


def test_a_crash_is_no_failed_limit() -> None:
    code = "import sys; from bgbias import cli; cli.run_reporting_errors = lambda app: 1 / 0; cli.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == os.EX_SOFTWARE
    assert "ZeroDivisionError" in done.stderr
    assert done.stderr.startswith("$ bgbias\n"), "it names itself"


@pytest.mark.parametrize("target", ["status", "run", "report", "ui", "resume", "restore"])
def test_make_hands_a_grid_to_the_command_whatever_its_name_holds(target: str, tmp_path: Path) -> None:
    """Python and Snakemake are stand-ins that write down what they are given."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs.parent / ".ready").touch()
    for name in ("python", "snakemake", "dvc"):
        (programs / name).write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {tmp_path}/arguments\n')
        (programs / name).chmod(0o755)
    grid = "x; touch pwned"
    subprocess.run(["make", "-o", ".venv/.ready", target, f"GRID={grid}"], cwd=tmp_path, check=True)
    assert not (tmp_path / "pwned").exists()
    given = (tmp_path / "arguments").read_text().splitlines()
    assert {grid, f"grid={grid}"} & set(given)


# What the command line does around a command. The signal comes as a lock was just taken: when ``Condition.__enter__`` returns,
# before the block that would give it back has begun. The thread, and with it the interpreter's end, waits for that lock for ever.
LOCKED = """
import signal, sys, threading, time
from bgbias import cli

number, condition = int(sys.argv[1]), threading.Condition()

def returned(frame, event, _):
    if event == "return" and frame.f_code is threading.Condition.__enter__.__code__:
        sys.setprofile(None)
        signal.raise_signal(number)

def wants_it_too():
    while True:
        with condition:
            time.sleep(0.001)

def command(_):
    threading.Thread(target=wants_it_too).start()
    sys.setprofile(returned)
    while True:
        with condition:
            pass

cli.GRACE_SECONDS = 1
cli.run_reporting_errors = command
cli.main()
"""
ENDS = {signal.SIGTERM: {128 + signal.SIGTERM}, signal.SIGINT: {-signal.SIGINT, 128 + signal.SIGINT}}


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_ends_a_command_also_as_a_lock_is_taken(number: signal.Signals) -> None:
    words = [sys.executable, "-c", LOCKED, str(int(number))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, preexec_fn=hear_interrupts)
    assert done.returncode in ENDS[number], done.stderr


def doctor(*words: object) -> str:
    return CliRunner().invoke(cli.app, ["doctor", *map(str, words)], catch_exceptions=False).stdout


def test_doctor_tells_what_would_be_left_out_and_makes_nothing(tmp_path: Path) -> None:
    files = shop() | {f"5/{n}.heic": b"" for n in range(5)}
    folder = as_folder(tmp_path / "shop", files)
    with_folders = Path(shutil.make_archive(str(folder), "tar", folder))
    for place in (folder, as_zip(tmp_path / "shop.zip", files), with_folders):
        told = doctor(place)
        assert "5/2.heic and 2 more): a photo in a format" in told
        assert f"{place.name}: 9 photos of 3 classes, 5 files left out\n" in told
        assert "5/4.heic): a photo in a format" in doctor(place, "--all")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["shop", "shop.tar", "shop.zip"]


def test_doctor_looks_at_masks_too(tmp_path: Path) -> None:
    photos, white = as_folder(tmp_path / "shop", shop()), encode_png(np.full((36, 48), 255, np.uint8))
    drawn = {"shoe 00/0.png": white, "shoe 00/1.npy": b"x", "shoe 01/0.heic": b"x"}
    for place in (as_folder(tmp_path / "masks", drawn), as_zip(tmp_path / "masks.zip", drawn)):
        told = doctor(photos, "--masks", place)
        assert "left out: 1 (shoe 00/1.npy (masks)): no picture by its name" in told
        assert "photos without a true mask: 8 (shoe 00/1.jpg, shoe 00/2.jpg, " in told
        assert "9 photos of 3 classes, 2 files left out" in told
    with pytest.raises(UserError, match=r"arrays holds no pictures.*run: python -m bgbias doctor .*--masks"):
        doctor(photos, "--masks", as_folder(tmp_path / "arrays", {"0/1.npy": b"x"}))
