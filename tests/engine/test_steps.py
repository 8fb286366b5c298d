"""What rules ask of steps: a device, limits, inputs, a command; what is remembered of steps while a grid is planned; and the
record of each, which says what was read, made, and by what. It is written last, and while a node works only it may.
"""

import hashlib
import inspect
import io
import json
import os
import shlex
from pathlib import Path
from typing import Any

import pretended
import pytest
import torch
from small_study import load

from bgbias import plugins
from bgbias.engine import freshness, graph, records, rules
from bgbias.engine.node import TOGETHER, Limits, Node, step
from bgbias.engine.rules import Rules
from bgbias.errors import UserError
from bgbias.files import code, json_checksum
from bgbias.nodes import train
from bgbias.study.cell import Cell
from bgbias.study.params import Study


@pytest.fixture
def made(raw: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rules:
    """The rules of a small grid, as if it had been run."""
    study = load(tmp_path, raw)
    pretended.run(study)
    monkeypatch.setattr(rules, "load", lambda params, grid: study)
    monkeypatch.chdir(tmp_path)
    return Rules({}, tmp_path, is_own=True)


def takes_device(name: str) -> bool:
    return "device" in inspect.signature(getattr(plugins.load("nodes", name), name)).parameters


def test_on_a_cluster_every_step_that_takes_a_device_asks_for_one(
    made: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "has_gpu", lambda: False)
    names = plugins.names("nodes")
    assert [n for n in names if made.uses_gpu(n, on_cluster=True)] == [n for n in names if takes_device(n)]
    assert sum(map(takes_device, names)) == 14
    assert made.uses_gpu("evaluate", on_cluster=True)
    assert not any(made.uses_gpu(name, on_cluster=False) for name in names)
    train = next(n for n in graph.in_order(made.study) if n.name == "train")
    # The one that a cluster gives: whoever finds none there says so.
    assert "--device cuda" in made.command("train", train.wildcards, must_use_gpu=True, again=False)
    assert "--device" not in made.command("train", train.wildcards, must_use_gpu=False, again=False)


def test_a_job_of_several_steps_reads_what_they_read_and_none_of_its_own(made: Rules) -> None:
    for node in graph.in_order(made.study):
        rule = "evaluate" if node.name in TOGETHER else node.name
        read = dict(made.inputs(rule, node.wildcards, frozenset(), check=False))
        own = {made.step(name, node.wildcards).record(made.study) for name in rules.STEPS.get(rule, (rule,))}
        upstream = {n.record(made.study) for n in graph.reads_from(made.study, node)}
        assert upstream - own <= read.keys()
        assert not own & read.keys()
        assert not any(read.values()), "nothing is forced, nothing was set aside"
        declared = made.outputs(rule)
        assert len(declared) == len(set(declared.values()))
        words, again = (
            shlex.split(made.command(rule, node.wildcards, must_use_gpu=False, again=is_forced))
            for is_forced in (False, True)
        )
        assert words[0] == rule
        assert "--expect" in words
        # It alone leaves alone what is up to date.
        assert again[len(words) :] == ["--again"] * (rule == "evaluate")
        assert made.limits(rule)[0] >= getattr(node.module, "LIMITS", Limits()).memory_mb


def test_what_was_set_aside_makes_its_job_run_and_what_is_forced_draws_followers_along(made: Rules) -> None:
    nodes = graph.in_order(made.study)
    train = next(n for n in nodes if n.name == "train")
    json_checksum.aside(train.record(made.study)).touch()
    read = made.inputs("train", train.wildcards, frozenset(), check=False)
    assert [path for path, draws in read if draws] == [json_checksum.aside(train.record(made.study))]
    cell = next(n for n in nodes if n.name == "score" and n.cell == train.cell)
    read = made.inputs("evaluate", cell.wildcards, {"train"}, check=False)
    assert {path.name for path, draws in read if draws} == {"model.safetensors", "run.json"}
    table = next(n for n in nodes if n.name == "table")
    assert all(draws for _, draws in made.inputs("table", table.wildcards, {"train"}, check=False))


def test_other_keys_of_config_are_refused_unless_a_host_has_them(made: Rules, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown --config lr"):
        Rules({"lr": 1}, tmp_path, is_own=True)
    Rules({"lr": 1}, tmp_path, is_own=False)
    with pytest.raises(UserError, match=r"study.yaml is missing in .*: start Snakemake where it lies"):
        Rules({"params": "study.yaml"}, tmp_path, is_own=True)


# Planning.


def all_that_planning_asks(study: Study) -> dict[Node, Any]:
    freshness.examine(study)
    return {
        n: (
            graph.reads_from(study, n),
            graph.inputs(study, n.name, **n.keywords),
            graph.digest(study, n.name, **n.keywords),
        )
        for n in graph.in_order(study)
    }


def test_nothing_is_remembered_of_another_study_once_the_planning_is_over(
    raw: dict[str, Any], tmp_path: Path
) -> None:
    study = load(tmp_path, raw)
    with graph.share_lookups() as memory:
        before = all_that_planning_asks(study)
    # A later block may go on with it, as rules' functions do that are called one by one.
    with graph.share_lookups(memory):
        assert all_that_planning_asks(study) == before
    assert all_that_planning_asks(study) == before
    assert graph._memory is None
    raw["grids"]["small"]["cells"][0]["methods"] = ["plain"]
    assert len(graph.in_order(load(tmp_path, raw))) < len(before)
    edited = study.model_copy(update={"train": study.train.model_copy(update={"lr": 0.5})})
    cell = graph.in_order(edited)[-1]
    assert graph.digest(edited, cell.name, **cell.keywords) not in {digest for *_, digest in before.values()}


@pytest.mark.parametrize(("kind", "between"), [("squares", []), ("cub200", ["fetch squares/photos"])])
@pytest.mark.usefixtures("small_plugins")
def test_segmentation_reads_where_the_objects_are_from_masks_or_the_boxes_of_an_archive(
    raw: dict[str, Any], tmp_path: Path, kind: str, between: list[str]
) -> None:
    raw["segmentation"] = {"episodes": 6}
    options = {"options": {"source": "birds.zip"}} if kind == "cub200" else {}
    raw["datasets"]["squares"] |= {"kind": kind, **options}
    study = load(tmp_path, raw)
    cell = Cell("squares", "pixels", "contrastive", "plain", 0)
    pattern, part = ("part", {"part": "photos"}) if between else ("truth", {})
    file = study.files.at(pattern, dataset="squares", **part)
    for node, before in (
        (step("segment", cell=cell), f"train {cell.name}"),
        (step("figure", figure="segmentation"), f"segment {cell.name}"),
    ):
        read = [n.label for n in graph.reads_from(study, node)]
        assert read[: 2 + len(between)] == ["index squares", *between, before]
        assert file in graph.inputs(study, node.name, **node.keywords).values()


# Records.

BACKGROUNDS = step("backgrounds", pool="noise")


@pytest.fixture
def study(raw: dict[str, Any], tmp_path: Path, small_plugins: None) -> Study:
    return load(tmp_path, raw)


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
