"""`snakemake --touch`: what earlier code made is accepted, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path

import pretended
import pytest
from small_study import described, load

from bgbias import plugins
from bgbias.engine import freshness, graph, records
from bgbias.engine.node import Node
from bgbias.files import code
from bgbias.study.params import Study

TRAIN = "train squares/pixels/arcface/plain/seed0"


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A small grid, as if it had been run, and then the code of one of its losses was edited."""
    study = load(tmp_path, described(tmp_path))
    pretended.run(study)
    before = code.fingerprint
    edited = plugins.load("losses", "arcface").__name__
    monkeypatch.setattr(code, "fingerprint", lambda *names: before(*names)[edited in names :])
    return study


def states(study: Study) -> dict[str, str]:
    return {f.node.label: f.state for f in freshness.examine(study)}


def trained(study: Study) -> Node:
    return next(n for n in graph.in_order(study) if n.label == TRAIN)


@pytest.mark.parametrize("was_settled", [False, True])
def test_what_earlier_code_made_is_accepted_with_all_that_follows(
    study: Study, tmp_path: Path, was_settled: bool
) -> None:
    assert states(study)[TRAIN] == "stale"
    if was_settled:
        freshness.settle(study)
    lines = freshness.accept(study)
    assert f"accepted: {TRAIN}" in lines
    assert "accepted: train squares/pixels/contrastive/plain/seed0" not in lines
    assert set(states(study).values()) == {"current"}
    record = records.read(trained(study).record(study))
    (entry,) = record["accepted"]
    assert entry["instead_of"] != record["digest"]
    assert not list(tmp_path.rglob("*.stale"))
    assert freshness.accept(study) == []


def test_what_was_edited_since_it_was_made_is_not_accepted(study: Study) -> None:
    node = trained(study)
    model, path = node.outputs(study)["model"], node.record(study)
    whole = model.read_bytes()
    model.write_bytes(whole[:-1] + b"x")
    assert not any("arcface/plain" in line for line in freshness.accept(study))
    model.write_bytes(whole)
    record = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in record.items() if not k.startswith("record_")}))
    assert not any("arcface/plain" in line for line in freshness.accept(study))
    assert states(study)[node.label] == "stale"


def test_what_other_settings_made_is_not_accepted(study: Study, tmp_path: Path) -> None:
    raw = described(tmp_path)
    raw["losses"]["arcface"]["default"]["margin"] += 1
    other = load(tmp_path, raw)
    assert not any("arcface" in line for line in freshness.accept(other))
    assert states(other)[TRAIN] == "stale"
