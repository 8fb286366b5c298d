"""What is up to date is told by records, and outlives checkouts and new modification times."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pretended
import pytest
import yaml
from project import ROOT

from bgbias import freshness, lineage, params, reading
from bgbias.params import Study

STALE, MARKER = freshness.STALE, freshness.MARKER


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Study]:
    """The grid `demo` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(
        (ROOT / "params.yaml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    return params.load(Path("params.yaml"), "demo")


def edited(*keys: str, value: object) -> Study:
    """The study after an edit of params.yaml."""
    path = Path("params.yaml")
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    inner = raw
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    return params.load(path, "demo")


def out_of_date(study: Study) -> list[str]:
    """The labels of nodes whose outputs look older than the marker."""
    freshness.settle(study)
    nodes = lineage.in_order(study)
    return [n.label for n in nodes if n.record(study).exists() and _time(n.record(study)) < MARKER]


def test_every_node_comes_after_those_it_reads_from(study: Study) -> None:
    nodes = lineage.in_order(study)
    for place, node in enumerate(nodes):
        assert set(lineage.reads_from(study, node)) <= set(nodes[:place])


@pytest.mark.parametrize("grid", ["smoke", "demo", "cub50"])
def test_every_input_is_made_by_a_node_that_is_read_from(study: Study, grid: str) -> None:
    study = params.load(Path("params.yaml"), grid)
    for node in lineage.in_order(study):
        made = {p for n in lineage.reads_from(study, node) for p in pretended.outputs(study, n)}
        read = set(reading.inputs(study, node.name, **node.keywords).values())
        assert read <= made, node.label


def test_a_finished_run_is_left_alone(study: Study) -> None:
    pretended.run(study)
    before = {p: _time(p) for p in Path("data").rglob("*") if p.is_file()}
    report = freshness.settle(study)
    assert str(report) == ""
    assert report.touched == 0
    assert before == {p: _time(p) for p in Path("data").rglob("*") if p.is_file()}


def test_an_edited_margin_makes_that_loss_alone_old_and_says_why(study: Study) -> None:
    pretended.run(study)
    changed = edited("losses", "arcface", "default", value={"margin": 21, "scale": 16, "lr": 0.01})
    report = freshness.settle(changed)
    assert report.stale == {
        f"train toy_090/tiny/arcface/{m}/seed0": "loss.margin: 20 -> 21" for m in ("plain", "bgaugment")
    }
    old = out_of_date(changed)
    assert len(old) == len(report.stale) + report.followers
    assert not [label for label in old if "contrastive" in label]
    assert {label.split()[0] for label in old} >= {"embed", "score", "attribute", "collect", "table"}


def test_an_edit_taken_back_costs_nothing(study: Study) -> None:
    pretended.run(study)
    original = study.losses["arcface"]["default"]
    assert out_of_date(edited("losses", "arcface", "default", value={**original, "margin": 21}))
    assert out_of_date(edited("losses", "arcface", "default", value=original)) == []
    _assert_in_order(study)


def test_files_of_other_settings_are_old_whatever_their_age(study: Study) -> None:
    """`git checkout` of params.yaml alone, or `dvc checkout` of files alone."""
    pretended.run(study)
    other = edited("train", "weight_decay", value=0.01)
    pretended.run(other)
    assert out_of_date(other) == []
    old = out_of_date(study)
    assert [label.split()[0] for label in old].count("train") == 8


def test_right_files_with_any_modification_times_stay(study: Study) -> None:
    """A fresh clone after `dvc pull`: everything is there, in an arbitrary order of time."""
    pretended.run(study)
    files = [p for p in Path("data").rglob("*") if p.is_file()]
    random.Random(0).shuffle(files)
    for second, path in enumerate(files, 1_500_000_000):
        os.utime(path, (second, second))
    assert out_of_date(study) == []
    _assert_in_order(study)


def test_a_changed_input_is_noticed_by_its_content(study: Study) -> None:
    pretended.run(study)
    masks = study.files.at("mask_table", dataset="toy_000", masker="u2netp_toy")
    masks.write_text("drawn anew")
    old = out_of_date(study)
    assert "train toy_000/tiny/contrastive/bgaugment/seed0" in old
    assert "train toy_000/tiny/contrastive/plain/seed0" not in old
    assert "embed toy_000/tiny/contrastive/plain/seed0" in old
    assert "train toy_050/tiny/contrastive/bgaugment/seed0" not in old


def test_a_damaged_output_is_made_again(study: Study) -> None:
    pretended.run(study)
    study.files.at("photos", dataset="toy_050").write_text("damaged")
    report = freshness.settle(study)
    assert report.stale == {"index toy_050": "data/work/datasets/toy_050/photos.zip has changed"}
    # And is so until it is made again, however often somebody looks.
    assert freshness.settle(study).stale == report.stale


def test_a_damaged_record_makes_its_node_run_again(study: Study) -> None:
    nodes = pretended.run(study)
    first = next(n for n in nodes if n.name == "train")
    first.record(study).write_text("{")
    report = freshness.settle(study)
    assert report.stale == {first.label: "its record is damaged"}
    assert _time(first.record(study)) < MARKER


def _assert_in_order(study: Study) -> None:
    for node in lineage.in_order(study):
        oldest = min(_time(p) for p in (*pretended.outputs(study, node), node.record(study)))
        read = reading.inputs(study, node.name, **node.keywords).values()
        assert all(MARKER <= _time(p) <= oldest for p in read), node.label


def _time(path: Path) -> int:
    return path.stat().st_mtime_ns
