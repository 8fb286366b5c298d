"""The evidence for intervals and stars, made anew and put into docs/methods.md: `make docs-uncertainty`.

``python docs/uncertainty [coverage] [halves] [repeats]`` makes the named tables (all of them if none is named) beside this file,
and writes the page; with ``page`` it makes none, and with ``--check`` it says whether the page has what the tables hold.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pandas as pd

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs/methods.md"
PART = re.compile(r"(<!-- uncertainty: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
NAMES = ("coverage", "halves", "repeats")
DEMO_MODEL = "data/runs/demo/models/demo_90/tiny/contrastive/plain/seed0/model.safetensors"


def make(name: str) -> pd.DataFrame:
    """A table, from the start."""
    shared = Path(os.environ.get("BGBIAS_SHARED_DATA", "../shared/data"))
    if name == "coverage":
        import coverage

        return coverage.simulate()
    if name == "halves":
        import halves

        weights = shared / "weights/mobilenet_v2_imagenet.safetensors"
        return halves.table(archive=shared / "grocery_store.zip", imagenet=weights, demo=ROOT / DEMO_MODEL)
    import repeats

    return repeats.table(ROOT / "params.yaml")


def shown(name: str, table: pd.DataFrame) -> str:
    """What the page has of it, as Markdown."""
    return {"coverage": _coverage, "halves": _halves, "repeats": _repeats}[name](table)


def page(text: str) -> str:
    """The page with every part as its table has it."""

    def part(found: re.Match[str]) -> str:
        return found[1] + shown(found[2], pd.read_csv(HERE / f"{found[2]}.csv")) + found[3]

    return PART.sub(part, text)


def _coverage(rows: pd.DataFrame) -> str:
    rows = rows.assign(
        of=["these models" if seeds == 1 else f"the method, {seeds} seeds" for seeds in rows["seeds"]]
    )
    lines = [["the interval is of", "classes", "mean covered, %", "drop covered, %", "starred, %"]]
    for (of, classes), part in rows.groupby(["of", "classes"], sort=False):
        stars = pd.concat([part["difference starred"], part["change starred"]])
        lines.append(
            [of, str(classes), *(_range(v) for v in (part["mean covered"], part["drop covered"], stars))]
        )
    lines[1:] = sorted(
        lines[1:], key=lambda line: (line[0] != "these models", len(line[0]), line[0], int(line[1]))
    )
    return _table(lines)


def _halves(rows: pd.DataFrame) -> str:
    heads = ["photos", "features", "number", "classes", "splits", "sd", "sd if the gallery did not matter"]
    numbers = rows[["sd", "sd without the gallery"]].map("{:.2f}".format)
    words = rows[["photos", "features", "number", "classes", "splits"]].astype(str).join(numbers)
    return _table([heads, *words.to_numpy().tolist()])


def _repeats(rows: pd.DataFrame) -> str:
    lines = [["difference in", "models", "pairs of each", "starred, %", "of one model, %"]]
    for name, own in rows.groupby("difference", sort=False):
        shares = own["starred"] / own["pairs"]
        every = f"{100 * own['starred'].sum() / own['pairs'].sum():.1f}"
        ends = f"{100 * shares.min():.1f} – {100 * shares.max():.1f}"
        lines.append([str(name), str(len(own)), str(own["pairs"].iloc[0]), every, ends])
    return _table(lines)


def _range(share: pd.Series) -> str:
    return f"{100 * share.min():.1f} – {100 * share.max():.1f}, mean {100 * share.mean():.1f}"


def _table(lines: list[list[str]]) -> str:
    rows = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main(arguments: list[str]) -> int:
    """Make, or check; the exit status."""
    if arguments == ["--check"]:
        text = PAGE.read_text(encoding="utf-8")
        if page(text) == text:
            return 0
        print(
            f"{PAGE.relative_to(ROOT)} is not what docs/uncertainty/*.csv hold; write it: make docs-uncertainty"
        )
        return 1
    if unknown := set(arguments) - {*NAMES, "page"}:
        print(f"There is no table {min(unknown)}; there are: {', '.join(NAMES)}.")
        return 2
    for name in [] if arguments == ["page"] else arguments or NAMES:
        make(name).round(6).to_csv(HERE / f"{name}.csv", index=False)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
