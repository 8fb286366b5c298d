"""Edited code that computes what it did may be accepted: nothing runs again, and everybody is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pretended
import pytest
from small_study import described, load

from bgbias import plugins
from bgbias.engine import accept as accepting
from bgbias.engine import freshness, graph, records
from bgbias.engine.accept import accept, told
from bgbias.engine.node import Node, step
from bgbias.errors import UserError
from bgbias.files import code
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
    code.look_again()
    pretended.run(study)
    yield study
    plugins.use()
    code.look_again()


def edit(folder: Path, before: str, after: str) -> None:
    path = folder / "mine" / "losses" / "wide.py"
    path.write_text(path.read_text().replace(before, after))
    code.look_again()


def states(study: Study) -> dict[str, str]:
    return {f.node.label: f.state for f in freshness.examine(study)}


def stale(study: Study) -> dict[str, str]:
    return {f.node.label: f.why for f in freshness.examine(study) if f.state == "stale"}


def _draws_tables(study: Study, node: Node) -> bool:
    return any(n.name == "table" for n in graph.reads_from(study, node))


def by_name(study: Study, name: str, of: str = "") -> Node:
    return next(n for n in graph.in_order(study) if n.name == name and of in n.of)


def test_an_edited_loss_makes_its_own_models_stale_with_the_file_as_the_reason(
    study: Study, tmp_path: Path
) -> None:
    edit(tmp_path, "WIDE = 1", "WIDE = 2")
    assert stale(study) == {"train squares/pixels/wide/plain/seed0": "mine/losses/wide.py changed"}
    kept = [label for label, state in states(study).items() if state == "current"]
    assert "train squares/pixels/contrastive/plain/seed0" in kept
    assert not any("wide" in label for label in kept)


def test_what_was_accepted_is_current_and_with_it_all_that_follows(study: Study, tmp_path: Path) -> None:
    edit(tmp_path, "WIDE = 1", "WIDE = 1 + 0")
    lines = accept(study, ["train"])
    assert "accepted: train squares/pixels/wide/plain/seed0 (mine/losses/wide.py changed)" in lines
    # Tables are made again: they say so.
    assert {label for label, state in states(study).items() if state != "current"} == {
        f.label for f in graph.in_order(study) if f.name == "table" or _draws_tables(study, f)
    }
    record = records.read(by_name(study, "train", "wide").record(study))
    (entry,) = record["accepted"]
    assert entry["changed"] == ["mine/losses/wide.py changed"]
    assert entry["instead_of"] != record["digest"]
    said = told(study, step("table", table="table1"))
    assert "train: mine/losses/wide.py changed" in said
    assert "accepted" not in records.read(by_name(study, "train", "contrastive").record(study))


def test_of_many_edited_files_a_table_says_how_many() -> None:
    few, many = ({f"losses/{n}.py changed" for n in range(count)} for count in (3, 4))
    assert accepting._named(few) == "losses/0.py changed, losses/1.py changed, losses/2.py changed"
    assert accepting._named(many) == "4 files"


def test_what_was_edited_since_it_was_made_is_not_accepted(study: Study, tmp_path: Path) -> None:
    node = by_name(study, "train", "wide")
    model = node.outputs(study)["model"]
    model.write_bytes(model.read_bytes()[:-1] + b"x")
    edit(tmp_path, "WIDE = 1", "WIDE = 2 - 1")
    assert accept(study, ["train"]) == []
    record = json.loads(node.record(study).read_text())
    model.write_text(f"{model} ")
    node.record(study).write_text(
        json.dumps({k: v for k, v in record.items() if not k.startswith("record_")})
    )
    assert accept(study, ["train"]) == []
    assert states(study)[node.label] == "stale"


def test_one_node_can_be_accepted_by_its_label(study: Study, tmp_path: Path) -> None:
    edit(tmp_path, "WIDE = 1", "WIDE = 3 - 2")
    assert accept(study, ["train squares/pixels/contrastive/plain/seed0"]) == []
    assert states(study)["train squares/pixels/wide/plain/seed0"] == "stale"
    assert accept(study, ["train squares/pixels/wide/plain/seed0"])
    assert states(study)["train squares/pixels/wide/plain/seed0"] == "current"


def test_an_edit_of_anything_else_is_not_accepted_with_it(study: Study, tmp_path: Path) -> None:
    edit(tmp_path, "WIDE = 1", "WIDE = 2")
    raw = described(tmp_path)
    raw["plugins"] = [*raw["plugins"], str(tmp_path / "mine")]
    raw["losses"]["wide"] = {"default": {"pos_margin": 0.0, "neg_margin": 0.6}}
    raw["grids"]["small"]["cells"][0] |= {"losses": ["wide", "contrastive"], "methods": ["plain"]}
    other = load(tmp_path, raw)
    assert not any(line.startswith("accepted: train") for line in accept(other, ["train"]))
    assert states(other)["train squares/pixels/wide/plain/seed0"] == "stale"


def test_what_nobody_asked_for_stays_stale_and_an_unknown_name_is_told(study: Study, tmp_path: Path) -> None:
    edit(tmp_path, "WIDE = 1", "WIDE = 2")
    assert accept(study, ["score"]) == []
    assert states(study)["train squares/pixels/wide/plain/seed0"] == "stale"
    with pytest.raises(UserError, match=r"no node .trian. to accept\. Did you mean .train."):
        accept(study, ["trian"])


def test_what_another_command_accepted_is_followed_later(study: Study, tmp_path: Path) -> None:
    """Two grids share a node: its readers in the second one were not there to follow when the first accepted it."""
    reader = by_name(study, "embed", "wide")
    before = reader.record(study).read_bytes()
    edit(tmp_path, "WIDE = 1", "WIDE = 4 - 3")
    accept(study, ["train"])
    reader.record(study).write_bytes(before)
    assert states(study)[reader.label] == "stale"
    accept(study, ["train"])
    assert states(study)[reader.label] == "current"
    edit(tmp_path, "WIDE = 4 - 3", "WIDE = 5")
    assert states(study)["train squares/pixels/wide/plain/seed0"] == "stale"
