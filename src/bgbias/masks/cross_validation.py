"""Whether fine-tuning helps, judged on photos that took no part in it: nested cross-validation over the hand-drawn masks.

What is chosen, the share of new weights, is chosen on held-out photos too (the inner loop), and each outer fold is judged by a
choice that never saw it: else the best of several chances would pass for a gain (Cawley & Talbot, JMLR 2010).
"""

import copy
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
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
from bgbias.masks.maskers._params import SaliencyParams
from bgbias.masks.pairs import MaskPair
from bgbias.masks.training import Recipe, fine_tune
from bgbias.masks.u2net import U2Net

# A gain is more than as many standard errors as Student's t has at this level. One photo alone, however much it gains, makes
# none: the mean of n changes, all but one of them zero, is its own standard error.
LEVEL = 0.95
ALL = "all"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is said of each of the pairs, and what is chosen where all photos may be trained on.

    ``before`` and ``after``: masks uint8 [H, W], by the published net, and by what was chosen and trained without the photo's
    fold. ``rows``, one a photo: name, group, fold, the share of new weights that was chosen (``blend``; with 0 the two masks are
    one), IoU before and after at threshold 128 at the photo's size, and their difference. ``changes`` [B, N] are the changes of
    each photo's IoU by which the choice was made: with each share of new weights, of a net that was trained on the other folds.
    """

    pairs: Sequence[MaskPair]
    before: list[NDArray[np.uint8]]
    after: list[NDArray[np.uint8]]
    rows: pd.DataFrame
    blends: tuple[float, ...]
    changes: NDArray[np.float64]

    @property
    def blend(self) -> float:
        """The share of new weights that all photos together choose; 0 leaves the net as it is."""
        return choice(self.changes, self.blends)

    @property
    def helps(self) -> bool:
        """Some new weights are chosen, the outer folds' gain is more than chance, and no group's loss is."""
        return bool(self.blend) and gains(self.rows)

    @property
    def shares(self) -> pd.DataFrame:
        """What the choice saw: a row a group and share of new weights, with the mean change and its standard error."""
        frames = []
        for group, members in groups(self.rows["group"].tolist()):
            changes = self.changes[:, members]
            row = {"blend": self.blends, "change": changes.mean(axis=1), "error": standard_error(changes)}
            frames.append(pd.DataFrame({"group": group, **row}))
        rows = pd.concat(frames, ignore_index=True)
        return rows.assign(chosen=rows["blend"] == self.blend)


def groups(group_names: Sequence[str]) -> list[tuple[str, NDArray[np.bool_]]]:
    """The groups by name, if there are several, and all photos: which photos [N] are of each."""
    names = np.asarray(group_names, dtype=object)
    several = sorted(set(group_names)) if len(set(group_names)) > 1 else []
    return [*((name, names == name) for name in several), (ALL, np.ones(len(names), bool))]


def standard_error(changes: NDArray[np.float64]) -> NDArray[np.float64]:
    """That of the mean of paired ``changes`` [..., N] over photos; NaN for a single one.

    It is too small, since folds share the photos that they train on, and nobody can say by how much (Bengio & Grandvalet, JMLR
    2004). So it serves to choose, and no interval is made of it.
    """
    photos = changes.shape[-1]
    spread = changes.std(axis=-1, ddof=1) if photos > 1 else np.full(changes.shape[:-1], np.nan)
    return np.asarray(spread / math.sqrt(photos))


def clear(changes: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 where the mean of paired ``changes`` [..., N] is a gain, -1 where it is a loss, 0 where it is neither."""
    from scipy.special import stdtrit

    photos = changes.shape[-1]
    reach = stdtrit(photos - 1, (1 + LEVEL) / 2) * standard_error(changes)
    mean = changes.mean(axis=-1)
    return np.where(np.abs(mean) > reach, np.sign(mean), 0.0)


def choice(changes: NDArray[np.float64], blends: Sequence[float], always: bool = False) -> float:
    """The blend with the largest mean of ``changes`` [B, N] of those that gain, or of all (``always``); 0 if there is none."""
    mean = np.where(always | (clear(changes) > 0), changes.mean(axis=1), -np.inf)
    return float(blends[int(mean.argmax())]) if mean.max() > -np.inf else 0.0


def folds(pairs: Sequence[MaskPair], count: int) -> list[int]:
    """The fold of each pair: every group is spread over the folds as evenly as its size allows, keyed by names."""
    # With three, an inner choice has two folds; with any two left out, two photos have to stay to train on.
    if not 3 <= count <= len(pairs):
        raise UserError(f"{len(pairs)} photos make 3 to {len(pairs)} folds, not {count}; correct --folds.")
    if len(pairs) - 2 * math.ceil(len(pairs) / count) < 2:
        raise UserError(
            f"{len(pairs)} photos are too few for {count} folds; draw some more masks, or raise --folds."
        )
    members: dict[str, list[int]] = defaultdict(list)
    for number, pair in enumerate(pairs):
        members[pair.group].append(number)
    dealt = [n for g in sorted(members) for n in seeds.generator("folds", g).permutation(members[g])]
    fold = {number: place % count for place, number in enumerate(dealt)}
    return [fold[n] for n in range(len(pairs))]


def cross_validate(
    pairs: Sequence[MaskPair], start: U2Net, recipe: Recipe, count: int, device: str = "cpu"
) -> Judgement:
    """Every pair judged by ``start`` and by the best net that can be made without its fold; ``count`` folds.

    Fold i's share of new weights is chosen among ``recipe.blends`` and 0 on the photos of every other fold j, with nets that
    saw neither i nor j; it is judged with the net that did not see i. A net without i and j serves both folds, so that there
    are count (count + 1) / 2 trainings.
    """
    fold = np.array(folds(pairs, count))
    before = masks(start, pairs, recipe, device)
    ious = np.array([quality.iou(m, p.mask) for m, p in zip(before, pairs, strict=True)])
    inner = np.full((count, len(recipe.blends), len(pairs)), np.nan)
    outer = np.full((len(recipe.blends), len(pairs)), np.nan)
    blends = np.zeros(len(pairs))
    after = list(before)
    left_out = [*combinations(range(count), 2), *((number,) for number in range(count))]
    for done, without in enumerate(left_out, 1):
        out = np.flatnonzero(np.isin(fold, without)).tolist()
        progress.say(f"training {done} of {len(left_out)}, on {len(pairs) - len(out)} photos")
        tuned = fine_tune([p for n, p in enumerate(pairs) if n not in out], start, recipe, device)
        if len(without) == 1:
            blends[out] = choice(inner[without[0]][:, fold != without[0]], recipe.blends)
        for number, blend in enumerate(recipe.blends):
            predicted = masks(tuned.at(blend), [pairs[n] for n in out], recipe, device)
            change = [quality.iou(m, pairs[n].mask) - ious[n] for n, m in zip(out, predicted, strict=True)]
            if len(without) == 2:
                # Each for the choice of the other fold.
                inner[sum(without) - fold[out], number, out] = change
                continue
            outer[number, out] = change
            for n, mask in zip(out, predicted, strict=True):
                after[n] = mask if blend == blends[n] else after[n]
    rows = pd.DataFrame(
        {
            "photo": [p.name for p in pairs],
            "group": [p.group for p in pairs],
            "fold": fold,
            "blend": blends,
            "before": ious,
            "after": [quality.iou(m, p.mask) for m, p in zip(after, pairs, strict=True)],
        }
    )
    rows["change"] = rows["after"] - rows["before"]
    return Judgement(pairs, before, after, rows, recipe.blends, outer)


def masks(
    net: U2Net, pairs: Sequence[MaskPair], recipe: Recipe, device: str = "cpu"
) -> list[NDArray[np.uint8]]:
    """The masks that a net makes of these photos, as the masker makes them."""
    params = SaliencyParams(input_size=recipe.input_size)
    masker = saliency.SaliencyMasker(copy.deepcopy(net), params, torch.device(device))
    return [mask.alpha for mask in masker([p.photo for p in pairs])]


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """A row a group and one of all photos: mean IoUs, mean change with its standard error, whether it is a gain (1), a loss (-1)
    or neither (0), and how many photos changed by .005.
    """
    lines = []
    for name, members in groups(rows["group"].tolist()):
        part = rows[members]
        change = part["change"].to_numpy(np.float64)
        lines.append(
            {
                "group": name,
                "photos": len(part),
                "before": part["before"].mean(),
                "after": part["after"].mean(),
                "change": change.mean(),
                "error": float(standard_error(change)),
                "clear": float(clear(change)),
                "better": int((change > 0.005).sum()),
                "worse": int((change < -0.005).sum()),
            }
        )
    return pd.DataFrame(lines)


def gains(rows: pd.DataFrame) -> bool:
    """Whether held-out photos gain: all together do, and no group loses."""
    clear_changes = summary(rows)["clear"]
    return bool(clear_changes.iloc[-1] > 0 and not (clear_changes < 0).any())


def write(judged: Judgement, folder: Path) -> None:
    """``folds.csv``, a row a photo; ``shares.csv``, a row a share of new weights; and ``folds.png``.

    The picture shows photo, truth, mask before and mask after, the largest change first.
    """
    for name, frame in (("folds", judged.rows), ("shares", judged.shares)):
        with replacing(folder / f"{name}.csv") as temporary:
            frame.to_csv(temporary, index=False, float_format="%.4f")
    pictures: list[NDArray[np.uint8]] = []
    labels: list[str] = []
    for number in judged.rows["change"].abs().sort_values(ascending=False, kind="stable").index:
        pair, row = judged.pairs[number], judged.rows.loc[number]
        pictures += [pair.photo, pair.mask, judged.before[number], judged.after[number]]
        labels += [pair.name, "truth", f"before {row['before']:.3f}", f"after {row['after']:.3f}"]
    with replacing(folder / "folds.png") as temporary:
        contact_sheet.contact_sheet(pictures, 8, labels, side=160).save(temporary, "PNG")
