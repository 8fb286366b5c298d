"""How well a mask's clarity tells that it is wrong: ``make docs-clarity``, or ``python docs/results/mask_clarity.py SHARED``.

U²-Net-p masks the 30 photos of the folder SHARED that have hand-drawn masks, and their objects in front of four other photos
each, where the truth is the same mask. A mask is wrong if its IoU is below .7. The values a photo lie beside this file.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from scipy.stats import mannwhitneyu

from bgbias import seeds
from bgbias.files.pictures import is_picture
from bgbias.images import pixels
from bgbias.masks import pairs, quality
from bgbias.report.pages import markdown
from bgbias.report.queries import UNSURE
from bgbias.results import correlation
from bgbias.results.publication import note_tables

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path("docs/results/mask_clarity.csv")
BACKGROUNDS, SIDE, WRONG = 4, 320, 0.7
KINDS = {"original": "original", "pasted": "object on another background"}


def photos(shared: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Kind, photo and true mask: each original, then its object in front of other photos."""
    with zipfile.ZipFile(shared / "backgrounds_val.zip") as archive:
        names = sorted(filter(is_picture, archive.namelist()))
        for pair in pairs.read_pairs(shared / "hand_masks"):
            photo, mask = (pixels.resize_short(a, SIDE) for a in (pair.photo, pair.mask))
            yield "original", photo, mask
            share = mask[..., None] / 255
            for name in seeds.generator("mask clarity", pair.name).choice(names, BACKGROUNDS, replace=False):
                wall = Image.fromarray(pixels.decode(archive.read(name), name)).resize(photo.shape[1::-1])
                pasted = np.round(photo * share + np.asarray(wall) * (1 - share))
                yield "pasted", pasted.astype(np.uint8), mask


def ranked(wrong: pd.Series, right: pd.Series) -> str:
    """In how many pairs of a wrong and a right mask, in percent, the right one has more of it."""
    return f"{100 * mannwhitneyu(right, wrong).statistic / (len(wrong) * len(right)):.0f} %"


def tables() -> dict[str, str]:
    """The table as its page shows it."""
    rows = []
    for kind, own in pd.read_csv(ROOT / TABLE).groupby("kind"):
        is_wrong, is_unclear = own["iou"] < WRONG, own["clarity"] < UNSURE
        wrong, right = own[is_wrong], own[~is_wrong]
        rows.append(
            {
                "photos": KINDS[str(kind)],
                "number": len(own),
                f"wrong (IoU below {WRONG})": len(wrong),
                "ranked right by clarity": ranked(wrong["clarity"], right["clarity"]),
                "by confidence": ranked(wrong["confidence"], right["confidence"]),
                "rank correlation with IoU: clarity": f"{correlation.spearman(own['clarity'], own['iou']):.2f}",
                "confidence": f"{correlation.spearman(own['confidence'], own['iou']):.2f}",
                "least confidence": f"{own['confidence'].min():.2f}",
                f"clarity below {UNSURE}": int(is_unclear.sum()),
                "of these wrong": int((is_unclear & is_wrong).sum()),
            }
        )
    return {"table": markdown(pd.DataFrame(rows))}


def measured(shared: Path) -> Iterator[Path]:
    """Mask all photos, and write what is measured of each mask."""
    from bgbias.masks import saliency
    from bgbias.masks.maskers._params import SaliencyParams

    params = SaliencyParams(weights=str(shared / "weights/u2netp.safetensors"))
    masker = saliency.build_masker("u2netp", params, "cpu")
    rows = []
    for kind, photo, truth in photos(shared):
        (mask,) = masker([photo])
        values = quality.measure(mask.alpha, mask.confidence, truth)
        rows.append((kind, values["iou"], values["confidence"], values["clarity"]))
    table = pd.DataFrame(rows, columns=["kind", "iou", "confidence", "clarity"])
    table.to_csv(ROOT / TABLE, index=False, float_format="%.6f")
    yield TABLE


if __name__ == "__main__":
    note_tables("mask_clarity", "make docs-clarity", measured(Path(sys.argv[1])))
