"""A full disk, or a second process, loses nothing that was finished."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_study import data_nodes, described, load, outputs, run

from bgbias import cli
from bgbias.engine import records
from bgbias.nodes import index
from bgbias.study.cell import Cell

needs_full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")

pytestmark = pytest.mark.usefixtures("small_plugins")


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    return described(tmp_path)


def full(path: Path) -> None:
    """Let the next write of ``path`` meet a full disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name(f".{path.name}.{os.getpid()}.partial").symlink_to("/dev/full")


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """``full`` for nodes, which otherwise clear the leftovers of killed writers away first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "remove_leftovers", lambda path: None)
        yield full


@needs_full_device
@pytest.mark.parametrize("name", ["photos", "index_record"])
def test_full_disk_loses_nothing_that_was_finished(
    tmp_path: Path, raw: dict[str, Any], full_disk: Callable[[Path], None], name: str
) -> None:
    study = load(tmp_path, raw)
    data_nodes(study)
    before = outputs(study)
    full_disk(study.files.at(name, dataset="squares"))
    with pytest.raises(OSError, match="No space left on device") as told:
        index.index(study, "squares")
    assert told.value.filename == str(study.files.at(name, dataset="squares"))
    assert outputs(study) == before
    (running,) = Path(study.paths.work, "running").iterdir()
    assert json.loads(running.read_text())["status"] == "failed"
    index.index(study, "squares")
    assert outputs(study) == before
    assert list(Path(study.paths.work, "running").iterdir()) == []


@needs_full_device
@pytest.mark.parametrize(
    ("node", "name"),
    [("train", "partial"), ("score", "queries")],
)
def test_full_disk_while_a_model_goes_its_way(
    tmp_path: Path, raw: dict[str, Any], full_disk: Callable[[Path], None], node: str, name: str
) -> None:
    study = load(tmp_path, raw)
    data_nodes(study)
    cell = Cell("squares", "pixels", "contrastive", "plain", 0)
    way = ["train", "embed", "score"]
    run(study, cell, *way[: way.index(node)])
    full_disk(study.files.at(name, grid=study.grid, **cell.wildcards))
    with pytest.raises(OSError, match="No space left on device"):
        run(study, cell, node)
    assert not study.files.at(f"{node}_record", **cell.wildcards).exists()
    run(study, cell, node)
    assert study.files.at(f"{node}_record", **cell.wildcards).exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("mounting is not allowed here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_really_full_disk_under_the_models(tmp_path: Path, raw: dict[str, Any], small_disk: Path) -> None:
    """What training did is not lost: with space again, the same command only writes the model down."""
    raw["paths"]["runs"] = str(small_disk)
    study = load(tmp_path, raw)
    data_nodes(study)
    cell = Cell("squares", "pixels", "contrastive", "plain", 0)
    model = study.files.at("model", **cell.wildcards)
    model.parent.mkdir(parents=True)
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space left"):
        filler.write_bytes(b"x" * 2**20)
    with pytest.raises(OSError, match="No space left on device") as told:
        run(study, cell, "train")
    assert told.value.filename == str(model)
    assert list(model.parent.iterdir()) == []
    filler.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bgbias.training.loop.train_epoch", None)
        run(study, cell, "train")
    assert model.exists()


@needs_full_device
def test_full_disk_is_told_in_plain_words(
    tmp_path: Path,
    raw: dict[str, Any],
    full_disk: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    photos = load(tmp_path, raw).files.at("photos", dataset="squares")
    full_disk(photos)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["bgbias", "index", "squares", "--params", str(tmp_path / "params.yaml")])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    error = capsys.readouterr().err
    assert f"bgbias: the disk is full ({photos})" in error
    assert "nothing that was finished is lost" in error
