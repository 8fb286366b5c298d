"""README and docs/demo show what `make demo` made, and a check says when they do not."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
demo = runpy.run_path(str(ROOT / "docs/demo/from_report.py"))


def test_the_readme_has_the_demos_table() -> None:
    readme, page = (p.read_text(encoding="utf-8") for p in (ROOT / "README.md", ROOT / "docs/demo/tables.md"))
    assert demo["with_table"](readme, page) == readme, "run: make docs-demo"


def test_what_a_demo_made_is_copied_and_compared(tmp_path: Path) -> None:
    report, documents = tmp_path / "data/report/demo", tmp_path / "docs/demo"
    (report / "figures").mkdir(parents=True)
    documents.mkdir(parents=True)
    (tmp_path / "README.md").write_text("before\n" + demo["BEGIN"] + "old\n" + demo["END"] + "after\n")
    assert demo["differing"](tmp_path) == []  # no demo, nothing to compare with
    head = "### toys · tiny · 1 seed\n\n|  | Clean | Corrupted | Drop, % | Score |\n| --- | ---: | ---: | ---: | ---: |\n"
    for table in (1, 2):
        (report / f"table{table}.md").write_text(
            f"**Caption.**\n\n{head}| Triplet | 1 | **2** | 3 [1, 5] | .5 |\n| + BGAugment | 4 | 5 | 6 | **.6** |\n"
        )
    for figure in demo["FIGURES"]:
        (report / "figures" / f"{figure}.png").write_bytes(figure.encode())
        (documents / f"{figure}.png").write_bytes(b"old")
    (documents / "tables.md").write_text("old")
    for place, content in demo["wanted"](tmp_path).items():
        (tmp_path / place).write_bytes(content)
    assert demo["differing"](tmp_path) == []
    readme = (tmp_path / "README.md").read_text()
    assert readme.startswith("before\n")
    assert readme.endswith(demo["END"] + "after\n")
    assert "| toys | Triplet | plain | 1 | 2 | 3 [1, 5] | .5 |" in readme
    assert "| toys | Triplet | BGAugment | 4 | 5 | 6 | .6 |" in readme
    assert (documents / "drop.png").read_bytes() == b"drop"
    (report / "figures/drop.png").write_bytes(b"new")
    assert demo["differing"](tmp_path) == [Path("docs/demo/drop.png")]
