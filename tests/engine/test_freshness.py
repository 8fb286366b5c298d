"""Records decide what is up to date: checkouts and new modification times change nothing, an edit does; a flipped bit is found;
`snakemake --touch` accepts what earlier code made, and nothing else.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pretended
import pytest
import typer
from small_study import load

from bgbias import plugins
from bgbias.cli import tools
from bgbias.cli.tools import format_status
from bgbias.engine import freshness, graph, records
from bgbias.engine.node import Node, step
from bgbias.errors import UserError
from bgbias.files import code, json_checksum
from bgbias.files.atomic import write_json
from bgbias.report import grid_page
from bgbias.study.params import Study

TRAIN = "train squares/pixels/arcface/plain/seed0"


@pytest.fixture
def study(raw: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A small grid in the current folder, as if it had been run."""
    monkeypatch.chdir(tmp_path)
    raw["grids"]["small"]["cells"][0]["seeds"] = [0, 1]
    study = load(Path(), raw)
    pretended.run(study)
    return study


def node_of(study: Study, label: str) -> Node:
    return next(n for n in graph.in_order(study) if n.label == label)


def stale(study: Study, deep: bool = False) -> dict[str, str]:
    """Why steps are out of date, whose records are set aside."""
    return {f.node.label: f.why for f in freshness.settle(study, deep) if f.state == "stale"}


def out_of_date(study: Study) -> list[str]:
    """The labels of nodes whose records are set aside, so that Snakemake misses them."""
    freshness.settle(study)
    return [n.label for n in graph.in_order(study) if is_aside(study, n)]


def is_aside(study: Study, node: Node) -> bool:
    path = node.record(study)
    return json_checksum.aside(path).exists() and not path.exists()


def files_of(study: Study, node: Node) -> list[Path]:
    return [*pretended.outputs(study, node), node.record(study)]


def delete(study: Study, node: Node) -> None:
    """As Snakemake does before it makes a node anew."""
    for path in files_of(study, node):
        path.unlink(missing_ok=True)


def test_an_edited_margin_makes_that_loss_alone_old_and_one_taken_back_costs_nothing(
    study: Study, raw: dict[str, Any], tmp_path: Path
) -> None:
    raw["losses"]["arcface"]["default"]["margin"] = 21
    changed = load(Path(), raw)
    assert stale(changed) == {
        f"train squares/pixels/arcface/{method}/seed{seed}": "loss.margin: 20 -> 21"
        for method in ("plain", "bgaugment")
        for seed in (0, 1)
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
    raw["losses"]["arcface"]["default"]["margin"] = 20
    assert out_of_date(load(Path(), raw)) == []
    assert not half.exists()
    assert not running.exists()
    assert all(n.record(study).exists() for n in graph.in_order(study))
    assert not list(tmp_path.rglob("*.stale"))


def test_what_was_old_is_not_taken_for_right_when_what_it_was_made_from_is_gone(study: Study) -> None:
    """A run that makes a dataset anew deletes it first; killed then, it leaves nothing to compare the rest with."""
    index = step("index", dataset="squares")
    study.files.at("photos", dataset="squares").write_text("other photos")
    old = out_of_date(study)
    delete(study, index)
    assert out_of_date(study) == old
    pretended.make(study, index)
    assert out_of_date(study) == []


def test_deleted_models_are_told_with_what_brings_them_back(study: Study) -> None:
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
    assert said.endswith("snakemake --cores all --config grid=small -- models")
    assert freshness.lacking(freshness.examine(study))

    embed = next(n for n in graph.in_order(study) if n.name == "embed")
    delete(study, embed)
    assert format_status(study, freshness.examine(study)).endswith(f"-- models {embed.record(study)}")


def test_a_product_made_again_from_other_bytes_makes_its_readers_old(study: Study) -> None:
    """A GPU need not train the same model twice; a checkout of one folder brings the other one, however old it looks."""
    trained = node_of(study, TRAIN)
    pretended.make(study, trained, "on another machine")
    for path in files_of(study, trained):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    why = f"{trained.outputs(study)['model']} is another one than it was made from"
    assert stale(study) == {TRAIN.replace("train", node): why for node in ("embed", "attribute")}
    assert why in format_status(study, freshness.examine(study))


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_right_files_with_any_times_stay_and_a_cache_keeps_its_bytes_and_times_whatever_is_settled(
    study: Study, raw: dict[str, Any], link: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    """With ``cache.type`` hardlink or symlink products are the cache's own read-only files, perhaps somebody else's."""
    cache = tmp_path / "cache"
    cache.mkdir()
    files = [path for node in graph.in_order(study) for path in files_of(study, node)]
    for number, path in enumerate(files):
        path.chmod(0o444)
        os.utime(path, (1_400_000_000 - number, 1_400_000_000 - number))
        path.rename(cache / str(number))
        link(cache / str(number), path)

    def cached() -> dict[Path, tuple[bytes, int, int]]:
        return {p: (p.read_bytes(), p.stat().st_mtime_ns, p.stat().st_mode) for p in cache.iterdir()}

    before = cached()
    assert out_of_date(study) == []
    raw["losses"]["arcface"]["default"]["margin"] = 21
    changed = load(Path(), raw)
    old = out_of_date(changed)
    assert TRAIN in old
    for node in graph.in_order(changed):
        if node.label in old:
            # Snakemake refuses to replace files that it must not write.
            assert all(p.stat().st_mode & 0o200 for p in pretended.outputs(changed, node)), node.label
    assert cached() == before


def test_what_was_made_with_other_libraries_is_told_so(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a `bgbias` that pip has put elsewhere."""
    here = code.libraries
    monkeypatch.setattr(code, "libraries", lambda *modules: here(*modules) | {"numpy": "0.1"})
    with pytest.raises(UserError, match=r"is stale \(libraries\.numpy: .*-> 0\.1.*of another environment"):
        grid_page.write(study)


def test_what_only_its_content_shows_is_mended_by_the_advice(study: Study) -> None:
    node = graph.in_order(study)[-1]
    freshness.settle(study)
    tools.status("small", check=True)
    path = pretended.outputs(study, node)[0]
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    let_no_time_say_so(node.record(study))
    tools.status("small")
    with pytest.raises(typer.Exit):
        tools.status("small", check=True)
    for findings, is_deep in ((freshness.examine(study), False), (freshness.examine(study, True), True)):
        assert bool(freshness.lacking(findings)) == is_deep
    said = format_status(study, findings, deep=True)
    assert f"stale: {node.label} ({path} has changed)" in said
    # Snakemake by itself would not see it.
    then = "snakemake --cores all --config grid=small (with -n: what it would run)"
    assert said.endswith(f"Next: python -m bgbias restore --grid small && {then}")
    assert not is_aside(study, node)
    tools.restore("small")
    assert out_of_date(study) == [node.label]
    assert format_status(study, freshness.examine(study)).endswith(f"Next: {then}")


def let_no_time_say_so(record: Path) -> None:
    """The record becomes the younger one, as after `cp -a`."""
    time.sleep(0.1)  # a tick of the disk's clock
    record.chmod(record.stat().st_mode)


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


def test_flipped_bits_are_found_and_what_cannot_vouch_for_itself_is_made_again(study: Study) -> None:
    results, table = study.files.at("all_queries"), study.files.at("table_md", table="table3")
    drop = node_of(study, "figure drop")
    with flipped(results, 5):
        let_no_time_say_so(node_of(study, "collect").record(study))
        assert stale(study) == {}
        for reader in graph.in_order(study):
            if results in graph.inputs(study, reader.name, **reader.keywords).values():
                with pytest.raises(UserError, match="would read"), records.node(study, reader):
                    pytest.fail("it must not start")
        # What a reader finds rotten is stale from then on.
        assert stale(study) == {"collect": f"{results} has changed"}
        assert node_of(study, "collect") in freshness.to_run(study)
    assert stale(study) == {}
    with flipped(table, 5), flipped(drop.record(study), 999):
        assert stale(study, deep=True) == {
            "table table3": f"{table} has changed",
            "figure drop": "its record is damaged",
        }
    assert stale(study) == {}
    # Records of earlier versions: what they tell of masks and durations still serves.
    seals = (json_checksum.SEAL, json_checksum.SEALED)
    kept = {k: v for k, v in records.read(drop.record(study)).items() if k not in seals}
    write_json(drop.record(study), kept)
    assert records.read(drop.record(study)) == kept
    assert records.read_current(study, drop) == {}
    assert stale(study) == {"figure drop": "its record has no checksum of itself"}


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
def edited(study: Study, monkeypatch: pytest.MonkeyPatch) -> Study:
    """And then the code of one of its losses was edited."""
    before = code.fingerprint
    loss = plugins.load("losses", "arcface").__name__
    monkeypatch.setattr(code, "fingerprint", lambda *names: before(*names)[loss in names :])
    return study


@pytest.mark.parametrize("was_settled", [False, True])
def test_what_earlier_code_made_is_accepted_with_all_that_follows(
    edited: Study, tmp_path: Path, was_settled: bool
) -> None:
    assert TRAIN in {f.node.label for f in freshness.examine(edited) if f.state == "stale"}
    if was_settled:
        freshness.settle(edited)
    lines = freshness.accept(edited)
    assert f"accepted: {TRAIN}" in lines
    assert "accepted: train squares/pixels/contrastive/plain/seed0" not in lines
    assert {f.state for f in freshness.examine(edited)} == {"current"}
    record = records.read(node_of(edited, TRAIN).record(edited))
    (entry,) = record["accepted"]
    assert entry["instead_of"] != record["digest"]
    assert not list(tmp_path.rglob("*.stale"))
    assert freshness.accept(edited) == []


def test_what_was_edited_since_it_was_made_or_other_settings_made_is_not_accepted(
    edited: Study, raw: dict[str, Any]
) -> None:
    node = node_of(edited, TRAIN)
    model, path = node.outputs(edited)["model"], node.record(edited)
    whole, certified = model.read_bytes(), path.read_bytes()
    model.write_bytes(whole[:-1] + b"x")
    assert not any("arcface/plain/seed0" in line for line in freshness.accept(edited))
    model.write_bytes(whole)
    unsealed = {k: v for k, v in json.loads(certified).items() if not k.startswith("record_")}
    path.write_text(json.dumps(unsealed))
    assert not any("arcface/plain/seed0" in line for line in freshness.accept(edited))
    assert TRAIN in stale(edited)
    path.write_bytes(certified)
    raw["losses"]["arcface"]["default"]["margin"] += 1
    other = load(Path(), raw)
    assert not any("arcface" in line for line in freshness.accept(other))
    assert TRAIN in stale(other)
