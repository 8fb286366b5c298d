"""Several models on the same photos: one command, finished audits, and a leaderboard of many."""

from __future__ import annotations

import base64
import io
import json
import shutil
import subprocess
from pathlib import Path

import chromium
import pandas as pd
import pytest
from single_page import Reader, accessible, printed_whole, shown_whole

import bgbias
from bgbias.auditing.comparison import compare, group, read, render
from bgbias.errors import UserError
from bgbias.models import adapters
from tests.support import commands, toy_folder

MODELS = """
def colours(batch):
    return [photo.reshape(-1, 3).mean(0) / 255 for photo in batch]


def centre(batch):
    return [photo[24:40, 24:40].reshape(-1, 3).mean(0) / 255 for photo in batch]


def breaking(batch):
    if len(batch) > 8:
        raise ValueError("no memory of this")
    return colours(batch)
"""
HOW = ["photos", "--masks", "masks", "--backgrounds", "walls", "--draws", "2", "--attribution", "4"]
HOW += ["--size", "64", "--resize", "64"]


def of(*names: str) -> list[str]:
    return [word for name in names for word in ("--model", f"mine.py:{name}")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("several")
    toy_folder.made(folder, classes=6, per_class=6)
    (folder / "mine.py").write_text(MODELS)
    return folder


@pytest.fixture(scope="module")
def made(place: Path) -> subprocess.CompletedProcess[str]:
    return commands.bgbias(place, "audit", *HOW, *of("colours", "breaking", "centre"), "--references")


def test_one_that_fails_is_named_and_the_others_are_compared(
    place: Path, made: subprocess.CompletedProcess[str]
) -> None:
    assert made.returncode == 2
    assert "mine.py:breaking failed, and the others go on" in made.stderr
    assert made.stderr.strip().splitlines()[-1].startswith("bgbias: Of 4 models failed: mine.py:breaking.")
    found = json.loads((place / "audit/comparison.json").read_text())
    assert {row["model"] for row in found["models"]} == {
        "mine.py:colours",
        "mine.py:centre",
        "reference:colours",
    }
    assert found["choice"]["best"] in made.stdout.splitlines()[0]
    # What each of them is by itself.
    for row in found["models"]:
        alone = bgbias.Audit.load(place / "audit" / row["model"].replace(":", "-"))
        assert row["clean"] == pytest.approx(
            alone.estimate("levels", setting="query", condition="clean", metric="map_at_r").value
        )
        assert row["drop"] == pytest.approx(alone.drop.value)
        assert row["drop_low"] == pytest.approx(alone.drop.low)
        for step in ("pasting", "own_background", "class_background"):
            assert row[step] == pytest.approx(alone.estimate("steps", setting="query", step=step).value)


def test_references_guess_nothing(place: Path) -> None:
    assert adapters.load(f"{place}/mine.py:colours").guesses
    histogram = adapters.load("reference:colours")
    assert (histogram.guesses, histogram.alternatives) == ((), {})


def test_the_same_command_computes_what_is_missing_alone(
    place: Path, made: subprocess.CompletedProcess[str], tmp_path: Path
) -> None:
    for name in ("photos", "masks", "walls", "audit"):
        shutil.copytree(place / name, tmp_path / name)
    shutil.copy(place / "mine.py", tmp_path)
    shutil.rmtree(tmp_path / "audit/mine.py-centre")
    again = commands.bgbias(tmp_path, "audit", *HOW, *of("colours", "centre"))
    assert again.returncode == 0, again.stderr
    assert "audit/mine.py-colours has this audit already" in again.stderr
    assert "audit/mine.py-centre has this audit already" not in again.stderr
    assert (tmp_path / "audit/mine.py-centre/audit.html").is_file()


def test_finished_audits_are_compared_as_those_of_one_command(
    place: Path, made: subprocess.CompletedProcess[str]
) -> None:
    folders = [f"audit/mine.py-{name}" for name in ("colours", "centre")] + ["audit/reference-colours"]
    done = commands.bgbias(place, "compare", *folders, "--out", "afterwards")
    assert done.returncode == 0, done.stderr
    for name in ("comparison.json", "models.csv", "pairs.csv"):
        assert (place / "afterwards" / name).read_text() == (place / "audit" / name).read_text()


def test_audits_of_other_photos_or_backgrounds_are_refused_with_the_reason(
    place: Path, made: subprocess.CompletedProcess[str]
) -> None:
    changed = ["--draws", "3", "--attribution", "0", "--out", "other"]
    assert commands.bgbias(place, "audit", *HOW, *of("colours"), *changed).returncode == 0
    done = commands.bgbias(place, "compare", "audit/mine.py-centre", "other")
    assert done.returncode == 2
    assert "cannot be compared: their backgrounds a photo differ" in done.stderr
    lone = commands.bgbias(place, "compare", "audit/mine.py-centre")
    assert lone.returncode == 2
    assert "There is one audit" in lone.stderr
    empty = commands.bgbias(place, "compare", "audit/mine.py-centre", "walls")
    assert empty.returncode == 2
    assert "walls holds no audit" in empty.stderr


def test_a_leaderboard_joins_what_is_alike_and_keeps_the_rest_apart(
    place: Path, made: subprocess.CompletedProcess[str]
) -> None:
    groups = group(read([place / "other", *(place / "audit").glob("*-co*")]))
    assert [sorted(some.audits) for some in groups] == [
        ["mine.py:colours (other)"],
        ["mine.py:colours (mine.py-colours)", "reference:colours"],
    ]
    done = commands.bgbias(place, "leaderboard", "audit", "other", "--out", "board.html")
    assert done.returncode == 0, done.stderr
    page = Reader.of(place / "board.html")
    assert not page.wrong
    assert page.text.count("Would other classes order") == 0


def test_an_audit_that_would_replace_another_ones_says_so(
    place: Path, made: subprocess.CompletedProcess[str], tmp_path: Path
) -> None:
    for name in ("photos", "masks", "walls"):
        shutil.copytree(place / name, tmp_path / name)
    shutil.copy(place / "mine.py", tmp_path)
    shutil.copytree(place / "audit/mine.py-colours", tmp_path / "out")
    done = commands.bgbias(tmp_path, "audit", *HOW, *of("centre"), "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "out holds an audit of mine.py:colours on photos, which this one replaces" in done.stderr


def test_python_compares_models_by_name(place: Path, tmp_path: Path) -> None:
    names: dict[str, object] = {}
    exec(MODELS, names)
    found = bgbias.audit(
        place / "photos",
        {"colours": names["colours"], "centre": names["centre"]},
        masks=place / "masks",
        backgrounds=place / "walls",
        draws=2,
        attribution=0,
        size=64,
        resize=64,
        out=tmp_path / "out",
    )
    assert list(found.models["model"]) == sorted(
        found.audits, key=lambda name: -found.models.set_index("model")["changed"][name]
    )
    assert (tmp_path / "out/colours/audit.html").is_file()
    assert found.headline in repr(found)
    assert found.headline in found._repr_html_()


def test_photos_without_classes_cannot_tell_who_finds_more(place: Path, tmp_path: Path) -> None:
    loose = tmp_path / "loose"
    loose.mkdir()
    for number, photo in enumerate(sorted((place / "photos").rglob("*.png"))[:4]):
        shutil.copy(photo, loose / f"{number}.png")
    with pytest.raises(UserError, match="nobody knows which model finds more"):
        bgbias.audit(loose, {"a": toy_colours, "b": toy_colours}, masker="grabcut", size=64, resize=64)


def toy_colours(batch: list) -> list:
    return [photo.mean((0, 1)) for photo in batch]


def test_weights_are_of_one_model(place: Path) -> None:
    done = commands.bgbias(place, "audit", *HOW, *of("colours", "centre"), "--weights", "mine.py")
    assert done.returncode == 2
    assert "--weights is of one model" in done.stderr


def test_the_page_holds_the_numbers_of_the_files_and_needs_no_other(
    place: Path, made: subprocess.CompletedProcess[str]
) -> None:
    page = Reader.of(place / "audit/comparison.html")
    assert not page.wrong
    assert all(address.startswith("data:") for address in page.addresses)
    models = pd.read_csv(place / "audit/models.csv")
    for row in models.to_dict("records"):
        assert f"{100 * row['clean']:.1f}" in page.text
        assert f"{100 * row['changed']:.1f}" in page.text
    text = (place / "audit/comparison.html").read_text()
    _, _, held = text.partition('download="models.csv" href="data:text/csv;base64,')
    csv = base64.b64decode(held.partition('"')[0]).decode()
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(csv)), models)


@pytest.mark.skipif(chromium.PROGRAM is None, reason="there is no Chromium")
def test_a_browser_shows_sorts_and_filters_many_models(
    place: Path, made: subprocess.CompletedProcess[str], tmp_path: Path
) -> None:
    few = compare(read([place / "audit" / f"mine.py-{name}" for name in ("colours", "centre")]))
    some = list(few.audits.values())
    many = compare({f"model {number:02}": some[number % 2] for number in range(30)})
    page = tmp_path / "many.html"
    page.write_text(render([many]), encoding="utf-8")
    with chromium.browsing() as browser:
        for shown in (page, place / "audit/comparison.html"):
            shown_whole(browser, shown)
            accessible(browser, shown)
        printed_whole(browser, place / "audit/comparison.html")
        browser.open(page.as_uri())
        browser.wait_for("document.querySelector('footer')")
        rows = "document.querySelector('.compared table').tBodies[0].rows"
        for first in ("model 00", "model 29"):
            browser.ask("document.querySelector('.compared th button').click()")
            assert browser.ask(f"{rows}[0].cells[0].dataset.value") == first
        browser.ask(
            "const f = document.querySelector('input.filter'); f.value = '07';"
            " f.dispatchEvent(new Event('input'))"
        )
        assert browser.ask(f"[...{rows}].filter(row => !row.hidden).length") == 1


def test_saved_embeddings_are_read_by_another_audit(place: Path) -> None:
    kept = [*HOW, *of("colours"), "--out", "saved", "--save-embeddings", "kept"]
    assert commands.bgbias(place, "audit", *kept).returncode == 0
    files = ["--embeddings", "kept/clean.npy", "kept/views.npz", "--draws", "2", "--out", "reread"]
    shown = HOW[: HOW.index("--draws")]
    done = commands.bgbias(place, "audit", *shown, *files)
    assert done.returncode == 0, done.stderr
    saved, reread = (bgbias.Audit.load(place / name) for name in ("saved", "reread"))
    assert reread.name == saved.name
    assert (reread.drop, reread.numbers["steps"]) == (saved.drop, saved.numbers["steps"])
