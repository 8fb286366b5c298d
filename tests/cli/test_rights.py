"""A study that may be read alone is told in words, without a traceback; a grid's name is never a command of the shell."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from bgbias import cli

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_folder_without_rights_is_named(
    number: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["bgbias"])
    app = typer.Typer()

    @app.command()
    def write() -> None:
        raise OSError(number, os.strerror(number), "data/runs/run.json")

    with pytest.raises(SystemExit) as ended:
        cli.run_reporting_errors(app)
    assert ended.value.code == 2
    error = capfd.readouterr().err
    assert f"bgbias: data/runs/run.json cannot be written or read ({os.strerror(number)})" in error
    assert "Traceback" not in error


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
