"""Put what `make demo` made into this folder, and its table into the README: `make docs-demo`.

``python docs/demo/from_report.py`` copies; with ``--check`` it says what differs from data/report/demo, if that is there.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPORT, HERE, README = Path("data/report/demo"), Path("docs/demo"), Path("README.md")
BEGIN, END = "<!-- demo table: written by `make docs-demo` -->\n", "<!-- end -->\n"
FIGURES = ("attribution", "calibration", "drop", "photos", "retrieval")
TITLE = "# The demo's tables\n\nAs `make demo` made them; `make docs-demo` put them here.\n"
# The README's columns, each from a table of tables.md.
COLUMNS = {
    "Table 1": {"Clean": "MAP@R clean", "Corrupted": "MAP@R corrupted", "Drop, %": "relative drop, % [95 %]"},
    "Table 2": {"Score": "attribution score"},
}


def tables(report: Path) -> str:
    """The page of a finished demo's tables."""
    parts = [f"## Table {n}\n\n{(report / f'table{n}.md').read_text(encoding='utf-8')}" for n in (1, 2)]
    return "\n".join([TITLE, *parts])


def short(page: str) -> str:
    """The README's table: a row for each model, a few of the columns of a page of tables."""
    rows: dict[tuple[str, str, str], dict[str, str]] = {}
    section = dataset = loss = ""
    head: list[str] = []
    for line in page.splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("### "):
            dataset, head = line[4:].split(" · ")[0], []
        elif line.startswith("| ---"):
            continue
        elif line.startswith("|"):
            label, *values = (word.strip(" *") for word in line[1:-1].split("|"))
            if not head:
                head = values
                continue
            loss = loss if label.startswith("+ ") else label
            training = label.removeprefix("+ ") if label != loss else "plain"
            found = dict(zip(head, values, strict=True))
            row = rows.setdefault((dataset, loss, training), {})
            row |= {title: found[column] for column, title in COLUMNS[section].items()}
    titles = [title for columns in COLUMNS.values() for title in columns.values()]
    lines = [["dataset", "loss", "training", *titles], [*["---"] * 3, *["---:"] * len(titles)]]
    lines += [[*model, *(values[title] for title in titles)] for model, values in rows.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def with_table(readme: str, page: str) -> str:
    """A README with its table anew."""
    before, rest = readme.split(BEGIN)
    return before + BEGIN + short(page) + END + rest.split(END, 1)[1]


def wanted(root: Path) -> dict[Path, bytes]:
    """The files that a finished demo gives, by their places below ``root``."""
    page = tables(root / REPORT)
    readme = with_table((root / README).read_text(encoding="utf-8"), page)
    pictures = {HERE / f"{n}.png": (root / REPORT / f"figures/{n}.png").read_bytes() for n in FIGURES}
    return {HERE / "tables.md": page.encode(), README: readme.encode(), **pictures}


def differing(root: Path) -> list[Path]:
    """What is not as the demo made it; nothing where there is no demo."""
    if not (root / REPORT / "table2.md").exists():
        return []
    return [place for place, content in wanted(root).items() if (root / place).read_bytes() != content]


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        for place in (found := differing(ROOT)):
            print(f"{place} is not what data/report/demo has; put it there: make docs-demo")
        sys.exit(bool(found))
    for place, content in wanted(ROOT).items():
        (ROOT / place).write_bytes(content)
        print(place)
