"""The page of an audit: its numbers are those of audit.json, it needs no network, and a browser shows all of it."""

from __future__ import annotations

import base64
import io
import json
import math
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import chromium
import numpy as np
import pandas as pd
import pytest
from PIL import Image
from single_page import Reader, accessible, printed_whole, shown_whole

import bgbias
from bgbias.auditing import findings, slices, workplace, written
from bgbias.auditing import page as audit_page
from bgbias.auditing.preparations import PreparationTrial
from bgbias.report import html
from bgbias.results.uncertainty import Estimate
from tests.support import toy_folder

BOX = 64


def colours(batch: list[np.ndarray]) -> list[np.ndarray]:
    return [photo.mean((0, 1)) for photo in batch]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    toy_folder.made(folder, classes=6, per_class=6)
    hostile = folder / "photos" / "<script>alert(1)<"
    next(f for f in sorted((folder / "photos").iterdir())).rename(hostile)
    return folder


@pytest.fixture(scope="module")
def page(place: Path) -> Path:
    bgbias.audit(
        place / "photos", colours, out=place / "out", masker="grabcut", size=BOX, resize=BOX, attribution=12
    )
    return place / "out" / "audit.html"


@pytest.fixture(scope="module")
def read(page: Path) -> Reader:
    return Reader.of(page)


def test_the_page_says_the_numbers_of_the_json(page: Path, read: Reader) -> None:
    told = json.loads((page.parent / "audit.json").read_text())
    text = read.text
    assert told["verdict"] in text
    for row in told["steps"]:
        said = ", ".join(f"{100 * row[end]:.1f}".replace("-", "−") for end in ("low", "high"))
        assert f"{100 * row['value']:.1f} [{said}]".replace("-", "−") in text
    for row in told["drop"]:
        said = ", ".join(f"{100 * row[end]:.1f}" for end in ("low", "high"))
        assert f"{100 * row['value']:.1f} [{said}]".replace("-", "−") in text
    paragraph = text.partition("Following Kobs & Hotho (2022)")[2].partition("Settings")[0]
    assert f"in front of {told['asked']['draws']} random backgrounds each" in paragraph
    assert f"{told['model']['name']} ({told['model']['dim']} dimensions)" in paragraph
    alone = told["background_alone"]
    assert f"{100 * alone['value']:.1f} [{100 * alone['low']:.1f}, {100 * alone['high']:.1f}]" in text
    if (rho := told["attribution"]["rank_correlation_with_loss"]) is not None:
        assert f"Rank correlation {rho:.2f} over".replace("-", "−") in text
    for third in told["thirds"]:
        ends = f" [{100 * third['low']:.1f}" if third["low"] is not None else ""
        assert f"{100 * third['value']:.1f}{ends}".replace("-", "−") in text
    for row in told["levels"]:
        if row["metric"] == "map_at_r":
            said = ", ".join(f"{100 * row[end]:.1f}" for end in ("low", "high"))
            assert f"{100 * row['value']:.1f} [{said}]" in text


def test_it_is_well_formed_and_names_of_classes_are_words(page: Path, read: Reader) -> None:
    assert read.wrong == []
    assert read.open == []
    assert "<script>alert(1)<" in "".join(read.words)
    assert "<script>alert(1)" not in page.read_text(encoding="utf-8")


def test_all_pictures_are_inside(read: Reader) -> None:
    assert read.addresses
    for address in read.addresses:
        assert address.startswith("data:")
        if found := re.fullmatch(r"data:image/jpeg;base64,(.+)", address):
            with Image.open(io.BytesIO(base64.b64decode(found[1]))) as picture:
                assert picture.width > 8


def test_a_page_of_ten_thousand_photos_stays_below_ten_megabytes(page: Path, tmp_path: Path) -> None:
    """Cards and portraits have a most, so that a page grows by rows of its table alone: here it is taken to grow for ever as fast
    as it does while portraits, too, are added.
    """
    toy_folder.made(tmp_path, classes=12, per_class=12)
    bgbias.audit(
        tmp_path / "photos",
        colours,
        masks=tmp_path / "masks",
        out=tmp_path / "out",
        size=BOX,
        resize=BOX,
        attribution=8,
    )
    few, more = 6 * 6, 12 * 12
    size = (tmp_path / "out" / "audit.html").stat().st_size
    each = (size - page.stat().st_size) / (more - few)
    assert 0 < size + each * (10_000 - more) < 10e6


def test_the_same_question_has_the_same_page(place: Path, page: Path) -> None:
    bgbias.audit(
        place / "photos", colours, out=place / "again", masker="grabcut", size=BOX, resize=BOX, attribution=12
    )
    assert (place / "again" / "audit.html").read_bytes() == page.read_bytes()


def test_a_value_that_is_not_given_is_an_error() -> None:
    with pytest.raises(Exception, match="undefined"):
        html.render("audit.html", {})


@pytest.mark.skipif(chromium.PROGRAM is None, reason="Chromium is not installed")
def test_a_browser_shows_all_of_it(page: Path) -> None:
    with chromium.browsing() as browser:
        accessible(browser, page)
        shown_whole(browser, page)
        printed_whole(browser, page)
        flipped = (
            "(() => { const card = document.querySelector('.card button.flip').closest('.card');"
            " card.querySelector('button').click();"
            " return [...card.querySelectorAll('[data-view]')].map(p => p.hidden); })()"
        )
        assert browser.ask(flipped) == [True, False]
        assert browser.ask(flipped) == [False, True]
        lost = (
            "(() => { const head = [...document.querySelectorAll('th')].find(h => h.innerText === 'lost');"
            " head.querySelector('button').click();"
            " return [...head.closest('table').tBodies[0].rows].map(r => +r.children[4].dataset.value); })()"
        )
        once = browser.ask(lost)
        assert once == sorted(once)
        assert browser.ask(lost) == once[::-1]
        assert browser.errors == []


@pytest.mark.parametrize(
    ("relative", "points", "classes", "told"),
    [
        (Estimate(0.5, 0.3, 0.7), Estimate(0.2, 0.1, 0.3), 9, ""),
        (Estimate(0.5, -0.1, 1.1), Estimate(0.2, -0.1, 0.5), 9, ", which may be chance"),
        (Estimate(-0.5, -0.7, -0.3), Estimate(-0.2, -0.3, -0.1), 9, ""),
        (
            Estimate(0.68, 0.29, 1.07),
            Estimate(0.043, -0.021, 0.107),
            81,
            "; in points it is 4.3 [−2.1, 10.7], which may be chance: a few classes have most of what can be lost",
        ),
        (Estimate(0.5), Estimate(0.2), 4, "; with fewer than 5 classes there is no interval"),
        (Estimate(0.5), Estimate(0.2), 5, "; no interval can be had"),
    ],
)
def test_a_verdict_says_what_may_be_chance(
    relative: Estimate, points: Estimate, classes: int, told: str
) -> None:
    assert written._by_chance(relative, points, classes) == told


@pytest.mark.parametrize(("classes", "more"), [(4, "more classes"), (8, "four photos of each class")])
def test_what_is_too_few_is_named(classes: int, more: str) -> None:
    level = {"metric": "map_at_r", "setting": "symmetric", "condition": "clean", "value": 0.5}
    drop = {
        "setting": "query",
        "unit": "relative",
        "value": 0.5,
        "low": math.nan,
        "high": math.nan,
        "p": math.nan,
    }
    found = SimpleNamespace(
        levels=pd.DataFrame([level | {"low": math.nan, "high": math.nan}]),
        drops=pd.DataFrame([drop]),
        by_chance=0.1,
        classes=pd.DataFrame({"class_name": map(str, range(classes))}),
    )
    model = SimpleNamespace(guesses=())
    audit: Any = SimpleNamespace(findings=found, model=model, preparations=PreparationTrial())
    (only,) = audit_page.advice(audit)
    assert more in only


def test_a_title_has_no_folders_of_a_disk() -> None:
    names = ("/models/mine.py:build", "mine.py:build", "timm:resnet50", "facebook/dinov2-small")
    assert [*map(workplace.without_folders, names)] == ["mine.py:build", *names[1:]]
    typed = "bgbias audit /photos/shop --masks=/photos/masks --model my/model.py:build"
    shown = "bgbias audit shop --masks=masks --model my/model.py:build"
    assert workplace.without_folders(typed) == shown


def test_the_terminal_prints_no_zero_below_zero() -> None:
    points = pd.Series({"value": -0.0001, "low": -0.0004, "high": 0.07})
    assert written._interval(points) == "0.0 [0.0, 7.0]"


def test_classes_tell_how_many_masks_are_unsure_where_some_are() -> None:
    rows = {"class_name": ["a", "b"], "queries": [12, 9], "clean": [0.5, 0.25], "corrupted": [0.1, 0.2]}
    classes = pd.DataFrame(rows | {"lost": [0.4, 0.05], "sd": [0.1, np.nan], "unsure_masks": [3, 0]})
    head, first, second = (line.split() for line in written._of_classes(classes))
    assert head[-6:] == ["queries", "unsure", "clean", "changed", "lost", "(sd)"]
    assert first == ["a", "12", "3", "50.0", "10.0", "40.0", "(10)"]
    assert second == ["b", "9", "0", "25.0", "20.0", "5.0"]
    head, first, _ = (line.split() for line in written._of_classes(classes.assign(unsure_masks=0)))
    assert head[-5:] == ["queries", "clean", "changed", "lost", "(sd)"]
    assert first == ["a", "12", "50.0", "10.0", "40.0", "(10)"]


def test_what_unsure_masks_do_to_the_drop_is_told() -> None:
    surely = slices.SurelyMasked(193, 20, Estimate(0.159, 0.071, 0.246))
    rows = pd.DataFrame({"class_name": list("abcde"), "queries": 43})
    found = SimpleNamespace(classes=rows, photos=pd.DataFrame({"lost": [0.1] * 213}))
    (said,) = written.evidence(SimpleNamespace(findings=found, usable=(), surely=surely, ties=0))  # type: ignore[arg-type]
    assert said.startswith("20 of 213 have an unclear mask (clarity below 0.85), of which most are wrong")
    assert said.endswith("without them the drop is 16 % [7, 25]; a clear one can be wrong, too")


@pytest.mark.parametrize(
    ("surely", "answer", "many"),
    [
        (
            None,
            "Numbers alone cannot tell. All masks that were made are clear (0.85 or more).",
            False,
        ),
        (
            slices.SurelyMasked(95, 5, Estimate(0.15, 0.05, 0.25)),
            "Numbers alone cannot tell. 95 of 100 queries have a clear mask; of these the drop is 15 % [5, 25]."
            " A loss is shown by these alone.",
            False,
        ),
        (
            slices.SurelyMasked(80, 20, Estimate(0.15, -0.05, 0.35)),
            "In part. 80 of 100 queries have a clear mask; of these the drop is 15 % [-5, 35]. No loss beyond chance is"
            " shown by these alone.",
            True,
        ),
        (
            slices.SurelyMasked(95, 5, Estimate(0.15, 0.05, 0.25), drawn=60),
            "In part. 35 of 40 queries have a clear mask, and 60 are drawn; of these the drop is 15 % [5, 25].",
            True,
        ),
        (
            slices.SurelyMasked(0, 100, Estimate(math.nan)),
            "No. None of 100 queries have a clear mask.",
            True,
        ),
        (
            slices.SurelyMasked(30, 70, Estimate(math.nan)),
            "In part. 30 of 100 queries have a clear mask; these find nothing on photos as they are.",
            True,
        ),
    ],
)
def test_whether_masks_can_be_trusted_is_answered_and_counts(
    surely: slices.SurelyMasked | None, answer: str, many: bool
) -> None:
    drops = pd.DataFrame(
        [{"setting": "query", "unit": "relative", "value": 0.2, "low": 0.1, "high": 0.3, "p": 0.01}]
    )
    found = SimpleNamespace(drops=drops, photos=pd.DataFrame({"lost": [0.1] * 100}))
    qualities = pd.DataFrame({"clarity": [0.95, 0.5]})
    audit: Any = SimpleNamespace(
        surely=surely, findings=found, masker="u2netp", qualities=qualities, better=()
    )
    told = list(audit_page._trusted(audit))
    assert told[0].startswith(answer)
    assert "two in five wrong masks are clear" in told[1]
    assert written.many_unsure(audit) is many
    audit.masker = "2 drawn by hand"
    assert list(audit_page._trusted(audit)) == ["They were drawn by hand, and are taken as right."]


@pytest.mark.parametrize(
    ("low", "answer"), [(-0.02, "No loss beyond chance is shown"), (0.01, "A loss is shown")]
)
def test_a_loss_of_small_masks_alone_is_said_beside_the_drop_and_does_not_count(
    low: float, answer: str
) -> None:
    drops = pd.DataFrame(
        [{"setting": "query", "unit": "relative", "value": 0.2, "low": 0.1, "high": 0.3, "p": 0.01}]
    )
    found = SimpleNamespace(drops=drops, photos=pd.DataFrame({"lost": [0.1] * 100}))
    better = (slices.BetterMasked("area", 67, 0.21, Estimate(0.04, low, 0.1)),)
    qualities = pd.DataFrame({"clarity": [0.95, 0.95]})
    audit: Any = SimpleNamespace(
        surely=None, better=better, findings=found, masker="u2netp", qualities=qualities
    )
    ends = f"{100 * low:.0f}, 10"
    small = (
        "Without the third whose masks are smallest (below 21 % of what the model sees) the drop is"
        f" 4 % [{ends}] (67 queries)."
    )
    assert written.of_better_masks(audit) == [(small, better[0].drop)]
    told = f"{small} {answer} by these alone."
    assert told in list(audit_page._trusted(audit))
    audit.surely = slices.SurelyMasked(50, 50, Estimate(0.15, 0.05, 0.25))
    sure = "50 of 100 queries have a clear mask; of these the drop is 15 % [5, 25]."
    assert [said for said, _ in written.of_better_masks(audit)] == [sure, small]


def test_every_section_is_linked_at_the_top_and_every_file_at_the_end(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r'<h2 id="([^"]+)">(.*?)</h2>', text)
    assert len(headings) > 5
    contents = text[text.index("<nav") : text.index("</nav>")]
    assert re.findall(r'<a href="#([^"]+)">(.*?)</a>', contents) == headings
    files = re.findall(r'<a href="([^"#]+)">', text)
    assert set(files) == {file.name for file in page.parent.iterdir() if file.name[0] != "."} - {page.name}


def test_a_masker_that_knows_no_doubt_vouches_for_nothing(read: Reader) -> None:
    """As GrabCut does."""
    assert "This masker is in doubt of no pixel" in read.text
    assert "have a clear mask" not in read.text


def test_an_option_is_not_parted_at_the_end_of_a_line() -> None:
    said = html.together("<b> 5 [1, 9] % (--squash, --masker birefnet_lite)")
    assert said.startswith(f"&lt;b&gt; 5{html.NO_BREAK}[1,{html.NO_BREAK}9]{html.NO_BREAK}% (")
    assert said.endswith(
        '(<span class="nowrap">--squash</span>, <span class="nowrap">--masker</span> birefnet_lite)'
    )


def test_each_step_of_the_drop_goes_from_one_line_of_the_table_to_the_next() -> None:
    assert tuple(written.shown(["own", "only_bg", *findings.PATH[::-1]])) == (
        *findings.PATH,
        "only_bg",
        "own",
    )


def test_what_cannot_be_tested_is_not_said_to_be_nothing(place: Path, tmp_path: Path) -> None:
    """Of three classes there are no intervals: no field is marked, and nothing is called chance."""
    few = tmp_path / "few"
    for folder in sorted((place / "photos").iterdir())[:3]:
        shutil.copytree(folder, few / folder.name)
    bgbias.audit(few, colours, out=tmp_path / "out", masker="grabcut", size=BOX, resize=BOX, attribution=0)
    text = (tmp_path / "out" / "audit.html").read_text(encoding="utf-8")
    assert 'class="here"' not in text
    assert "neither can be tested" in text
    assert "nobody can tell the drop from chance" in text
    assert "beyond chance:" not in text
    assert "jackknife" not in text


def test_a_cue_conflict_is_seen_beside_that_of_errors_that_fell_on_all_classes_alike() -> None:
    """Of four queries one is right; the other three spread over three other classes: one each, as many as are right."""

    def of(right: float, classes: int) -> float:
        levels = pd.DataFrame(
            {"condition": "mixed_rand", "setting": "query", "metric": "precision_at_1", "value": [right]}
        )
        found = SimpleNamespace(levels=levels, classes=list(range(classes)))
        return written.conflict_of_errors(cast(Any, SimpleNamespace(findings=found)))

    assert of(0.25, 4) == 0.5
    assert of(0.5, 11) == pytest.approx(0.05 / 0.55)
    assert of(1.0, 4) == 0
    assert math.isnan(of(0.5, 1))


@pytest.mark.parametrize(
    ("clean", "chance", "hardly"),
    [
        (0.03, 0.02, True),
        (0.05, 0.02, False),
        (0.34, 0.3, True),  # two classes: twice as much as chance is far more than hardly
        (0.5, 0.3, False),
    ],
)
def test_a_model_that_finds_hardly_more_than_chance_is_asked_for_its_weights(
    clean: float, chance: float, hardly: bool
) -> None:
    level = {"metric": "map_at_r", "setting": "symmetric", "condition": "clean"}
    levels = pd.DataFrame([level | {"value": clean, "low": clean - 0.02, "high": clean + 0.02}])
    drop = {"setting": "query", "unit": "relative", "value": 0.57, "low": -0.21, "high": 1.0, "p": 0.2}
    found = SimpleNamespace(levels=levels, drops=pd.DataFrame([drop]), by_chance=chance)
    model = SimpleNamespace(guesses=())
    audit: Any = SimpleNamespace(findings=found, model=model, preparations=PreparationTrial())
    assert written.hardly_finds(audit) is hardly
    if hardly:
        assert "hardly more than chance" in written.verdict(audit)
        assert "worse" not in written.verdict(audit)
        (only,) = audit_page.advice(audit)
        assert "weights that were not loaded" in only
