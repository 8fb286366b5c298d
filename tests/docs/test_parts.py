"""Pages whose parts scripts write: each says what its script's tables hold, and whatever part is altered is told."""

from __future__ import annotations

import re
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bgbias.errors import UserError
from bgbias.files.checksums import sha256
from bgbias.report.evidence import Evidence, kept
from bgbias.report.parts import Parts

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("results/masker_from_report.py", "results/backgrounds_from_proposal.py")
FOLDERS = ("settings", "sensitivity", "uncertainty")


@pytest.fixture(scope="module", params=[*SCRIPTS, *(f"{name}/__main__.py" for name in FOLDERS)])
def script(request: pytest.FixtureRequest) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / request.param), run_name="script")


@pytest.fixture
def evidence(script: dict[str, Any]) -> Evidence:
    found = script["EVIDENCE"]
    assert isinstance(found, Evidence)
    return found


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder with the project's documents, as far as scripts write and read them."""
    files = [p for p in (ROOT / "docs").rglob("*") if p.suffix in (".csv", ".yaml", ".md", ".py")]
    for place in (p.relative_to(ROOT) for p in files):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / place, tmp_path / place)
    return tmp_path


def test_pages_tables_and_code_are_as_they_were_made(
    evidence: Evidence, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evidence.check(ROOT) == 0, capsys.readouterr().out


def test_an_altered_table_and_edited_code_are_told(
    evidence: Evidence, docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = docs / evidence.script
    script = place / "__main__.py" if place.is_dir() else place
    script.write_text(f"# A comment moves no number.\n{script.read_text()}")
    table = docs / evidence.tables[-1]
    whole = table.read_text()
    table.write_text(f"{whole.rstrip()}1\n")
    assert evidence.check(docs) == 1
    said = capsys.readouterr().out
    assert f"{evidence.tables[-1]} is not what {evidence.command} made" in said
    table.write_text(whole)
    script.write_text(f"{script.read_text()}\nADDED = 1\n")
    assert evidence.check(docs) == 1
    said = capsys.readouterr().out
    assert f"{evidence.kind} was made by other code than now (docs/{script.parent.name}/{script.name}" in said
    with pytest.raises(UserError, match="Say why"):
        evidence.run(docs, ["--accept", " "])
    assert evidence.run(docs, ["--accept", "nothing", "reads", "it"]) == 0
    assert evidence.check(docs) == 0
    assert evidence.made_by(docs)["accepted"][-1]["because"] == "nothing reads it"
    with pytest.raises(UserError, match="nothing is to be accepted"):
        evidence.run(docs, ["--accept", "why"])


def test_every_altered_part_is_told_and_written_again(
    evidence: Evidence, docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evidence.check(docs) == 0
    for page in evidence.pages:
        text = (ROOT / page).read_text(encoding="utf-8")
        marks = list(evidence.mark.finditer(text))
        assert marks
        for mark in marks:
            digits = re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), mark[3])
            other = digits if digits != mark[3] else "no"
            (docs / page).write_text(f"{text[: mark.start(3)]}{other}{text[mark.end(3) :]}", encoding="utf-8")
            capsys.readouterr()
            assert evidence.check(docs) == 1
            assert capsys.readouterr().out.startswith(f"{page} does not say")
            evidence.write(docs)
            assert (docs / page).read_text(encoding="utf-8") == text


def test_a_part_that_nobody_makes_is_named(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("<!-- tide high -->3<!-- end --> <!-- tide low -->1<!-- end -->")
    tides = Parts("tide", (Path("page.md"),), lambda _: {"high": "4", "lowest": "0"}, "make tides")
    with pytest.raises(UserError, match=r"page.md asks for a part 'tide low'; there are: high, lowest"):
        tides.check(tmp_path)


def test_what_was_made_is_kept_of_each_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs/results").mkdir(parents=True)
    (tmp_path / "page.md").write_text("<!-- tide high -->3<!-- end -->")
    (tmp_path / "docs/tide.py").write_text("from bgbias import seeds\n")
    tables = Path("docs/high.csv"), Path("docs/low.csv")
    tides = Evidence(
        "tide", (Path("page.md"),), lambda root: {"high": (root / tables[0]).read_text()}, "make tides",
        tables, Path("docs/tide.py"),
    )  # fmt: skip

    def make(names: list[str]) -> Iterator[Path]:
        for table in tables:
            if not names or table.stem in names:
                (tmp_path / table).write_text("4")
                yield table

    with pytest.raises(UserError, match=r"docs/results/tide.yaml is missing; make it anew: make tides"):
        tides.check(tmp_path)
    assert tides.run(tmp_path, [], make) == 0
    assert "-->4<!--" in (tmp_path / "page.md").read_text()
    assert tides.check(tmp_path) == 0
    (whole,) = kept()
    assert whole[0] == "tide"
    assert list(whole[1]["code"]) == [f"{tmp_path.name}/docs/tide.py", "seeds.py"]
    assert whole[1]["tables"]["docs/low.csv"].keys() == {
        "sha256",
        "commit",
        "date",
        "machine",
        "cores",
        "minutes",
    }
    # Other code made one of two tables: nobody knows yet what it makes of the other.
    (tmp_path / "docs/tide.py").write_text("from bgbias import seeds, plugins\nMOON = 2\n")
    tides.run(tmp_path, ["low"], make)
    assert tides.edited(tmp_path) == [f"{tmp_path.name}/docs/tide.py"]
    tides.accept(tmp_path, "the moon is far")
    tides.run(tmp_path, [], make)
    assert tides.edited(tmp_path) == []
    assert "accepted" not in tides.made_by(tmp_path)


def test_who_completes_a_table_does_not_vouch_for_its_older_rows(tmp_path: Path) -> None:
    (tmp_path / "docs/results").mkdir(parents=True)
    script, table = tmp_path / "docs/tide.py", Path("docs/high.csv")
    script.write_text("from bgbias import seeds\n")
    tides = Evidence("tide", (), lambda _: {}, "make tides", (table,), Path("docs/tide.py"), completes=True)

    def make(rows: list[str]) -> Iterator[Path]:
        with (tmp_path / table).open("a") as file:
            file.writelines(f"{row}\n" for row in rows if row != "none")
        yield table

    tides.run(tmp_path, ["4"], make)
    before = tides.made_by(tmp_path)
    assert tides.check(tmp_path) == 0
    script.write_text("from bgbias import plugins, seeds\nMOON = 2\n")
    tides.run(tmp_path, ["none"], make)
    assert tides.made_by(tmp_path) == before, "nothing was added"
    tides.run(tmp_path, ["5"], make)
    after = tides.made_by(tmp_path)
    assert (
        after["tables"][str(table)]["sha256"]
        == sha256(tmp_path / table)
        != before["tables"][str(table)]["sha256"]
    )
    assert after["code"] == before["code"], "its first row was made by other code"
    assert tides.edited(tmp_path) == [f"{tmp_path.name}/docs/tide.py"]
    (tmp_path / table).unlink()
    tides.run(tmp_path, ["4", "5"], make)
    assert tides.edited(tmp_path) == [], "all rows were made anew"


@pytest.mark.parametrize("used", [True, False])
def test_a_record_names_the_gpu_that_was_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: bool
) -> None:
    cuda = SimpleNamespace(is_initialized=lambda: used, get_device_name=lambda: "NVIDIA H200")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    (tmp_path / "docs/results").mkdir(parents=True)
    (tmp_path / "docs/tide.py").write_text("")
    table = Path("docs/tide.csv")
    (tmp_path / table).write_text("height\n1\n")
    tides = Evidence("tide", (), lambda _: {}, "make tides", (table,), Path("docs/tide.py"))
    tides.keep(tmp_path, [table], minutes=1.0)
    machine = tides.made_by(tmp_path)["tables"][str(table)]["machine"]
    assert machine.endswith("; NVIDIA H200") == used
