"""Several models on the same photos: one command, finished audits, and a leaderboard of many."""

import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chromium
import pytest
from single_page import Reader, accessible, printed_whole, shown_whole

import bgbias
from bgbias.auditing import request, workdir
from bgbias.auditing.comparison import compare, group, read, render
from bgbias.errors import UserError
from tests.auditing import conftest
from tests.support import commands

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
HOW = ["photos", *conftest.HOW, "--draws", "2", "--attribution", "0"]
Done = subprocess.CompletedProcess[str]


def of(*names: str) -> list[str]:
    return [word for name in names for word in ("--model", f"mine.py:{name}")]


@pytest.fixture(scope="module")
def place(toys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(toys, tmp_path_factory.mktemp("several") / "hers"))
    (folder / "mine.py").write_text(MODELS)
    return folder


@pytest.fixture(scope="module")
def made(place: Path) -> Done:
    return commands.bgbias(place, "audit", *HOW, *of("colours", "breaking", "centre"), "--references")


@pytest.fixture(scope="module")
def other(place: Path, made: Done) -> Path:
    """An audit of three backgrounds a photo, instead of two."""
    folder = Path(shutil.copytree(place / "audit/mine.py-colours", place / "other/mine.py-colours"))
    told = (folder / "audit.json").read_text()
    (folder / "audit.json").write_text(told.replace('"draws": 2', '"draws": 3'))
    return folder


def test_one_that_fails_is_named_and_the_others_are_compared(place: Path, made: Done) -> None:
    assert made.returncode == 2
    assert "mine.py:breaking failed, and the others go on" in made.stderr
    assert made.stderr.strip().splitlines()[-1].startswith("bgbias: Of 4 models failed: mine.py:breaking.")
    found = json.loads((place / "audit/comparison.json").read_text())
    names = {"mine.py:colours", "mine.py:centre", "reference:colours"}
    assert {row["model"] for row in found["models"]} == names
    assert found["choice"]["best"] in made.stdout.splitlines()[0]
    # What each of them is by itself.
    for row in found["models"]:
        alone = bgbias.Audit.load(place / "audit" / row["model"].replace(":", "-"))
        clean = alone.estimate("levels", setting="query", condition="clean", metric="map_at_r")
        assert row["clean"] == pytest.approx(clean.value)
        assert (row["drop"], row["drop_low"]) == pytest.approx((alone.drop.value, alone.drop.low))
        for step in ("pasting", "own_background", "class_background"):
            assert row[step] == pytest.approx(alone.estimate("steps", setting="query", step=step).value)


def test_the_same_command_computes_what_is_missing_alone(place: Path, made: Done, tmp_path: Path) -> None:
    folder = shutil.copytree(place, tmp_path / "again")
    shutil.rmtree(folder / "audit/mine.py-centre")
    again = commands.bgbias(folder, "audit", *HOW, *of("colours", "centre"))
    assert again.returncode == 0, again.stderr
    assert "audit/mine.py-colours has this audit already" in again.stderr
    assert "audit/mine.py-centre has" not in again.stderr
    assert (folder / "audit/mine.py-centre/audit.json").is_file()
    # References, which lose more than a fifth, are neither what fails nor what is chosen.
    done = commands.bgbias(folder, "audit", *HOW, *of("centre"), "--references", "--fail-above", "20")
    assert done.returncode == 0, done.stderr
    done = commands.bgbias(folder, "audit", *HOW, *of("breaking"), "--references")
    assert "bgbias: mine.py:breaking fails on" in done.stderr


def test_models_in_files_of_one_name_have_folders_of_their_own() -> None:
    names = {"a-m.pt": "/a/m.pt", "b-m.pt": "/b/m.pt", "n.pt": "/a/n.pt", "timm-x": "timm:x"}
    assert workdir.name_folders([*names.values()]) == names
    with pytest.raises(UserError, match="The models 'm 1' and 'm/1' have one name"):
        workdir.name_folders(["m 1", "m/1"])


def test_finished_audits_are_compared_as_those_of_one_command(place: Path, made: Done) -> None:
    folders = [f"audit/mine.py-{name}" for name in ("colours", "centre")] + ["audit/reference-colours"]
    done = commands.bgbias(place, "compare", *folders, "--out", "afterwards")
    assert done.returncode == 0, done.stderr
    for name in ("comparison.json", "models.csv", "pairs.csv"):
        assert (place / "afterwards" / name).read_text() == (place / "audit" / name).read_text()


def test_audits_of_other_photos_or_backgrounds_are_refused_with_the_reason(place: Path, other: Path) -> None:
    for folders, said in (
        (["other/mine.py-colours"], "cannot be compared: their backgrounds a photo differ"),
        ([], "There is one audit"),
        (["walls"], "walls holds no audit"),
    ):
        done = commands.bgbias(place, "compare", "audit/mine.py-centre", *folders)
        assert done.returncode == 2
        assert said in done.stderr
    loose: Any = SimpleNamespace(collection=SimpleNamespace(labelled=False, name="loose"))
    with pytest.raises(UserError, match="nobody knows which model finds more"):
        request.audit_each(loose, {}, place)


def test_a_leaderboard_joins_what_is_alike_and_keeps_the_rest_apart(place: Path, other: Path) -> None:
    groups = group(read([other, *(place / "audit").glob("*-co*")]))
    assert [sorted(some.audits) for some in groups] == [
        ["mine.py:colours (other/mine.py-colours)"],
        ["mine.py:colours (audit/mine.py-colours)", "reference:colours"],
    ]
    assert groups[1].headline in repr(groups[1])
    assert groups[1].headline in groups[1]._repr_html_()
    done = commands.bgbias(place, "leaderboard", "audit", "walls")
    assert "walls holds no audit" in done.stderr
    done = commands.bgbias(place, "leaderboard", "audit", "other", "--out", "board.html")
    assert done.returncode == 0, done.stderr
    page = Reader.of(place / "board.html")
    assert page.wrong == []
    assert all(address.startswith("data:") for address in page.addresses)
    for audit in groups[1].audits.values():
        assert f"{100 * audit.drop.value:.1f}" in page.text


@pytest.mark.skipif(chromium.PROGRAM is None, reason="there is no Chromium")
def test_a_browser_shows_sorts_and_filters_many_models(place: Path, made: Done, tmp_path: Path) -> None:
    few = compare(read([place / "audit" / f"mine.py-{name}" for name in ("colours", "centre")]))
    some = list(few.audits.values())
    many = compare({f"model {number:02}": some[number % 2] for number in range(30)})
    page = tmp_path / "many.html"
    page.write_text(render([many]), encoding="utf-8")
    with chromium.browsing() as browser:
        shown_whole(browser, page)
        accessible(browser, page)
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
