"""Put what `bgbias train-masker` finds on the shared hand masks into the documents: `make docs-masker`.

``python docs/results/masker_from_report.py REPORT MASKS`` runs the command, takes its figures from the folder REPORT, measures
the masks of rembg's full U²-Net that lie beside the hand-drawn ones in the folder MASKS, and writes the pages anew. The figures
lie beside this file; every number that a page says of them is made from these, and what it says of the recipe from the recipe.
With ``--check`` it says what is not as it was made.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from bgbias.images import drawn_masks
from bgbias.masks import cross_validation, pairs, quality
from bgbias.masks.fine_tuning import Recipe
from bgbias.report.evidence import Evidence
from bgbias.report.parts import markdown

ROOT = Path(__file__).resolve().parents[2]
HERE = Path("docs/results")
PAGES = (HERE / "masker_finetuning.md", HERE / "index.md", Path("docs/masks.md"))
FIGURES = ("folds", "shares")
REMBG = HERE / "masker_rembg.csv"
SETS = {"cars196": "Cars196", "cub200": "CUB200", "sop": "SOP"}


def change(row: pd.Series) -> str:
    """A change with its standard error."""
    if row["change"] == row["error"] == 0:
        return "unchanged"
    return f"{row['change']:+.3f} (s.e. {row['error']:.3f})"


def several(counts: Iterable[int]) -> str:
    """A number, or the two between which all lie."""
    low, high = min(found := list(counts)), max(found)
    return f"{low}" if low == high else f"{low} {'or' if high == low + 1 else 'to'} {high}"


def of_rembg(masks: Path) -> pd.DataFrame:
    """A row a photo: the IoU of rembg's mask with the hand-drawn one."""
    rows = []
    for pair in pairs.read_pairs(masks):
        file = masks / f"{pair.name}_rembg.png"
        found = drawn_masks.decode_mask(file.read_bytes(), str(file))
        rows.append({"photo": pair.name, "group": pair.group, "iou": quality.iou(found, pair.mask)})
    return pd.DataFrame(rows)


def design(folds: pd.DataFrame) -> dict[str, str]:
    """How many photos there are, of which sets, and how they are shared out."""
    count = folds["fold"].nunique()
    return {
        "count": f"{len(folds)}",
        "photos": f"{len(folds)} photos with hand-drawn masks, {several(folds['group'].value_counts())} of each",
        "folds": f"{count} outer folds, each with {several(folds.value_counts(['fold', 'group']))}",
        # A net for each two folds left out, and for each one.
        "trainings": f"{count * (count + 1) // 2}",
    }


def recipe(of: Recipe) -> dict[str, str]:
    """How a net is trained."""
    low, high = (100 * share for share in of.crop)
    return {
        "steps": f"{of.steps} steps of {of.batch_size} photos, AdamW at {of.lr:g}",
        "crops": f"{low:g} to {high:g} %",
        "sizes": f"{of.train_size} pixels, whole photos are masked at {of.input_size}",
    }


def parts(folds: pd.DataFrame, shares: pd.DataFrame, rembg: pd.DataFrame) -> dict[str, str]:
    """What stands between the marks of the pages, by the marks' names."""
    rows = cross_validation.summary(folds)
    whole = rows.iloc[-1]
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
    unchanged = folds["blend"].eq(0).groupby(folds["fold"]).all()
    helps = bool(shares["chosen"].any()) and cross_validation.gains(folds)
    everything = shares[shares["group"] == whole["group"]]
    at = [f"at {row['blend']:g} by {change(row)}" for _, row in everything.iterrows()]
    verdict = f"a gain: {change(whole)}" if helps else "no gain that is more than chance"
    sentence = (
        f"On {whole['photos']} hand-masked photos there was {verdict}: mean IoU {whole['before']:.3f} published,"
        f" {whole['after']:.3f} as chosen.\n"
        f"{unchanged.sum()} of {len(unchanged)} outer folds left the net as it is. By share of new weights, the mean"
        f" IoU of held-out photos changed\n{', '.join(at)}.\n"
    )
    worst = folds.loc[folds["before"].idxmin()]
    others = rembg.groupby("group")["iou"].mean()
    return {
        "table": markdown(table),
        "shares": markdown(tried),
        "verdict": verdict,
        "sentence": sentence,
        "lowest": f"{worst['before']:.3f} ({worst['photo']})",
        "rembg": ", ".join(f"{others[group]:.3f} ({SETS[group]})" for group in others.index),
        **design(folds),
        **recipe(Recipe()),
    }


def made(root: Path) -> dict[str, str]:
    """The same of the figures that lie below ``root``."""
    return parts(*(pd.read_csv(root / place) for place in TABLES))


TABLES = (*(HERE / f"masker_{name}.csv" for name in FIGURES), REMBG)
EVIDENCE = Evidence("masker", PAGES, made, "make docs-masker", TABLES, HERE / "masker_from_report.py")


def taken(arguments: list[str]) -> tuple[Path, ...]:
    """Fine-tune, take the figures of the report, and measure rembg's masks."""
    report, masks = map(Path, arguments)
    start = "shared:weights/u2netp.safetensors"
    command = ["train-masker", str(masks), "--start", start, "--device", "cpu", "--report", str(report)]
    subprocess.run([sys.executable, "-m", "bgbias", *command], check=True)
    for name in FIGURES:
        (ROOT / HERE / f"masker_{name}.csv").write_bytes((report / f"{name}.csv").read_bytes())
    of_rembg(masks).to_csv(ROOT / REMBG, index=False, float_format="%.4f")
    return TABLES


if __name__ == "__main__":
    sys.exit(EVIDENCE.run(ROOT, sys.argv[1:], taken))
