"""The page of Snakemake's --report: tables, figures and rules in one file, shown by a real browser without a network."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import b64decode
from html import unescape
from pathlib import Path

import pytest
from project import PATIENCE, Project

pytestmark = pytest.mark.workflow
# What a person clicks: a category, then the eye beside a result. Then the browser's title tells what is to be seen.
CLICKS = """
const find = (tag, text) => [...document.querySelectorAll(tag)].find(e => e.textContent.trim() === text);
setTimeout(() => find("a", "CATEGORY").click(), 200);
setTimeout(() => find("td", "RESULT").parentElement.querySelector("a").click(), 400);
setTimeout(() => {
    const shown = document.querySelector("iframe") || document.querySelector("#app img[src^='data:image/png']");
    document.title = JSON.stringify({width: shown.naturalWidth || shown.clientWidth});
}, 1500);
"""

ASKED = re.compile(r'"initiator":"(?P<from>[^"]*)".*?"url":"(?P<url>(?:https?|wss?)://[^"]*)"')


@pytest.fixture(scope="module")
def report(smoke_run: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A finished run, with its page beside its tables."""
    run = smoke_run.copy(tmp_path_factory.mktemp("report") / "project")
    run.snakemake("--report", "page.html", "--config", "grid=smoke")
    return run


def browse(page: Path, script: str = "") -> tuple[str, list[str]]:
    """What Chromium makes of a page after a script, and all that it asked a network for."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("Chromium is not installed")
    text = page.read_text(encoding="utf-8")
    end = text.rindex("</body>") if script else len(text)
    played, log = page.with_name("played.html"), page.with_name("network.json")
    played.write_text(text[:end] + f"<script>{script}</script>" + text[end:], encoding="utf-8")
    done = subprocess.run(
        [
            *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1500,900"),
            *(
                "--host-resolver-rules=MAP * ~NOTFOUND",
                f"--log-net-log={log}",
                f"--user-data-dir={page.parent / 'browser'}",
            ),
            *("--virtual-time-budget=5000", "--dump-dom", played.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    # Chromium itself asks for dictionaries and the time; what a page asks for bears its origin.
    asked = [
        m["url"] for m in ASKED.finditer(log.read_text(encoding="utf-8")) if m["from"] != "not an origin"
    ]
    return done.stdout, asked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("category", "result", "path", "kind"),
    [
        ("Tables", "table1", "data/report/smoke/table1.html", "text/html"),
        ("Figures", "retrieval", "data/report/smoke/figures/retrieval.png", "image/png"),
    ],
)
def test_page_shows_a_result_that_is_clicked_on_and_asks_no_host(
    report: Project, category: str, result: str, path: str, kind: str
) -> None:
    script = CLICKS.replace("CATEGORY", category).replace("RESULT", result)
    seen, asked = browse(report.folder / "page.html", script)
    assert asked == []
    title = re.search("<title>(.*?)</title>", seen)
    assert title
    assert json.loads(unescape(title[1]))["width"] > 500
    shown = re.findall(rf'src="data:{kind}[^"]*;base64,([^"]*)"', seen)
    assert (report.folder / path).read_bytes() in [b64decode(data) for data in shown]


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


def test_a_reference_to_an_outside_host_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><body><img src='http://host.example/a.png'></body>", encoding="utf-8")
    assert browse(page)[1] == ["http://host.example/a.png"]


def test_table_is_a_page_of_its_own(report: Project) -> None:
    page = report.folder / "data/report/smoke/table1.html"
    seen, asked = browse(page)
    assert asked == []
    printed = (page.with_suffix(".md")).read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 2
    for row in rows:
        cells = re.findall(
            "<t[hd]>(.*?)</t[hd]>", next(r for r in seen.split("<tr>") if f"<th>{row[0]}</th>" in r)
        )
        assert [re.sub("</?b>", "**", cell) for cell in cells] == row
