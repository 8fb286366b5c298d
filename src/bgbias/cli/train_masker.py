"""The command that tells whether fine-tuning a masker on one's own masks helps, and does it where it does."""

from __future__ import annotations

from pathlib import Path

from bgbias import progress
from bgbias.auditing import masker
from bgbias.errors import UserError
from bgbias.files.places import source
from bgbias.masks import cross_validation, fine_tuning, saliency
from bgbias.masks import pairs as mask_pairs
from bgbias.masks.cross_validation import choice
from bgbias.masks.fine_tuning import Recipe
from bgbias.masks.u2net import NETS


def fine_tune(
    place: Path,
    out: Path,
    report: Path,
    start: str | None,
    kind: str,
    folds: int,
    recipe: Recipe,
    always: bool = False,
    device: str = "cpu",
) -> None:
    """Judge by ``folds`` on the pairs of ``place``, and write weights to ``out`` if they help, or ``always``.

    It starts from the weights ``start``, or, if None, from the published ones. Figures and pictures of the judgement go to
    ``report``. ``out`` appears complete or not at all.
    """
    if out.suffix != ".safetensors":
        raise UserError(f"Weights are written as .safetensors; {out} is not called so. Correct --out.")
    if kind not in NETS:
        raise UserError(f"There is no net '{kind}' to fine-tune; there are: {', '.join(NETS)}.")
    pairs = mask_pairs.read_pairs(place)
    net = NETS[kind]()
    saliency.load_weights(net, source(start) if start else masker.weights_of(kind, "--start"), kind)
    judged = cross_validation.cross_validate(pairs, net, recipe, folds, device)
    cross_validation.write(judged, report)
    rows = cross_validation.table(judged.verdicts)
    print(rows.to_string(index=False, float_format="{:.3f}".format))
    print(
        "Mean IoU of photos that took part in neither the training nor the choice of their fold. Standard errors are over photos,"
        " and too small, as folds share photos that they train on; gains and losses are more than Student's t allows them at 5 %:"
    )
    print("\n".join(f"  {line}" for line in cross_validation.said(rows)))
    print("What each share (blend) of new weights does to the mean IoU of held-out photos:")
    print(judged.shares.to_string(index=False, float_format="{:.3f}".format))
    progress.say(f"figures and pictures of every photo: {report}/folds.csv, shares.csv, folds.png")
    if not judged.helps:
        print("This does not help: held-out photos gain no more than chance would give, or some group loses.")
    if not (judged.helps or always):
        kept = f"; {out}, from before, is as it was" if out.exists() else ""
        print(f"No weights were written{kept}. Use the masker as it is, draw more masks, or add --always.")
        return
    blend = judged.blend or choice(judged.changes, judged.blends, always=True)
    tuned = fine_tuning.fine_tune(pairs, net, recipe, device)
    fine_tuning.save_unfolded(tuned.at(blend), out)
    print(f"{out}: a share of {blend:g} of new weights, trained on all {len(pairs)} photos.")
    print(f"To use it, under `maskers` in params.yaml:  mine: {{kind: {kind}, options: {{weights: {out}}}}}")
