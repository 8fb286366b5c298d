"""Whether fine-tuning helps, judged on photos that were not trained on: k folds over the hand-drawn masks."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from bgbias import progress, seeds
from bgbias.errors import UserError
from bgbias.files.atomic import replacing
from bgbias.images import contact_sheet
from bgbias.masks import quality, saliency
from bgbias.masks.fine_tuning import Recipe, fine_tune
from bgbias.masks.maskers._params import SaliencyParams
from bgbias.masks.pairs import MaskPair
from bgbias.masks.u2net import U2Net


@dataclass(frozen=True, slots=True)
class Verdict:
    """A photo's mask by the published net and by the one that was fine-tuned on other photos (uint8 [H, W])."""

    pair: MaskPair
    fold: int
    before: NDArray[np.uint8]
    after: NDArray[np.uint8]

    @property
    def ious(self) -> tuple[float, float]:
        """IoU at threshold 128 at the photo's size, before and after."""
        return quality.iou(self.before, self.pair.mask), quality.iou(self.after, self.pair.mask)


def folds(pairs: Sequence[MaskPair], count: int) -> list[int]:
    """The fold of each pair: every group is spread over the folds as evenly as its size allows, keyed by names."""
    if not 2 <= count <= len(pairs):
        raise UserError(f"{len(pairs)} photos make 2 to {len(pairs)} folds, not {count}; correct --folds.")
    members: dict[str, list[int]] = defaultdict(list)
    for number, pair in enumerate(pairs):
        members[pair.group].append(number)
    dealt = [n for g in sorted(members) for n in seeds.generator("folds", g).permutation(members[g])]
    fold = {number: place % count for place, number in enumerate(dealt)}
    return [fold[n] for n in range(len(pairs))]


def cross_validate(
    pairs: Sequence[MaskPair], start: U2Net, recipe: Recipe, count: int, device: str = "cpu"
) -> list[Verdict]:
    """Every pair judged by ``start`` and by a net fine-tuned on the other folds, in the order of ``pairs``."""
    fold = folds(pairs, count)
    before = masks(start, pairs, recipe, device)
    verdicts: dict[int, Verdict] = {}
    for number in range(count):
        held_out = [n for n, f in enumerate(fold) if f == number]
        progress.say(f"fold {number + 1} of {count}: {len(pairs) - len(held_out)} photos to train on")
        net = fine_tune([p for p, f in zip(pairs, fold, strict=True) if f != number], start, recipe, device)
        after = masks(net, [pairs[n] for n in held_out], recipe, device)
        for n, mask in zip(held_out, after, strict=True):
            verdicts[n] = Verdict(pairs[n], number, before[n], mask)
    return [verdicts[n] for n in range(len(pairs))]


def masks(
    net: U2Net, pairs: Sequence[MaskPair], recipe: Recipe, device: str = "cpu"
) -> list[NDArray[np.uint8]]:
    """The masks that a net makes of these photos, as the masker makes them."""
    params = SaliencyParams(input_size=recipe.input_size)
    masker = saliency.SaliencyMasker(copy.deepcopy(net), params, torch.device(device))
    return [mask.alpha for mask in masker([p.photo for p in pairs])]


def table(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """One row a photo: name, group, fold, IoU before and after, and their difference."""
    rows = [(v.pair.name, v.pair.group, v.fold, *v.ious, v.ious[1] - v.ious[0]) for v in verdicts]
    return pd.DataFrame(rows, columns=["photo", "group", "fold", "before", "after", "change"])


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean IoU before and after, and photos that got better and worse by more than .005, a row a group."""
    counted = rows.assign(better=rows["change"] > 0.005, worse=rows["change"] < -0.005)
    how = {
        "photo": "count",
        **dict.fromkeys(("before", "after", "change"), "mean"),
        "better": "sum",
        "worse": "sum",
    }
    return counted.groupby("group").agg(how).rename(columns={"photo": "photos"}).reset_index()


def write(verdicts: Sequence[Verdict], folder: Path) -> None:
    """``folds.csv``, a row a photo, and ``folds.png``: photo, truth, mask before and mask after, the largest change first."""
    rows = table(verdicts)
    with replacing(folder / "folds.csv") as temporary:
        rows.to_csv(temporary, index=False, float_format="%.4f")
    pictures: list[NDArray[np.uint8]] = []
    labels: list[str] = []
    for number in rows["change"].abs().sort_values(ascending=False, kind="stable").index:
        v = verdicts[number]
        pictures += [v.pair.photo, v.pair.mask, v.before, v.after]
        labels += [v.pair.name, "truth", f"before {v.ious[0]:.3f}", f"after {v.ious[1]:.3f}"]
    with replacing(folder / "folds.png") as temporary:
        contact_sheet.contact_sheet(pictures, 8, labels, side=160).save(temporary, "PNG")
