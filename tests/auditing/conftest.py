"""What tests of the audit share, and none changes: a folder of toys, one finished audit of it, and photos of two visits."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import commands, toy_folder, two_visits

# Photos of 64 pixels as they are, gradients as walls.
HOW = ["--masks", "masks", "--size", "64", "--resize", "64", "--backgrounds", "walls"]


class Audited(NamedTuple):
    """The folder of a finished audit, and what the terminal showed."""

    out: Path
    text: str


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six classes of five photos, one of whose names is no friend of HTML."""
    folder = tmp_path_factory.mktemp("toys")
    toy_folder.made(folder)
    for part in ("photos", "masks"):
        min((folder / part).iterdir()).rename(folder / part / "<script>alert(1)<")
    return folder


@pytest.fixture
def place(toys: Path, tmp_path: Path) -> Path:
    """A copy of them that a test may write to."""
    return Path(shutil.copytree(toys, tmp_path / "hers"))


@pytest.fixture(scope="session")
def audited(toys: Path, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """The audit of the model in the folder's file, by the command."""
    out = tmp_path_factory.mktemp("audited") / "first"
    how = [*HOW, "--attribution", "12", "--draws", "2"]
    done = commands.bgbias(toys, "audit", "photos", "--model", "my_model.py:build", *how, "--out", str(out))
    assert done.returncode == 0, done.stderr
    return Audited(out, done.stdout)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos of two visits to a shop."""
    folder = tmp_path_factory.mktemp("shop")
    two_visits.make(folder)
    return folder
