"""Records decide what is up to date: checkouts and new modification times change nothing."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pretended
import pytest
import typer
import yaml
from project import ROOT

from bgbias.cli import tools
from bgbias.cli.tools import format_status
from bgbias.engine import freshness, graph, records
from bgbias.engine.freshness import Finding
from bgbias.engine.node import Node, step
from bgbias.errors import UserError
from bgbias.files import code, json_checksum
from bgbias.report import grid_page
from bgbias.study import params
from bgbias.study.params import Study

Link = Callable[[Path, Path], None]


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Study]:
    """A part of the grid `demo`, with a second loss, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    raw = params.read(ROOT / "params.yaml")
    row = raw["grids"]["demo"]["cells"][0]
    raw["grids"]["demo"]["cells"] = [
        row | {"datasets": ["demo_00", "demo_50"], "seeds": [0]},
        row | {"datasets": ["demo_00"], "losses": ["arcface"], "seeds": [0]},
    ]
    whole = yaml.safe_dump(raw, sort_keys=False)
    (tmp_path / "params.yaml").write_text(whole, encoding="utf-8")
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
    """The labels of nodes whose records are set aside, so that Snakemake misses them."""
    freshness.settle(study)
    return [n.label for n in graph.in_order(study) if is_aside(study, n)]


def stale(findings: Iterable[Finding]) -> dict[str, str]:
    return {finding.node.label: finding.why for finding in findings if finding.state == "stale"}


def is_aside(study: Study, node: Node) -> bool:
    path = node.record(study)
    return json_checksum.aside(path).exists() and not path.exists()


def delete(study: Study, node: Node) -> None:
    """As Snakemake does before it makes a node anew."""
    for path in (*pretended.outputs(study, node), node.record(study)):
        path.unlink(missing_ok=True)


def test_an_edited_margin_makes_that_loss_alone_old_and_one_taken_back_costs_nothing(study: Study) -> None:
    pretended.run(study)
    original = study.losses["arcface"]["default"]
    changed = edited("losses", "arcface", "default", value={**original, "margin": 21})
    assert stale(freshness.settle(changed)) == {
        f"train demo_00/tiny/arcface/{method}/seed0": "loss.margin: 20 -> 21"
        for method in ("plain", "bgaugment")
    }
    old = out_of_date(changed)
    assert not [label for label in old if "contrastive" in label]
    assert {label.split()[0] for label in old} >= {"embed", "score", "attribute", "collect", "table"}
    # A step that was killed while it made the other plan's.
    killed = next(node for node in graph.in_order(changed) if node.label in old)
    half = killed.record(changed).with_name(f".{killed.record(changed).name}.1.partial")
    running = records._place(changed, "running", killed)
    for path in (half, running):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert out_of_date(edited("losses", "arcface", "default", value=original)) == []
    assert not half.exists()
    assert not running.exists()
    assert all(n.record(study).exists() for n in graph.in_order(study))
    assert not list(Path("data").rglob("*.stale"))


def test_right_files_with_any_modification_times_stay(study: Study) -> None:
    """A fresh clone after `dvc pull`: everything is there, in an arbitrary order of time."""
    pretended.run(study)
    files = [p for p in Path("data").rglob("*") if p.is_file()]
    random.Random(0).shuffle(files)
    for second, path in enumerate(files):
        os.utime(path, (second, second))
    assert freshness.out_of_date(freshness.settle(study)) == ""
    assert {p: _time(p) for p in files} == {p: n * 10**9 for n, p in enumerate(files)}


def test_what_was_old_is_not_taken_for_right_when_what_it_was_made_from_is_gone(study: Study) -> None:
    """A run that makes a dataset anew deletes it first; killed then, it leaves nothing to compare the rest with."""
    pretended.run(study)
    index = step("index", dataset="demo_50")
    photos = study.files.at("photos", dataset="demo_50")
    photos.write_text("other photos")
    old = out_of_date(study)
    delete(study, index)
    assert out_of_date(study) == old
    pretended.make(study, index)
    assert out_of_date(study) == []


def test_deleted_models_are_told_with_what_brings_them_back(study: Study) -> None:
    pretended.run(study)
    assert format_status(study, freshness.examine(study)).endswith("\nTables and figures are current.")
    trained = [n for n in graph.in_order(study) if n.name == "train"]
    for node in trained:
        delete(study, node)
    said = format_status(study, freshness.examine(study))
    words = "Tables and figures are current.\nThey were made from what is not here now: train"
    assert f"{words} ({len(trained)})." in said
    assert f"missing: {trained[0].label} ({trained[0].record(study).parent})" in said
    assert f"and {len(trained) - 5} more" in said
    assert "`dvc pull` brings what a remote keeps" in said
    assert said.endswith("snakemake --cores all --config grid=demo -- models")
    assert freshness.lacking(freshness.examine(study))

    embed = next(n for n in graph.in_order(study) if n.name == "embed")
    delete(study, embed)
    assert format_status(study, freshness.examine(study)).endswith(f"-- models {embed.record(study)}")


def test_a_product_made_again_from_other_bytes_makes_its_readers_old(study: Study) -> None:
    """A GPU need not train the same model twice; a checkout of one folder brings the other one, however old it looks."""
    nodes = pretended.run(study)
    trained = next(n for n in nodes if n.name == "train" and "arcface/plain" in n.label)
    pretended.make(study, trained, "on another machine")
    for path in (*pretended.outputs(study, trained), trained.record(study)):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    settled = freshness.settle(study)
    model = study.files.at("model", **trained.keywords["cell"].wildcards)
    why = f"{model} is another one than it was made from"
    assert stale(settled) == {trained.label.replace("train", node): why for node in ("embed", "attribute")}
    assert why in format_status(study, freshness.examine(study))


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_a_cache_keeps_its_bytes_and_times_whatever_is_settled(
    study: Study, link: Link, tmp_path: Path
) -> None:
    """With ``cache.type`` hardlink or symlink products are the cache's own read-only files, perhaps somebody else's."""
    pretended.run(study)
    cache = tmp_path / "cache"
    cache.mkdir()
    for number, path in enumerate(p for p in sorted(Path("data").rglob("*")) if p.is_file()):
        path.chmod(0o444)
        os.utime(path, (1_400_000_000 - number, 1_400_000_000 - number))
        path.rename(cache / str(number))
        link(cache / str(number), path)
    cached = sorted(cache.iterdir())
    before = {p: (p.read_bytes(), _time(p), p.stat().st_mode) for p in cached}
    assert out_of_date(study) == []
    changed = edited("losses", "arcface", "default", value={"margin": 21, "scale": 16, "lr": 0.01})
    old = out_of_date(changed)
    assert "train demo_00/tiny/arcface/plain/seed0" in old
    for node in graph.in_order(changed):
        if node.label in old:
            # Snakemake refuses to replace files that it must not write.
            assert all(p.stat().st_mode & 0o200 for p in pretended.outputs(changed, node)), node.label
    assert before == {p: (p.read_bytes(), _time(p), p.stat().st_mode) for p in cached}


def test_what_was_made_with_other_libraries_is_told_so(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a `bgbias` that pip has put elsewhere."""
    pretended.run(study)
    here = code.libraries
    monkeypatch.setattr(code, "libraries", lambda *modules: here(*modules) | {"numpy": "0.1"})
    with pytest.raises(UserError, match=r"is stale \(libraries\.numpy: .*-> 0\.1.*of another environment"):
        grid_page.write(study)


def _time(path: Path) -> int:
    return path.stat().st_mtime_ns


def test_what_only_its_content_shows_is_mended_by_the_advice(study: Study) -> None:
    node = pretended.run(study)[-1]
    freshness.settle(study)
    tools.status("demo", check=True)
    path, record = pretended.outputs(study, node)[0], node.record(study)
    # No time says so: the record is the younger one, as after `cp -a`.
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    while record.stat().st_ctime_ns <= path.stat().st_ctime_ns:  # a disk's clock has ticks
        os.utime(record, ns=(record.stat().st_atime_ns, record.stat().st_mtime_ns))
    tools.status("demo")
    with pytest.raises(typer.Exit):
        tools.status("demo", check=True)
    for findings, is_deep in ((freshness.examine(study), False), (freshness.examine(study, True), True)):
        assert bool(freshness.lacking(findings)) == is_deep
    said = format_status(study, findings, deep=True)
    assert f"stale: {node.label} ({path} has changed)" in said
    # Snakemake by itself would not see it.
    then = "snakemake --cores all --config grid=demo (with -n: what it would run)"
    assert said.endswith(f"Next: python -m bgbias restore --grid demo && {then}")
    assert not is_aside(study, node)
    tools.restore("demo")
    assert is_aside(study, node)
    assert out_of_date(study) == [node.label]
    assert format_status(study, freshness.examine(study)).endswith(f"Next: {then}")
