"""A record says what was read, made, and by what; it is written last, and while a node works only it may."""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import pretended
import pytest
import torch
from small_study import described, load

from bgbias.engine import graph, records
from bgbias.engine.node import step
from bgbias.errors import UserError
from bgbias.files import code
from bgbias.nodes import train
from bgbias.study.cell import Cell
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")
BACKGROUNDS = step("backgrounds", pool="noise")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return load(tmp_path, described(tmp_path))


def running(study: Study) -> list[dict[str, Any]]:
    return [json.loads(p.read_text()) for p in Path(study.paths.work, "running").glob("*.json")]


def test_record_says_what_was_made_and_how(study: Study) -> None:
    cell = Cell("squares", "pixels", "contrastive", "plain", 0)
    inputs = graph.inputs(study, "train", cell=cell).values()
    pretended.make(study, step("index", dataset="squares"))
    outputs = {name: study.files.at(name, **cell.wildcards) for name in ("model", "history")}
    with records.node(study, step("train", cell=cell)) as made:
        (working,) = running(study)
        assert (working["status"], working["pid"]) == ("running", os.getpid())
        # Where to read the curve while the training runs, and where it is at the end.
        assert working["history"] == str(study.files.at("partial_history", grid="small", **cell.wildcards))
        made.metrics["photos"] = 3
        made.notes["why"] = "a test"
        for path in outputs.values():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"made")
    assert running(study) == []
    found = records.read(study.files.at("train_record", **cell.wildcards))
    told = {"node": "train", "subject": cell.name, "grid": "small", "status": "done", "device": "cpu"}
    assert found.items() > told.items()
    assert found["cell"] == cell.wildcards
    assert found["digest"] == graph.digest(study, "train", cell=cell)
    assert found["code"]["nodes/train.py"] == code.modules(train.__name__)["nodes/train.py"]
    assert found["spec"]["loss"]["neg_margin"] == 0.5
    assert found["inputs"] == {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in inputs}
    assert found["outputs"] == {str(p): hashlib.sha256(b"made").hexdigest() for p in outputs.values()}
    assert found["history"] == str(outputs["history"])
    assert (found["metrics"], found["notes"]) == ({"photos": 3}, {"why": "a test"})
    assert found["command"].startswith("python -m bgbias")
    assert set(found["packages"]) >= {"numpy", "pandas", "torch"}


class Interrupted(io.BytesIO):
    """A file whose fifth write is where Ctrl-C arrives."""

    writes = 0

    def write(self, data: Any) -> int:
        self.writes += 1
        if self.writes == 5:
            raise KeyboardInterrupt
        return super().write(data)


def test_failed_node_leaves_no_record_and_says_so_among_the_running(study: Study) -> None:
    with (
        pytest.raises(RuntimeError, match=r"ended without making .*train\.zip"),
        records.node(study, BACKGROUNDS),
    ):
        pass
    # torch's writer answers Ctrl-C with an error of its own.
    with pytest.raises(KeyboardInterrupt), records.node(study, BACKGROUNDS):
        torch.save({"weight": torch.zeros(9)}, Interrupted())
    assert not BACKGROUNDS.record(study).exists()
    (left,) = running(study)
    assert left["status"] == "failed"
    assert left["error"].startswith("KeyboardInterrupt")


def test_missing_input_is_named_before_anything_starts(study: Study) -> None:
    words = r"masks squares/ground_truth needs .*images\.csv \(table\), which is missing"
    masks = step("masks", dataset="squares", masker="ground_truth")
    with pytest.raises(UserError, match=words), records.node(study, masks):
        pytest.fail("it must not start")
    assert not Path(study.paths.work).exists()


def test_leftovers_of_a_killed_node_are_cleared_away(study: Study) -> None:
    outputs = BACKGROUNDS.outputs(study).values()
    for path in outputs:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f".{path.name}.1234.partial").write_bytes(b"half")
    with records.node(study, BACKGROUNDS):
        for path in outputs:
            path.write_bytes(b"made")
    made = ["backgrounds.csv", "backgrounds.json", "test.zip", "train.zip", "val.zip"]
    assert sorted(p.name for p in path.parent.iterdir()) == made


def test_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"node": ')
    for name in ("run.json", "absent.json"):
        with pytest.raises(UserError, match=rf"{name} cannot be read .*; run `snakemake --cores all`"):
            records.read(tmp_path / name)
