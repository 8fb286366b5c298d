"""A full disk loses nothing that was finished."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_study import data_nodes, load, outputs, run

from bgbias.engine import records
from bgbias.nodes import index
from bgbias.study.cell import Cell
from bgbias.study.params import Study

pytestmark = [
    pytest.mark.usefixtures("small_plugins"),
    pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full"),
]


@pytest.fixture
def study(raw: dict[str, Any], tmp_path: Path) -> Study:
    return load(tmp_path, raw)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Let the next write of a path meet a full disk."""
    # Nodes clear the leftovers of killed writers away.
    monkeypatch.setattr(records, "remove_leftovers", lambda path: None)

    def fill(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f".{path.name}.{os.getpid()}.partial").symlink_to("/dev/full")

    return fill


@pytest.mark.parametrize("name", ["photos", "index_record"])
def test_full_disk_loses_nothing_that_was_finished(
    study: Study, full_disk: Callable[[Path], None], name: str
) -> None:
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


def test_what_training_did_is_not_lost(
    study: Study, full_disk: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With space again, the same command only writes the model down."""
    data_nodes(study)
    cell = Cell("squares", "pixels", "contrastive", "plain", 0)
    model = study.files.at("model", **cell.wildcards)
    full_disk(model)
    with pytest.raises(OSError, match="No space left on device"):
        run(study, cell, "train")
    assert list(model.parent.iterdir()) == []
    monkeypatch.setattr("bgbias.training.loop.train_epoch", None)
    run(study, cell, "train")
    assert model.exists()
