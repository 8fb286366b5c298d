"""Put what `bgbias train-masker` finds on the shared hand masks into the documents: `make docs-masker`.

``python docs/results/masker_from_report.py REPORT MASKS`` runs the command on the folder MASKS, and takes its figures from the
folder REPORT. The figures lie beside this file; the page's tables are made of them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from bgbias.masks import cross_validation
from bgbias.report.pages import markdown
from bgbias.results.publication import note_tables

ROOT = Path(__file__).resolve().parents[2]
HERE = Path("docs/results")
FIGURES = ("folds", "shares")
SETS = {"cars196": "Cars196", "cub200": "CUB200", "sop": "SOP"}


def change(row: pd.Series) -> str:
    """A change with its standard error."""
    if row["change"] == row["error"] == 0:
        return "unchanged"
    return f"{row['change']:+.3f} (s.e. {row['error']:.3f})"


def tables() -> dict[str, str]:
    """Each table as its page shows it."""
    folds, shares = (pd.read_csv(ROOT / HERE / f"masker_{name}.csv") for name in FIGURES)
    rows = cross_validation.summary(folds)
    table = pd.DataFrame(
        {
            "set": rows["group"].replace(SETS),
            "photos": rows["photos"],
            "published": rows["before"].map("{:.3f}".format),
            "as chosen": rows["after"].map("{:.3f}".format),
            "change": rows.apply(change, axis=1),
            "better": rows["better"],
            "worse": rows["worse"],
        }
    )
    tried = pd.DataFrame(
        {
            "set": shares["group"].replace(SETS),
            "share of new weights": shares["blend"].map("{:g}".format),
            "change": shares.apply(change, axis=1),
            "chosen": shares["chosen"].map({True: "yes", False: "no"}),
        }
    )
    return {"table": markdown(table), "shares": markdown(tried)}


def taken(arguments: list[str]) -> Iterator[Path]:
    """Fine-tune, and take the figures of the report."""
    report, masks = map(Path, arguments)
    start = "shared:weights/u2netp.safetensors"
    command = ["train-masker", str(masks), "--start", start, "--device", "cpu", "--report", str(report)]
    subprocess.run([sys.executable, "-m", "bgbias", *command], check=True)
    for name in FIGURES:
        (ROOT / HERE / f"masker_{name}.csv").write_bytes((report / f"{name}.csv").read_bytes())
        yield HERE / f"masker_{name}.csv"


if __name__ == "__main__":
    note_tables("masker", "make docs-masker", taken(sys.argv[1:]))
