"""Pages whose parts scripts write: each says what its script's tables hold, and whatever part is altered is told."""

from __future__ import annotations

import re
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

from bgbias.errors import UserError
from bgbias.report.parts import Parts

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("results/masker_from_report.py", "results/backgrounds_from_proposal.py")
FOLDERS = ("settings", "sensitivity", "uncertainty")


@pytest.fixture(scope="module", params=[*SCRIPTS, *(f"{name}/__main__.py" for name in FOLDERS)])
def script(request: pytest.FixtureRequest) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / request.param), run_name="script")


@pytest.fixture
def evidence(script: dict[str, Any]) -> Parts:
    found = script["EVIDENCE"]
    assert isinstance(found, Parts)
    return found


def test_pages_say_what_the_tables_hold(evidence: Parts) -> None:
    assert evidence.differing(ROOT) == {}, f"run: {evidence.command}"


def test_every_altered_part_is_told_and_written_again(
    evidence: Parts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = [p.relative_to(ROOT) for p in (ROOT / "docs").glob("*/*.csv")]
    for place in (*evidence.pages, *tables):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / place, tmp_path / place)
    assert evidence.check(tmp_path) == 0
    for page in evidence.pages:
        text = (ROOT / page).read_text(encoding="utf-8")
        marks = list(evidence.mark.finditer(text))
        assert marks
        for mark in marks:
            digits = re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), mark[3])
            other = digits if digits != mark[3] else "no"
            (tmp_path / page).write_text(
                f"{text[: mark.start(3)]}{other}{text[mark.end(3) :]}", encoding="utf-8"
            )
            capsys.readouterr()
            assert evidence.check(tmp_path) == 1
            assert capsys.readouterr().out.startswith(f"{page} does not say")
            evidence.write(tmp_path)
            assert (tmp_path / page).read_text(encoding="utf-8") == text


def test_a_part_that_nobody_makes_is_named(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("<!-- tide high -->3<!-- end --> <!-- tide low -->1<!-- end -->")
    tides = Parts("tide", (Path("page.md"),), lambda _: {"high": "4", "lowest": "0"}, "make tides")
    with pytest.raises(UserError, match=r"page.md asks for a part 'tide low'; there are: high, lowest"):
        tides.check(tmp_path)
