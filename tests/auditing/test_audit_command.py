"""The command on a person's folder: a verdict, files and a page that say the same, pictures for models elsewhere."""

import doctest
import json
import re
import shutil
from pathlib import Path
from typing import Any

import chromium
import numpy as np
import pandas as pd
import pytest
from PIL import Image
from saliency_graphs import graph
from single_page import Reader, accessible, printed_whole, shown_whole

import bgbias
from bgbias.auditing import backgrounds, workdir
from bgbias.errors import UserError
from bgbias.report import html
from tests.auditing.conftest import HOW, Audited
from tests.support import commands, toy_folder

MINE = ["--model", "my_model.py:build"]


@pytest.fixture(scope="module")
def told(audited: Audited) -> Any:
    """What the audit says to programs."""
    return json.loads((audited.out / "audit.json").read_text())


def test_the_terminal_the_json_and_the_tables_say_the_same(toys: Path, audited: Audited, told: Any) -> None:
    out, text = audited
    (guess,) = told["model"]["guesses"]
    assert text.splitlines()[:2] == [told["verdict"], guess]
    assert text == (out / "verdict.txt").read_text()
    drop = {(row["setting"], row["unit"]): row for row in told["drop"]}
    assert f"MAP@R falls by {100 * drop['query', 'relative']['value']:.0f} %" in told["verdict"]
    classes, photos = pd.read_csv(out / "classes.csv"), pd.read_parquet(out / "photos.parquet")
    assert len(classes) == toy_folder.CLASSES
    assert f"{told['classes_losing_half']} of {len(classes)} classes" in told["verdict"]
    assert len(photos) == toy_folder.CLASSES * toy_folder.PER_CLASS == told["photos"]["photos"]
    assert photos["lost"].mean() == pytest.approx(drop["query", "points"]["value"], abs=1e-12)
    *steps, together = (row["value"] for row in told["steps"] if row["setting"] == "query")
    assert sum(steps) == pytest.approx(together, abs=1e-12)
    # Photos stand in front of their class's scene nine times in ten, and the model sees colours alone.
    assert drop["query", "relative"]["low"] > 0.1
    assert abs(steps[0]) < 0.1, "pasting"
    assert told["shares_of_variance"]["background"] > 0.3
    assert told["schema"] == 1
    # Photos are not written to, and nothing unfinished is left.
    assert {p.suffix for p in (toys / "photos").rglob("*") if p.is_file()} == {".png"}
    names = set(workdir.WRITTEN) - {"doubtful.jpg"}
    assert {p.name for p in audited.out.iterdir()} == names | {"audit.json", ".finished.npz", ".lock"}


def test_the_page_has_the_numbers_of_the_json_its_pictures_and_links(audited: Audited, told: Any) -> None:
    page = audited.out / "audit.html"
    read, source = Reader.of(page), page.read_text(encoding="utf-8")
    text = read.text

    def percent(row: Any) -> str:
        ends = f" [{100 * row['low']:.1f}, {100 * row['high']:.1f}]" if row["low"] is not None else ""
        return f"{100 * row['value']:.1f}{ends}".replace("-", "−")

    of_retrieval = [row for row in told["levels"] if row["metric"] == "map_at_r"]
    for row in (*told["steps"], *told["drop"], *of_retrieval, *told["thirds"], told["background_alone"]):
        assert percent(row) in text
    assert told["verdict"] in text
    (guess,) = told["model"]["guesses"]
    assert f"Check first: {guess}" in text
    assert f"What to do {guess}" in text
    paragraph = text.partition("Following Kobs & Hotho (2022)")[2].partition("Settings")[0]
    assert f"onto {told['asked']['draws']} random backgrounds each" in paragraph
    assert f"{told['model']['name']} ({told['model']['dim']} dimensions)" in paragraph
    # It is well-formed, and its links lead to its sections and to the files beside it.
    assert (read.wrong, read.open) == ([], [])
    assert "<script>alert(1)<" in "".join(read.words), "the name of a class"
    assert read.addresses
    assert all(address.startswith("data:") for address in read.addresses)
    headings = re.findall(r'<h2 id="([^"]+)">(.*?)</h2>', source)
    contents = source[source.index("<nav") : source.index("</nav>")]
    assert re.findall(r'<a href="#([^"]+)">(.*?)</a>', contents) == headings
    files = re.findall(r'<a href="([^"#]+)">', source)
    assert set(files) == {file.name for file in audited.out.iterdir() if file.name[0] != "."} - {page.name}


@pytest.mark.skipif(chromium.PROGRAM is None, reason="Chromium is not installed")
def test_a_browser_shows_all_of_the_page(audited: Audited) -> None:
    page = audited.out / "audit.html"
    with chromium.browsing() as browser:
        accessible(browser, page)
        shown_whole(browser, page)
        printed_whole(browser, page)
        flipped = (
            "(() => { const card = document.querySelector('.card button.flip').closest('.card');"
            " card.querySelector('button').click();"
            " return [...card.querySelectorAll('[data-view]')].map(p => p.hidden); })()"
        )
        assert [browser.ask(flipped) for _ in range(2)] == [[True, False], [False, True]]
        lost = (
            "(() => { const head = [...document.querySelectorAll('th')].find(h => h.innerText === 'lost');"
            " head.querySelector('button').click();"
            " return [...head.closest('table').tBodies[0].rows].map(r => +r.children[4].dataset.value); })()"
        )
        once = browser.ask(lost)
        assert once == sorted(once)
        assert browser.ask(lost) == once[::-1]
        assert browser.errors == []


def test_pages_keep_no_folders_of_a_disk_and_lack_no_value() -> None:
    with pytest.raises(Exception, match="undefined"):
        html.render("audit.html", {})
    names = ("/my models/mine.py:build", "timm:resnet50", "facebook/dinov2-small")
    assert [*map(workdir.strip_folders, names)] == ["mine.py:build", *names[1:]]
    typed = "bgbias audit /photos/shop '--masks=/my photos/masks' --model my/model.py:build"
    assert workdir.strip_command(typed) == "bgbias audit shop --masks=masks --model my/model.py:build"


def test_embeddings_that_were_made_elsewhere_give_the_same_numbers(place: Path, told: Any) -> None:
    how = [*HOW, "--draws", "2"]
    done = commands.bgbias(place, "audit", "photos", "--export", "views", *how)
    assert done.returncode == 0, done.stderr
    arrays = {}
    for folder in (place / "views").glob("*-*"):
        pictures = np.stack([np.asarray(Image.open(file)) for file in sorted(folder.iterdir())])
        # What the model in the file does, by itself: sixteen mean colours, after ImageNet's normalisation.
        seen = (pictures / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
        arrays[folder.name] = seen.reshape(-1, 4, 16, 4, 16, 3).mean((2, 4)).reshape(len(seen), -1)
    np.save(place / "clean.npy", arrays.pop("clean-0"))
    np.savez(place / "others.npz", **arrays, names=np.array(["a", "b"]))
    embedded = ["--embeddings", "clean.npy", "others.npz", "--out", "elsewhere"]
    done = commands.bgbias(place, "audit", "photos", *embedded, *how)
    assert done.returncode == 0, done.stderr
    there = json.loads((place / "elsewhere/audit.json").read_text())
    for part in ("drop", "steps", "levels"):
        for ours, theirs in zip(told[part], there[part], strict=True):
            assert theirs["value"] == pytest.approx(ours["value"], abs=1e-9), (ours, theirs)


def test_the_example_in_python_is_true(toys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BGBIAS_CACHE", str(tmp_path))
    monkeypatch.setattr(backgrounds, "DRAWN", {"gradients": 6})
    monkeypatch.chdir(toys)
    (example,) = doctest.DocTestFinder().find(bgbias.audit, "audit", globs={"bgbias": bgbias})
    assert doctest.DocTestRunner().run(example) == (0, 4)


def test_without_classes_there_is_what_needs_none_in_place_of_an_audit(place: Path, audited: Audited) -> None:
    """With masks of a graph, and of a function, which has no gradients."""
    shutil.copytree(audited.out, place / "before")
    (place / "loose").mkdir()
    for number, photo in enumerate(sorted((place / "photos").rglob("*.png"))[::5]):
        shutil.copy(photo, place / "loose" / f"{number}.png")
    how = ["--masker", "isnet", "--mask-weights", str(graph(place / "net.onnx")), *HOW[2:]]
    again = ["loose", "--model", "my_model.py:pictures", *how, "--attribution", "1", "--draws", "1"]
    done = commands.bgbias(place, "audit", *again, "--out", "before")
    assert done.returncode == 0, done.stderr
    told = json.loads((place / "before/audit.json").read_text())
    assert told["drop"] is None
    assert 0 < told["embedding_shift"]["random_background"] < 1
    assert sum(told["shares_of_variance"].values()) == pytest.approx(1)
    assert "Without classes" in told["verdict"]
    assert told["attribution"]["how"] == "occlusion"
    page = (place / "before/audit.html").read_text(encoding="utf-8")
    assert "Attribution is by occlusion" in page
    left = {"audit.json", *told["files"], ".finished.npz", ".lock"}
    assert {p.name for p in (place / "before").iterdir()} == left
    (place / "before/classes.csv").write_text("hers")
    with pytest.raises(UserError, match=r"classes\.csv is of no audit"):
        workdir.check(place / "before", None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["photos"], "takes one of --model SPEC"),
        # The photos are looked for before the model is.
        (["nowhere", "--model", "my_model.py:missing"], "called nowhere"),
        (["photos", "--embeddings", "no.npy", "no.npz"], "There is no file no.npy"),
        (["nowhere", *MINE, "--mean", ".5,.5,.5", "--std=.5,.5,.5"], "called nowhere"),  # commas are read
        (["photos", "--export", "x", "--fail-above", "3"], "--out means nothing to --export"),
        (["photos", *MINE, "--fail-above", "nan"], "--fail-above is nan"),
        (["photos", *MINE, "--backgrounds", "nowhere"], "no backgrounds at nowhere"),
        (["photos", *MINE, "--model", "my_model.py:pictures", "--weights", "a"], "--weights is of one model"),
        (["photos", *MINE, "--sample", "15", "--fail-above", "50"], "--fail-above cannot tell"),
        (["photos", *MINE, "--out", "photos/audit"], "lies inside the photos"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_made(toys: Path, arguments: list[str], words: str) -> None:
    done = commands.bgbias(toys, "audit", "--out", "refused", "--backgrounds", "walls", *arguments)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert not (toys / "refused").exists()


@pytest.mark.parametrize(
    ("check", "name", "words"),
    [
        (workdir.check, "audit.json", "audit.json is of no audit and would be replaced"),
        (workdir.check_export, "photos.csv", "photos.csv is of no export.*--export"),
        (workdir.check_export, "question.json", "question.json is of no export"),
        (workdir.check_export, "a-b/c.png", "a-b is of no export"),
    ],
)
def test_files_of_somebody_else_are_not_replaced(tmp_path: Path, check: Any, name: str, words: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text('{"schema": "hers"}')
    with pytest.raises(UserError, match=words):
        check(tmp_path, None)


# -- photos as people have them: each ends in a verdict or a clear reason -----------------------------------------------


def audited_from_python(place: Path, **how: Any) -> bgbias.Audit:
    """Of the photos as they lie there, unless others are named."""
    small = {"size": 64, "resize": 64, "attribution": 0, "draws": 1, "backgrounds": place / "walls"}
    usual = {"photos": place / "photos", "masks": place / "masks", "model": f"{place}/my_model.py:build"}
    return bgbias.audit(**usual | small | how)  # type: ignore[call-overload, no-any-return]


def test_two_classes_one_of_whose_photos_is_broken_say_that_they_say_little(place: Path) -> None:
    """There are no intervals: no field is marked, and nothing is called chance. Nor does a masker that knows no doubt, as
    GrabCut, vouch for anything.
    """
    for folder in sorted((place / "photos").iterdir())[2:]:
        shutil.rmtree(folder)
    broken = min((place / "photos").rglob("*.png"))
    broken.write_bytes(broken.read_bytes()[:60])
    found = audited_from_python(place, masks=None, masker="grabcut", out=place / "out")
    assert (found.numbers["photos"]["photos"], found.numbers["photos"]["left_out"]) == (9, 1)
    assert np.isfinite([found.drop.value, found.drop.low]).tolist() == [True, False]
    page = (place / "out/audit.html").read_text(encoding="utf-8")
    for said in (
        "cannot be tested, for too few classes",
        "the drop cannot be tested",
        "is in doubt of no pixel",
    ):
        assert said in page
    for unsaid in ('class="here"', "Significant where", "jackknife", "have a clear mask"):
        assert unsaid not in page


def test_blank_masks_and_constant_models_are_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for mask in (place / "masks").rglob("*.png"):
        Image.new("L", (64, 64)).save(mask)
    with pytest.raises(UserError, match=r"empty mask: 30.*by masker=.*by masks="):
        audited_from_python(place)
    monkeypatch.setenv("BGBIAS_CACHE", str(place / "cache"))
    # Before masks are made.
    with pytest.raises(UserError, match="same vector"):
        audited_from_python(place, model=lambda b: np.zeros((len(b), 3)), masks=None, masker="grabcut")
    assert not (place / "cache").exists()


def test_queries_are_asked_among_the_gallery_alone(toys: Path) -> None:
    files = sorted((toys / "photos").rglob("*.png"))
    masks = [toys / "masks" / file.relative_to(toys / "photos") for file in files]
    rows = pd.DataFrame({"path": files, "class": [file.parent.name for file in files], "mask": masks})
    rows["part"] = ["query" if path.name < "001" else "gallery" for path in rows["path"]]
    found = audited_from_python(toys, photos=rows, masks=None)
    vectors = bgbias.embed(f"{toys}/my_model.py:build", files, size=64, resize=64)
    names, asked = rows["class"].to_numpy(), (rows["part"] == "query").to_numpy()
    ranked = bgbias.rank(vectors[asked], names[asked], vectors[~asked], names[~asked])
    of_photos = found.to_frame().set_index("class_name")["map_at_r_clean"].dropna()
    assert of_photos[names[asked]].tolist() == pytest.approx(ranked.metrics["map_at_r"].tolist(), abs=1e-6)
