"""The evidence for intervals and stars, made anew for docs/methods.md: `make docs-uncertainty`.

``python docs/uncertainty [coverage] [again] [sizes] [levels] [skewed] [ways] [halves] [repeats]`` makes the named tables (all
of them if none is named) beside this file.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from bgbias.report.pages import markdown
from bgbias.results.publication import note_tables

ROOT = Path(__file__).resolve().parents[2]
HERE = Path("docs/uncertainty")
NAMES = ("coverage", "again", "sizes", "levels", "skewed", "ways", "halves", "repeats")
TABLES = {name: HERE / f"{name}.csv" for name in NAMES}
BAND, STARS = (0.92, 0.97), (0.03, 0.07)
COVERED, STARRED = ("mean covered", "drop covered"), ("difference starred", "change starred")
BANDS = dict.fromkeys(COVERED, BAND) | dict.fromkeys(STARRED, STARS)
KIND = ["classes", "seeds", "correlation", "uneven", "of_seeds", "of_seed_and_class"]
TIMES_AGAIN = 10  # studies of a kind that is simulated again, over those of the first time
DEMO_MODEL = "data/runs/demo/models/demo_90/tiny/contrastive/plain/seed0/model.safetensors"


def make(name: str) -> pd.DataFrame:
    """A table, from the start: the ``table`` of the file of its name beside this one."""
    shared = Path(os.environ.get("BGBIAS_SHARED_DATA", "../shared/data"))
    given: dict[str, dict[str, Any]] = {
        "halves": {
            "archive": shared / "grocery_store.zip",
            "imagenet": shared / "weights/mobilenet_v2_imagenet.safetensors",
            "demo": ROOT / DEMO_MODEL,
        },
        "repeats": {"params": ROOT / "params.yaml"},
    }
    if name == "again":
        import coverage

        first = pd.read_csv(ROOT / TABLES["coverage"])
        which = first.index[_outside(first).any(axis=1)].to_list()
        return coverage.table(TIMES_AGAIN * coverage.STUDIES, which, run=1)
    made: pd.DataFrame = importlib.import_module(name).table(**given.get(name, {}))
    return made


def _speaking(rows: pd.DataFrame) -> pd.DataFrame:
    """With a column that says what the intervals of a kind speak of."""
    return rows.assign(
        of=["these models" if seeds == 1 else f"the method, {seeds} seeds" for seeds in rows["seeds"]]
    )


def _coverage(rows: pd.DataFrame) -> str:
    rows = _speaking(rows)
    heads = ["the interval is of", "classes", "mean covered, %", "drop covered, %", "starred, %"]
    lines = []
    for (of, classes), part in rows.groupby(["of", "classes"], sort=False):
        stars = part[[*STARRED]].stack()
        lines.append(
            [of, str(classes), *(_range(v) for v in (part["mean covered"], part["drop covered"], stars))]
        )
    lines.sort(key=lambda line: (line[0] != "these models", len(line[0]), line[0], int(line[1])))
    return markdown(pd.DataFrame(lines, columns=heads))


def _ways(rows: pd.DataFrame) -> str:
    numbers = sorted(rows["seeds"].unique())
    lines = []
    for way, own in rows.groupby("way", sort=False):
        by_seeds = [own.loc[own["seeds"] == seeds, "covered"] for seeds in numbers]
        inside = (own["covered"].between(*BAND)).mean()
        lines.append([str(way), *(_range(covered) for covered in by_seeds), f"{100 * inside:.0f}"])
    heads = ["interval", *(f"{n} seeds: covered, %" for n in numbers), "kinds within 92 to 97 %, %"]
    return markdown(pd.DataFrame(lines, columns=heads))


def _sizes(rows: pd.DataFrame) -> str:
    numbers = sorted(rows["classes"].unique())
    lines = [
        [str(way), *(_range(own.loc[own["classes"] == number, "covered"]) for number in numbers)]
        for way, own in rows.groupby("way", sort=False)
    ]
    heads = ["degrees of freedom", *(f"{n} classes: covered, %" for n in numbers)]
    return markdown(pd.DataFrame(lines, columns=heads))


def _levels(rows: pd.DataFrame) -> str:
    heads = ["levels of classes", "classes", *(f"{name}, %" for name in (*COVERED, STARRED[0]))]
    lines = [
        [row["law"], str(row["classes"]), *(f"{100 * row[name]:.1f}" for name in (*COVERED, STARRED[0]))]
        for row in rows.to_dict("records")
    ]
    return markdown(pd.DataFrame(lines, columns=heads))


def _skewed(rows: pd.DataFrame) -> str:
    """A line a kind and number: of each way the shares by the number of classes, in %."""
    own = rows[rows["seeds"] == 1]
    names = [*rows.columns[rows.columns.get_loc("as used here") :]]
    lines = [
        [str(kind), str(number), *(_by_classes(part[way]) for way in names)]
        for (kind, number), part in own.groupby(["kind", "number"], sort=False)
    ]
    return markdown(pd.DataFrame(lines, columns=["classes are", "number", *names]))


def _skewed_methods(rows: pd.DataFrame) -> str:
    """A line a kind: by the number of seeds, the share that is starred of each number of classes, in %."""
    own = rows[rows["number"] == STARRED[0]]
    both = own[own["kind"].isin(own.loc[own["seeds"] > 1, "kind"])]
    numbers = sorted(both["seeds"].unique())
    lines = [
        [str(kind), *(_by_classes(part.loc[part["seeds"] == n, "as used here"]) for n in numbers)]
        for kind, part in both.groupby("kind", sort=False)
    ]
    heads = ["these models" if n == 1 else f"the method, {n} seeds" for n in numbers]
    return markdown(pd.DataFrame(lines, columns=["classes are", *heads]))


def _by_classes(share: pd.Series) -> str:
    return "–" if share.isna().all() else " · ".join(f"{abs(100 * value):.0f}" for value in share)


def _band(rows: pd.DataFrame) -> str:
    """How many of the simulated shares lie below and above what is wanted (``BANDS``)."""
    heads = ["the interval is of", "simulated shares", "covered < 92 %", "> 97 %", "starred < 3 %", "> 7 %"]
    lines = []
    for of, part in _speaking(rows).groupby("of", sort=False):
        covered, starred = part[[*COVERED]].stack(), part[[*STARRED]].stack()
        outside = covered < BAND[0], covered > BAND[1], starred < STARS[0], starred > STARS[1]
        lines.append([str(of), str(len(covered)), *(str(int(where.sum())) for where in outside)])
    return markdown(pd.DataFrame(lines, columns=heads))


def _outside(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each simulated share, whether it lies outside of what is wanted."""
    return pd.DataFrame({column: ~rows[column].between(*band) for column, band in BANDS.items()})


def _again(first: pd.DataFrame, again: pd.DataFrame) -> str:
    """A line for each share that lay outside at first, with what it is in ten times as many other studies."""
    kinds = first[_outside(first).any(axis=1)]
    both = kinds.merge(again, on=KIND, how="left", suffixes=("", " again"), validate="one_to_one")
    if both.isna().any(axis=None):
        sys.exit("again.csv lacks kinds of coverage.csv; make it anew: python docs/uncertainty again")
    lines = []
    for row in _speaking(both).to_dict("records"):
        sizes, sd = "unequal" if row["uneven"] else "equal", f"{row['of_seeds']}, {row['of_seed_and_class']}"
        kind = [row["of"], str(row["classes"]), str(row["correlation"]), sizes, sd]
        for column, (low, high) in BANDS.items():
            if not low <= row[column] <= high:
                shares = (f"{100 * row[name]:.1f}" for name in (column, f"{column} again"))
                lines.append([*kind, column, *shares])
    heads = [
        "the interval is of",
        "classes",
        "correlation",
        "sizes",
        "sd of seeds, for all and for each class",
    ]
    heads += ["share", "in 1,000 studies, %", "in 10,000 others, %"]
    return markdown(pd.DataFrame(lines, columns=heads))


def _halves(rows: pd.DataFrame) -> str:
    numbers = {column: rows[column].map("{:.2f}".format) for column in ("sd", "sd without the gallery")}
    last = {"sd without the gallery": "sd if the gallery did not matter"}
    return markdown(rows.assign(**numbers).rename(columns=last), labels=3)


def _repeats(rows: pd.DataFrame) -> str:
    heads, lines = ["difference in", "models", "pairs of each", "starred, %", "of one model, %"], []
    for name, own in rows.groupby("difference", sort=False):
        shares = own["starred"] / own["pairs"]
        every = f"{100 * own['starred'].sum() / own['pairs'].sum():.1f}"
        ends = f"{100 * shares.min():.1f} – {100 * shares.max():.1f}"
        lines.append([str(name), str(len(own)), str(own["pairs"].iloc[0]), every, ends])
    return markdown(pd.DataFrame(lines, columns=heads))


def _range(share: pd.Series) -> str:
    return f"{100 * share.min():.1f} – {100 * share.max():.1f}, mean {100 * share.mean():.1f}"


def tables() -> dict[str, str]:
    """Each table as its page shows it."""
    shown = {
        "coverage": _coverage,
        "sizes": _sizes,
        "levels": _levels,
        "skewed": _skewed,
        "ways": _ways,
        "halves": _halves,
        "repeats": _repeats,
    }
    rows = {name: pd.read_csv(ROOT / TABLES[name]) for name in NAMES}
    coverage = rows["coverage"]
    return {name: show(rows[name]) for name, show in shown.items()} | {
        "band": _band(coverage),
        "skewed-methods": _skewed_methods(rows["skewed"]),
        "again": _again(coverage, rows["again"]),
    }


def kept(names: list[str]) -> Iterator[Path]:
    """Make the named tables, all of them if none is named."""
    if unknown := set(names) - set(NAMES):
        sys.exit(f"There is no table {min(unknown)}; there are: {', '.join(NAMES)}.")
    for name in names or NAMES:
        make(name).round(6).to_csv(ROOT / TABLES[name], index=False)
        yield TABLES[name]


if __name__ == "__main__":
    note_tables("uncertainty", "make docs-uncertainty", kept(sys.argv[1:]))
