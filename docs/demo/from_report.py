"""Put what `make demo` made into this folder, and its table into the README: `make docs-demo`.

``python docs/demo/from_report.py`` copies; with ``--check`` it says what differs from data/report/demo, and fails if that is
of the present code and settings and was made on the same kind of processor: others round sums otherwise, and train other digits.
"""

from __future__ import annotations

import platform
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPORT, HERE, README = Path("data/report/demo"), Path("docs/demo"), Path("README.md")
BEGIN, END = "<!-- demo table: written by `make docs-demo` -->\n", "<!-- end -->\n"
FIGURES = ("attribution", "calibration", "drop", "photos", "retrieval")
TITLE = """# The demo's tables

As `make demo` made them on {}; `make docs-demo` put them here. Other processors round sums otherwise: what they train differs
like the models of other seeds.
"""
STALE = "data/report/demo is not what this code and these settings give: make demo"
SEEDS, EACH = "Each training seed", "Drops, %"
ABOUT_SEEDS = (
    "**The relative drop of MAP@R of each seed's model**, in percent, in the order of the grid's seeds.\n"
)
# The README's columns, each from a table of tables.md.
COLUMNS = {
    "Table 1": {"Clean": "MAP@R clean", "Corrupted": "MAP@R corrupted", "Drop, %": "relative drop, % [95 %]"},
    "Table 2": {"Score": "attribution score"},
    SEEDS: {EACH: "drop of each seed, %"},
}


def processor() -> str:
    """The kind of processor here."""
    known = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*: (.*)$", known.read_text(), re.MULTILINE) if known.exists() else None
    return found[1] if found else platform.machine()


def tables(report: Path) -> str:
    """The page of a finished demo's tables."""
    parts = [f"## Table {n}\n\n{(report / f'table{n}.md').read_text(encoding='utf-8')}" for n in (1, 2)]
    seeds = f"## {SEEDS}\n\n{ABOUT_SEEDS}{each_seed(report / 'results.csv')}"
    return "\n".join([TITLE.format(processor()), *parts, seeds])


def each_seed(results: Path) -> str:
    """Tables, one for each dataset, of the relative drops of models that differ in their seeds alone."""
    import pandas as pd

    from bgbias.report import names
    from bgbias.results import rows

    found = pd.read_csv(results)
    found = found[(found["metric"] == rows.MAP_AT_R) & (found["setting"] == rows.SYMMETRIC)]
    means = found.groupby([*rows.MODEL, "seed", "condition"], sort=False)["value"].mean().unstack()
    drops = 100 * (1 - means[rows.CORRUPTED] / means[rows.CLEAN])
    lines, before = [], None
    for dataset, backbone, loss, method in names.in_order(
        drops.index.to_frame(index=False)[rows.MODEL].drop_duplicates()
    ).itertuples(index=False):
        if (dataset, backbone) != before:
            lines += [f"\n### {names.dataset(dataset)} · {backbone}\n", f"|  | {EACH} |", "| --- | ---: |"]
            before = (dataset, backbone)
        of_seeds = ", ".join(f"{drop:.1f}" for drop in drops[dataset, backbone, loss, method].sort_index())
        lines.append(f"| {names.row(loss, method)} | {of_seeds.replace('-', '−')} |")
    return "\n".join(lines) + "\n"


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
    """What is not as the demo made it."""
    return [place for place, content in wanted(root).items() if (root / place).read_bytes() != content]


def check(root: Path, current: bool) -> tuple[list[str], bool]:
    """What is to be told, and whether it is a failure; nothing where there is no demo."""
    if not (root / REPORT / "table2.md").exists():
        return [], False
    if not current:
        return [STALE], False
    told = [
        f"{place} is not what data/report/demo has; put it there: make docs-demo" for place in differing(root)
    ]
    same = f" on {processor()};" in (root / HERE / "tables.md").read_text(encoding="utf-8")
    return told + ["They were made on another kind of processor."] * (bool(told) and not same), bool(
        told
    ) and same


def main(checking: bool) -> int:
    """Copy or check; the exit status."""
    from bgbias.engine import freshness
    from bgbias.study.params import load

    current = freshness.complete(load(ROOT / "params.yaml", "demo"))
    if checking:
        told, failed = check(ROOT, current)
    elif current:
        content = wanted(ROOT)
        told, failed = [str(place) for place in content], False
        for place in content:
            (ROOT / place).write_bytes(content[place])
    else:
        told, failed = [STALE], True
    print(*told, sep="\n", end="\n" * bool(told))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] == ["--check"]))
