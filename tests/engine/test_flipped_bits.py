"""One bit of a product or of a record that flips is found when everything is read, and nothing is made from it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pretended
import pytest
from small_study import described, load

from bgbias.engine import freshness, graph, records
from bgbias.engine.node import Node
from bgbias.errors import UserError
from bgbias.files import json_checksum
from bgbias.files.atomic import write_json
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """A grid of two models, as if it had been run as far as its tables and figures."""
    raw = described(tmp_path)
    raw["grids"]["small"]["cells"][0] |= {"losses": ["contrastive"]}
    study = load(tmp_path, raw)
    pretended.run(study)
    return study


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


def test_flipped_bits_are_found_and_what_cannot_vouch_for_itself_is_made_again(study: Study) -> None:
    nodes = {node.label: node for node in graph.in_order(study)}
    results, table = study.files.at("all_queries"), study.files.at("table_md", table="table3")
    drop = nodes["figure drop"]
    record = drop.record(study)
    with flipped(results, 5):
        assert stale(study) == {"collect": f"{results} has changed"}
        for node in nodes.values():
            if results in graph.inputs(study, node.name, **node.keywords).values():
                assert refused(study, node), node.label
    assert stale(study) == {}
    with flipped(table, 5), flipped(record, 999):
        assert stale(study) == {
            "table table3": f"{table} has changed",
            "figure drop": "its record is damaged",
        }
    assert stale(study) == {}
    # Records of earlier versions: what they tell of masks and durations still serves.
    seals = (json_checksum.SEAL, json_checksum.SEALED)
    kept = {k: v for k, v in records.read(record).items() if k not in seals}
    write_json(record, kept)
    assert records.read(record) == kept
    assert records.read_current(study, drop) == {}
    assert stale(study) == {"figure drop": "its record has no checksum of itself"}


def test_what_a_reader_finds_rotten_is_stale_from_then_on(study: Study) -> None:
    """Content changes while times say nothing: the record is the younger one, as after `cp -a`."""
    nodes = {node.label: node for node in graph.in_order(study)}
    collect, third = nodes["collect"], nodes["table table3"]
    assert all(f.state == "current" for f in freshness.examine(study))
    with flipped(study.files.at("all_queries"), 5):
        certificate = collect.record(study)
        time.sleep(0.1)  # a tick of the disk's clock
        certificate.chmod(certificate.stat().st_mode)
        assert {f.node: f.state for f in freshness.examine(study)}[collect] == "current"
        assert refused(study, third)
        found = {f.node: f.state for f in freshness.examine(study)}
        assert (found[collect], found[third]) == ("stale", "behind")
        assert collect in freshness.to_run(study)
    freshness.settle(study)
    assert all(f.state == "current" for f in freshness.examine(study))


def test_any_bit_of_a_record_counts(tmp_path: Path) -> None:
    """Even those that leave its meaning as it is: another space, 1e5 for 1E5; one of each byte."""
    path = tmp_path / "record.json"
    value = {"seconds": 1e-7, "of": ["ü", None]}
    json_checksum.write(path, value)
    assert json_checksum.read(path).items() > value.items()
    for bit in range(0, 8 * path.stat().st_size, 9):
        with flipped(path, bit), pytest.raises(ValueError, match=r"."):
            json_checksum.read(path)
