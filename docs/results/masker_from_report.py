"""Put what `bgbias train-masker` finds on the shared hand masks into the documents: `make docs-masker`.

``python docs/results/masker_from_report.py REPORT MASKS`` runs the command, takes its figures from the folder REPORT, measures
the masks of rembg's full U²-Net that lie beside the hand-drawn ones in the folder MASKS. The figures lie beside this file; the
page's tables are made of them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from bgbias.images import drawn_masks
from bgbias.masks import cross_validation, pairs, quality
from bgbias.report.pages import markdown
from bgbias.results.publication import note_tables

ROOT = Path(__file__).resolve().parents[2]
HERE = Path("docs/results")
FIGURES = ("folds", "shares")
REMBG = HERE / "masker_rembg.csv"
SETS = {"cars196": "Cars196", "cub200": "CUB200", "sop": "SOP"}


def change(row: pd.Series) -> str:
    """A change with its standard error."""
    if row["change"] == row["error"] == 0:
        return "unchanged"
    return f"{row['change']:+.3f} (s.e. {row['error']:.3f})"


def of_rembg(masks: Path) -> pd.DataFrame:
    """A row a photo: the IoU of rembg's mask with the hand-drawn one."""
    rows = []
    for pair in pairs.read_pairs(masks):
        file = masks / f"{pair.name}_rembg.png"
        found = drawn_masks.decode_mask(file.read_bytes(), str(file))
        rows.append({"photo": pair.name, "group": pair.group, "iou": quality.iou(found, pair.mask)})
    return pd.DataFrame(rows)


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
    """Fine-tune, take the figures of the report, and measure rembg's masks."""
    report, masks = map(Path, arguments)
    start = "shared:weights/u2netp.safetensors"
    command = ["train-masker", str(masks), "--start", start, "--device", "cpu", "--report", str(report)]
    subprocess.run([sys.executable, "-m", "bgbias", *command], check=True)
    for name in FIGURES:
        (ROOT / HERE / f"masker_{name}.csv").write_bytes((report / f"{name}.csv").read_bytes())
        yield HERE / f"masker_{name}.csv"
    of_rembg(masks).to_csv(ROOT / REMBG, index=False, float_format="%.4f")
    yield REMBG


if __name__ == "__main__":
    note_tables("masker", "make docs-masker", taken(sys.argv[1:]))
