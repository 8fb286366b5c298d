"""The command that fine-tunes a masker on one's own masks, or tells by cross-validation whether that would help."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bgbias import progress
from bgbias.errors import UserError
from bgbias.files.places import source
from bgbias.masks import cross_validation, fine_tuning, quality, saliency
from bgbias.masks import pairs as mask_pairs
from bgbias.masks.fine_tuning import NETS, Recipe
from bgbias.masks.u2net import U2Net


def fine_tune(place: Path, out: Path, start: str, kind: str, recipe: Recipe, device: str = "cpu") -> None:
    """Train on the pairs of ``place`` and write the weights to ``out``, which appears complete or not at all."""
    if out.suffix != ".safetensors":
        raise UserError(f"Weights are written as .safetensors; {out} is not called so. Correct --out.")
    net = _start(kind, start)
    pairs = mask_pairs.read_pairs(place)
    tuned = fine_tuning.fine_tune(pairs, net, recipe, device)
    fine_tuning.save_unfolded(tuned, out)
    before, after = (_mean_iou(n, pairs, recipe, device) for n in (net, tuned))
    print(f"{out}: mean IoU {before:.3f} -> {after:.3f} on the {len(pairs)} photos that it was trained on.")
    print("On photos that it was not trained on: repeat the command with --folds 5.")
    print(f"To use it, under `maskers` in params.yaml:  mine: {{kind: {kind}, options: {{weights: {out}}}}}")


def judge(
    place: Path,
    report: Path,
    start: str,
    kind: str,
    folds: int,
    recipe: Recipe,
    device: str = "cpu",
) -> None:
    """Cross-validate on the pairs of ``place``; prints figures by photo and writes them and a picture to ``report``."""
    net = _start(kind, start)
    pairs = mask_pairs.read_pairs(place)
    verdicts = cross_validation.cross_validate(pairs, net, recipe, folds, device)
    cross_validation.write(verdicts, report)
    rows = cross_validation.table(verdicts)
    print(rows.to_string(index=False, float_format="{:.3f}".format))
    print(cross_validation.summary(rows).to_string(index=False, float_format="{:.4f}".format))
    progress.say(f"figures and pictures of every photo: {report}/folds.csv, folds.png")


def _start(kind: str, start: str) -> U2Net:
    if kind not in NETS:
        raise UserError(f"There is no net '{kind}' to fine-tune; there are: {', '.join(NETS)}.")
    net = NETS[kind]()
    saliency.load_weights(net, source(start), kind)
    return net


def _mean_iou(net: U2Net, pairs: list[mask_pairs.MaskPair], recipe: Recipe, device: str) -> float:
    made = cross_validation.masks(net, pairs, recipe, device)
    return float(np.mean([quality.iou(m, p.mask) for m, p in zip(made, pairs, strict=True)]))
