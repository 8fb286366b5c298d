"""README and docs/demo show what `make demo` made, and a check says when they do not."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
demo = runpy.run_path(str(ROOT / "docs/demo/from_report.py"))


def test_the_readme_has_the_demos_table() -> None:
    readme, page = (p.read_text(encoding="utf-8") for p in (ROOT / "README.md", ROOT / "docs/demo/tables.md"))
    assert demo["with_table"](readme, page) == readme, "run: make docs-demo"


def test_the_tutorial_says_what_every_seed_shows() -> None:
    rows = [
        [c.strip() for c in line.split("|")[1:-1]]
        for line in demo["short"]((ROOT / "docs/demo/tables.md").read_text()).splitlines()
    ]
    drops = {
        tuple(row[:3]): [float(drop.replace("−", "-")) for drop in row[-1].split(",")] for row in rows[2:]
    }
    assert {len(of_seeds) for of_seeds in drops.values()} == {3}
    text = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    assert "loses more than half on `demo_90` and\n  nothing on `demo_00`" in text
    assert "less than a third of that" in text
    assert "up to 15 points away" in text
    assert all(abs(drop - sum(of_seeds) / 3) < 15 for of_seeds in drops.values() for drop in of_seeds)
    assert "with each seed" in text
    assert "less than half of plain training's" in text
    for loss in ("Contrastive", "ArcFace"):
        plain, cured = drops["demo_90", loss, "plain"], drops["demo_90", loss, "BGAugment"]
        assert sum(plain) / 3 > 50
        assert sum(cured) < sum(plain) / 3
        assert all(less < more / 2 for less, more in zip(cured, plain, strict=True))
    grown = {}
    for training in ("plain", "BGAugment"):
        unbiased, half, biased = (drops[f"demo_{n}", "Contrastive", training] for n in ("00", "50", "90"))
        assert max(unbiased) < 0
        assert all(few < some < many for few, some, many in zip(unbiased, half, biased, strict=True))
        grown[training] = sum(biased) - sum(unbiased)
    assert "a quarter as much" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert 0.2 < grown["BGAugment"] / grown["plain"] < 0.3


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A project with a finished demo of two models, and documents that show it."""
    report, documents = tmp_path / "data/report/demo", tmp_path / "docs/demo"
    (report / "figures").mkdir(parents=True)
    documents.mkdir(parents=True)
    (tmp_path / "README.md").write_text("before\n" + demo["BEGIN"] + "old\n" + demo["END"] + "after\n")
    assert demo["check"](tmp_path, False) == ([], False)  # no demo, nothing to compare with
    head = "### toys · tiny · 1 seed\n\n|  | Clean | Corrupted | Drop, % | Score |\n| --- | ---: | ---: | ---: | ---: |\n"
    for table in (1, 2):
        (report / f"table{table}.md").write_text(
            f"**Caption.**\n\n{head}| Triplet | 1 | **2** | 3 [1, 5] | .5 |\n| + BGAugment | 4 | 5 | 6 | **.6** |\n"
        )
    clean, corrupted = ("clean", "random_background")
    values = [
        ("plain", 0, clean, 0.8),
        ("plain", 0, corrupted, 0.2),
        ("plain", 1, clean, 0.5),
        ("plain", 1, corrupted, 0.6),
    ]
    values += [("bgaugment", 0, clean, 0.4), ("bgaugment", 0, corrupted, 0.4)]
    lines = [
        f"toys,tiny,triplet,{method},{seed},symmetric,{condition},0,map_at_r,{value},9\n"
        for method, seed, condition, value in values
    ]
    head = "dataset,backbone,loss,method,seed,setting,condition,draw,metric,value,n\n"
    (report / "results.csv").write_text(head + "".join(reversed(lines)))
    for figure in demo["FIGURES"]:
        (report / "figures" / f"{figure}.png").write_bytes(figure.encode())
        (documents / f"{figure}.png").write_bytes(b"old")
    (documents / "tables.md").write_text("old")
    for place, content in demo["wanted"](tmp_path).items():
        (tmp_path / place).write_bytes(content)
    return tmp_path


def test_what_a_demo_made_is_copied_and_compared(finished: Path) -> None:
    assert demo["differing"](finished) == []
    readme = (finished / "README.md").read_text()
    assert readme.startswith("before\n")
    assert readme.endswith(demo["END"] + "after\n")
    assert "| toys | Triplet | plain | 1 | 2 | 3 [1, 5] | .5 | 75.0, −20.0 |" in readme
    assert "| toys | Triplet | BGAugment | 4 | 5 | 6 | .6 | 0.0 |" in readme
    assert (finished / "docs/demo/drop.png").read_bytes() == b"drop"
    (finished / demo["REPORT"] / "figures/drop.png").write_bytes(b"new")
    assert demo["differing"](finished) == [Path("docs/demo/drop.png")]


@pytest.mark.parametrize(
    ("current", "here", "failed"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_documents_fail_the_check_where_a_current_demo_of_the_same_processor_differs(
    finished: Path, current: bool, here: bool, failed: bool
) -> None:
    page = finished / "docs/demo/tables.md"
    assert demo["check"](finished, True) == ([], False)
    page.write_text(
        page.read_text().replace(demo["processor"](), demo["processor"]() if here else "Z80") + "|"
    )
    told, is_failure = demo["check"](finished, current)
    assert is_failure == failed
    assert told[0] == (
        "docs/demo/tables.md is not what data/report/demo has; put it there: make docs-demo"
        if current
        else demo["STALE"]
    )
    assert len(told) == (2 if current and not here else 1)
