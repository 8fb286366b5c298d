"""What a record vouches for: a bit that flips is found and nothing is made from it; and `snakemake --touch` accepts what earlier
code made, and nothing else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pretended
import pytest
from small_study import described, load

from bgbias import plugins
from bgbias.engine import freshness, graph, records
from bgbias.engine.node import Node
from bgbias.errors import UserError
from bgbias.files import code, json_checksum
from bgbias.files.atomic import write_json
from bgbias.study.params import Study

TRAIN = "train squares/pixels/arcface/plain/seed0"


@pytest.fixture
def finished(tmp_path: Path) -> Study:
    """A small grid, as if it had been run."""
    study = load(tmp_path, described(tmp_path))
    pretended.run(study)
    return study


# Flipped bits.


@contextmanager
def flipped(path: Path, bit: int) -> Iterator[None]:
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[bit // 8] ^= 1 << bit % 8
    path.write_bytes(damaged)
    try:
        yield
    finally:
        path.write_bytes(whole)


def refused(study: Study, reader: Node) -> bool:
    try:
        with records.node(study, reader):
            return False
    except UserError as error:
        return "would read" in str(error)


def stale(study: Study) -> dict[str, str]:
    return {f.node.label: f.why for f in freshness.settle(study, deep=True) if f.state == "stale"}


def test_flipped_bits_are_found_and_what_cannot_vouch_for_itself_is_made_again(finished: Study) -> None:
    nodes = {node.label: node for node in graph.in_order(finished)}
    results, table = finished.files.at("all_queries"), finished.files.at("table_md", table="table3")
    drop = nodes["figure drop"]
    record = drop.record(finished)
    with flipped(results, 5):
        assert stale(finished) == {"collect": f"{results} has changed"}
        for node in nodes.values():
            if results in graph.inputs(finished, node.name, **node.keywords).values():
                assert refused(finished, node), node.label
    assert stale(finished) == {}
    with flipped(table, 5), flipped(record, 999):
        assert stale(finished) == {
            "table table3": f"{table} has changed",
            "figure drop": "its record is damaged",
        }
    assert stale(finished) == {}
    # Records of earlier versions: what they tell of masks and durations still serves.
    seals = (json_checksum.SEAL, json_checksum.SEALED)
    kept = {k: v for k, v in records.read(record).items() if k not in seals}
    write_json(record, kept)
    assert records.read(record) == kept
    assert records.read_current(finished, drop) == {}
    assert stale(finished) == {"figure drop": "its record has no checksum of itself"}


def test_what_a_reader_finds_rotten_is_stale_from_then_on(finished: Study) -> None:
    """Content changes while times say nothing: the record is the younger one, as after `cp -a`."""
    nodes = {node.label: node for node in graph.in_order(finished)}
    collect, third = nodes["collect"], nodes["table table3"]
    assert all(f.state == "current" for f in freshness.examine(finished))
    with flipped(finished.files.at("all_queries"), 5):
        certificate = collect.record(finished)
        time.sleep(0.1)  # a tick of the disk's clock
        certificate.chmod(certificate.stat().st_mode)
        assert {f.node: f.state for f in freshness.examine(finished)}[collect] == "current"
        assert refused(finished, third)
        found = {f.node: f.state for f in freshness.examine(finished)}
        assert (found[collect], found[third]) == ("stale", "behind")
        assert collect in freshness.to_run(finished)
    freshness.settle(finished)
    assert all(f.state == "current" for f in freshness.examine(finished))


def test_any_bit_of_a_record_counts(tmp_path: Path) -> None:
    """Even those that leave its meaning as it is: another space, 1e5 for 1E5; one of each byte."""
    path = tmp_path / "record.json"
    value = {"seconds": 1e-7, "of": ["ü", None]}
    json_checksum.write(path, value)
    assert json_checksum.read(path).items() > value.items()
    for bit in range(0, 8 * path.stat().st_size, 9):
        with flipped(path, bit), pytest.raises(ValueError, match=r"."):
            json_checksum.read(path)


# Accepted by `snakemake --touch`.


@pytest.fixture
def study(finished: Study, monkeypatch: pytest.MonkeyPatch) -> Study:
    """And then the code of one of its losses was edited."""
    before = code.fingerprint
    edited = plugins.load("losses", "arcface").__name__
    monkeypatch.setattr(code, "fingerprint", lambda *names: before(*names)[edited in names :])
    return finished


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
