"""The page of an audit: its numbers are those of audit.json, it needs no network, and a browser shows all of it."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path

import chromium
import pytest
from PIL import Image
from single_page import Reader, accessible, printed_whole, shown_whole

from bgbias.auditing import workdir
from bgbias.report import html
from tests.auditing.conftest import Audited


@pytest.fixture(scope="module")
def page(audited: Audited) -> Path:
    return audited.out / "audit.html"


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
    assert f"onto {told['asked']['draws']} random backgrounds each" in paragraph
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


def test_a_title_has_no_folders_of_a_disk() -> None:
    names = ("/models/mine.py:build", "mine.py:build", "timm:resnet50", "facebook/dinov2-small")
    assert [*map(workdir.strip_folders, names)] == ["mine.py:build", *names[1:]]
    typed = "bgbias audit /photos/shop --masks=/photos/masks --model my/model.py:build"
    shown = "bgbias audit shop --masks=masks --model my/model.py:build"
    assert workdir.strip_folders(typed) == shown


def test_every_section_is_linked_at_the_top_and_every_file_at_the_end(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r'<h2 id="([^"]+)">(.*?)</h2>', text)
    assert len(headings) > 5
    contents = text[text.index("<nav") : text.index("</nav>")]
    assert re.findall(r'<a href="#([^"]+)">(.*?)</a>', contents) == headings
    files = re.findall(r'<a href="([^"#]+)">', text)
    assert set(files) == {file.name for file in page.parent.iterdir() if file.name[0] != "."} - {page.name}


def test_an_option_is_not_parted_at_the_end_of_a_line() -> None:
    said = html.together("<b> 5 [1, 9] % (--squash, --masker birefnet_lite)")
    assert said.startswith(f"&lt;b&gt; 5{html.NO_BREAK}[1,{html.NO_BREAK}9]{html.NO_BREAK}% (")
    assert said.endswith(
        '(<span class="nowrap">--squash</span>, <span class="nowrap">--masker</span> birefnet_lite)'
    )
