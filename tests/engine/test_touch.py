"""`snakemake --touch`: what earlier code made is accepted, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import edited_code
import pretended
import pytest
from small_study import described, load

from bgbias import plugins
from bgbias.engine import freshness, graph, records
from bgbias.engine.node import Node
from bgbias.study.params import Study

LOSS = """
from bgbias.training.losses.contrastive import DISTANCE, IMAGES_PER_CLASS, Params, build

WIDE = 1
"""


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    """A small grid, as if it had been run, with a loss of somebody's own in `mine/losses`."""
    raw = described(tmp_path)
    (tmp_path / "mine" / "losses").mkdir(parents=True)
    (tmp_path / "mine" / "losses" / "wide.py").write_text(LOSS)
    raw["plugins"] = [*raw["plugins"], str(tmp_path / "mine")]
    raw["losses"]["wide"] = {"default": {"pos_margin": 0.0, "neg_margin": 0.5}}
    raw["grids"]["small"]["cells"][0] |= {"losses": ["wide", "contrastive"], "methods": ["plain"]}
    study = load(tmp_path, raw)
    edited_code.look_again()
    pretended.run(study)
    yield study
    plugins.use()
    edited_code.look_again()


def edit(folder: Path, before: str, after: str) -> None:
    path = folder / "mine" / "losses" / "wide.py"
    path.write_text(path.read_text().replace(before, after))
    edited_code.look_again()


def states(study: Study) -> dict[str, str]:
    return {f.node.label: f.state for f in freshness.examine(study)}


def by_name(study: Study, name: str, of: str = "") -> Node:
    return next(n for n in graph.in_order(study) if n.name == name and of in n.subject_name)


TRAIN = "train squares/pixels/wide/plain/seed0"


@pytest.mark.parametrize("was_settled", [False, True])
def test_what_earlier_code_made_is_accepted_with_all_that_follows(
    study: Study, tmp_path: Path, was_settled: bool
) -> None:
    edit(tmp_path, "WIDE = 1", "WIDE = 1 + 0")
    if was_settled:
        freshness.settle(study)
    lines = freshness.accept(study)
    assert f"accepted: {TRAIN}" in lines
    assert "accepted: train squares/pixels/contrastive/plain/seed0" not in lines
    assert set(states(study).values()) == {"current"}
    record = records.read(by_name(study, "train", "wide").record(study))
    (entry,) = record["accepted"]
    assert entry["instead_of"] != record["digest"]
    assert not list(tmp_path.rglob("*.stale"))
    assert freshness.accept(study) == []


def test_what_was_edited_since_it_was_made_is_not_accepted(study: Study, tmp_path: Path) -> None:
    node = by_name(study, "train", "wide")
    model = node.outputs(study)["model"]
    model.write_bytes(model.read_bytes()[:-1] + b"x")
    edit(tmp_path, "WIDE = 1", "WIDE = 2 - 1")
    assert freshness.accept(study) == []
    record = json.loads(node.record(study).read_text())
    model.write_text(f"{model} ")
    node.record(study).write_text(
        json.dumps({k: v for k, v in record.items() if not k.startswith("record_")})
    )
    assert freshness.accept(study) == []
    assert states(study)[node.label] == "stale"


def test_what_other_settings_made_is_not_accepted(study: Study, tmp_path: Path) -> None:
    edit(tmp_path, "WIDE = 1", "WIDE = 2")
    raw = described(tmp_path)
    raw["plugins"] = [*raw["plugins"], str(tmp_path / "mine")]
    raw["losses"]["wide"] = {"default": {"pos_margin": 0.0, "neg_margin": 0.6}}
    raw["grids"]["small"]["cells"][0] |= {"losses": ["wide", "contrastive"], "methods": ["plain"]}
    other = load(tmp_path, raw)
    assert freshness.accept(other) == []
    assert states(other)[TRAIN] == "stale"
