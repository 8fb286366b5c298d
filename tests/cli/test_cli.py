"""Commands do what nodes do, and tell mistakes in plain words."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from small_study import data_nodes, described, load, record

import bgbias
from bgbias import cli
from bgbias.engine import graph
from bgbias.study import params

pytestmark = pytest.mark.usefixtures("small_plugins")


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    return described(tmp_path)


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    """Type a command; its exit status comes back."""
    handler = signal.getsignal(signal.SIGTERM)

    def run(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["bgbias", *words, "--params", str(tmp_path / "params.yaml")])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0)

    yield run
    signal.signal(signal.SIGTERM, handler)


def test_command_runs_a_node_and_names_itself(
    tmp_path: Path, raw: dict[str, Any], typed: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    study = load(tmp_path, raw)
    assert typed("index", "squares") == 0
    assert capsys.readouterr().err.startswith("$ bgbias index squares --params ")
    assert record(study, "index_record", dataset="squares")["command"].startswith(
        "python -m bgbias index squares"
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["index", "squarez"], "no dataset 'squarez'; there are: squares"),
        (["masks", "squares", "u2ned"], "no masker 'u2ned'; there are: ground_truth, other"),
        (["backgrounds", "noisy"], "no backgrounds 'noisy'"),
        (["train", "squares", "pixel", "arcface", "plain"], "no backbone 'pixel'"),
        (["train", "squares", "pixels", "arcfac", "plain"], "no 'arcfac' in losses"),
        (["train", "squares", "pixels", "arcface", "plain", "--device", "cuda:7"], "cuda:7"),
        (["index", "squares", "--expect", "0123"], "was edited since this was planned (0123, now "),
        (["index", "squares", "--grid", "smal"], "no grid 'smal'"),
        (["fetch", "squares"], "squares has nothing to fetch"),
        (["weights", "pixels"], "backbones/pixels has nothing to fetch"),
        (["fetch", "squares", "photos"], "squares has nothing to fetch"),
    ],
)
def test_mistakes_are_told_in_plain_words(
    tmp_path: Path, raw: dict[str, Any], typed: Callable[..., int], capsys: pytest.CaptureFixture[str],
    words: list[str], told: str,
) -> None:  # fmt: skip
    study = load(tmp_path, raw)
    if "--device" in words:
        data_nodes(study)
    assert typed(*words) == 2
    error = capsys.readouterr().err
    assert "\nbgbias: " in error
    assert told in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--version"], f"bgbias {bgbias.__version__}\n"),
        (["-h"], "--install-completion"),
        (["train", "-h"], "Train one model"),
        (["train", "--help"], "Train one model"),
    ],
)
def test_a_command_says_what_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "argv", ["bgbias", *words])
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    signal.signal(signal.SIGTERM, handler)
    assert not ended.value.code
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("package", "extra"),
    [("mlflow.entities", "workflow"), ("pycocotools", "masks"), ("h5py", "persons"), ("no_such_thing", None)],
)
def test_a_missing_extra_is_told_with_its_name(
    capsys: pytest.CaptureFixture[str], package: str, extra: str | None
) -> None:
    command = typer.Typer()

    @command.command()
    def ask() -> None:
        raise ModuleNotFoundError(f"No module named '{package}'", name=package)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["bgbias"])
        with pytest.raises(SystemExit if extra else ModuleNotFoundError):
            cli.run_reporting_errors(command)
    assert (f"pip install 'bgbias[{extra}]'" in capsys.readouterr().err) == (extra is not None)


def test_without_a_study_a_command_says_where_one_is_expected(
    tmp_path: Path, typed: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("index", "squares") == 2
    told = capsys.readouterr().err
    assert f"bgbias: {tmp_path}/params.yaml is missing; run from the project's folder" in told
    assert "Traceback" not in told


def test_planned_digest_is_accepted(tmp_path: Path, raw: dict[str, Any], typed: Callable[..., int]) -> None:
    study = load(tmp_path, raw)
    assert typed("index", "squares", "--expect", graph.digest(study, "index", dataset="squares")) == 0
    assert params.load(tmp_path / "params.yaml") == study


def test_a_crash_is_no_failed_limit() -> None:
    code = "import sys; from bgbias import cli; cli.run_reporting_errors = lambda app: 1 / 0; cli.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == os.EX_SOFTWARE
    assert "ZeroDivisionError" in done.stderr


def test_help_has_a_line_for_each_command() -> None:
    group: Any = typer.main.get_command(cli.app)
    named = {name for names in cli.PANELS.values() for name in names}
    assert named <= group.commands.keys()
    assert {c.rich_help_panel for c in group.commands.values()} == {*cli.PANELS, cli.STEPS}
    for name, command in group.commands.items():
        line = command.short_help or command.help.partition("\n\n")[0]
        assert len(line) <= 62, name  # what is left of 80 columns
