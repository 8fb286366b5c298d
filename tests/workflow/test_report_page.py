"""The page of Snakemake's --report: tables, figures and rules in one file, shown by a real browser without a network."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from pathlib import Path

import chromium
import pytest
from project import Project

pytestmark = pytest.mark.workflow
FIND = "[...document.querySelectorAll('{}')].find(e => e.textContent.trim() === '{}')"
SHOWN = "(document.querySelector('iframe') || document.querySelector(`#app img[src^='data:image/png']`))"
FETCHED = (
    "performance.getEntriesByType('resource').map(e => e.name).filter(name => !name.startsWith('data:'))"
)


@pytest.fixture(scope="module")
def report(smoke_run: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A finished run, with its page beside its tables."""
    run = smoke_run.copy(tmp_path_factory.mktemp("report") / "project")
    run.snakemake("--report", "page.html", "--config", "grid=smoke")
    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("category", "result", "path"),
    [
        ("Tables", "table1", "data/report/smoke/table1.html"),
        ("Figures", "retrieval", "data/report/smoke/figures/retrieval.png"),
    ],
)
def test_page_shows_a_result_that_is_clicked_on_and_asks_no_host(
    report: Project, category: str, result: str, path: str
) -> None:
    with chromium.browsing() as browser:
        browser.open((report.folder / "page.html").as_uri(), width=1500)
        # A category, then the eye beside a result.
        for found, button in (
            (FIND.format("a", category), ""),
            (FIND.format("td", result), ".parentElement.querySelector('a')"),
        ):
            browser.wait_for(found)
            browser.ask(f"({found}){button}.click()")
        browser.wait_for(f"{SHOWN} && ({SHOWN}.naturalWidth || {SHOWN}.clientWidth) > 500")
        content = browser.ask(f"{SHOWN}.src").rpartition("base64,")[2]
        assert b64decode(content) == (report.folder / path).read_bytes()
        assert browser.ask(FETCHED) == []


def test_page_says_what_the_study_is_and_how_each_result_is_made_again(report: Project) -> None:
    text = (report.folder / "page.html").read_text(encoding="utf-8")
    assert "Models of the grid <em>smoke</em>" in text
    assert "What training took" in text
    assert "Training, min" in text
    results = json.loads(re.search(r"var results = (\{.*\});", text)[1])  # type: ignore[index]
    assert {p.rpartition("/")[2] for p in results} == {
        *("table1.html", "table2.html", "table3.html"),
        *("photos.png", "masks.png", "retrieval.png", "attribution.png", "change.png", "drop.png"),
    }
    for path, result in results.items():
        name = Path(path).stem
        node = "table" if name.startswith("table") else "figure"
        assert f"python -m bgbias {node} {name} --grid smoke" in re.sub("<.*?>", "", result["caption"])


def test_table_is_a_page_of_its_own(report: Project) -> None:
    page = report.folder / "data/report/smoke/table1.html"
    with chromium.browsing() as browser:
        browser.open(page.as_uri())
        browser.wait_for("document.querySelector('tbody tr, table tr')")
        every = (
            "[...document.querySelectorAll('tr')].map(row => [...row.children].map(cell => cell.innerHTML))"
        )
        shown = browser.ask(every)
        assert browser.ask(FETCHED) == []
    printed = (page.with_suffix(".md")).read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 2
    for row in rows:
        assert row in [[re.sub("</?b>", "**", cell) for cell in cells] for cells in shown]
