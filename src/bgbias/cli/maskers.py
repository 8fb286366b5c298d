"""Commands that train a masker: the demo's, and one's own, if that helps."""

from pathlib import Path
from typing import Annotated

import typer

from bgbias.cli.arguments import DEFAULT, Device, Params, argument, option
from bgbias.compute import gpu_slots
from bgbias.compute.device import pick
from bgbias.errors import UserError
from bgbias.progress import say
from bgbias.study.params import load

app = typer.Typer()


@app.command()
def toy_masker(
    out: Annotated[Path, option("toy-masker", "out")] = Path("data/weights/u2netp_toy.safetensors"),
    steps: Annotated[int, option("toy-masker", "steps")] = 1600,
    seed: Annotated[int, option("toy-masker", "seed")] = 0,
) -> None:
    """Train the small U²-Net-p of the demo on rendered objects and scenes that no toy dataset shows."""
    from bgbias.masks import training

    print(f"{out}: mean IoU {training.train_on_toys(out, steps=steps, seed=seed):.3f} on other specimens")


@app.command()
def train_masker(
    place: Annotated[Path, argument("train-masker", "photos")],
    out: Annotated[Path, option("train-masker", "out")] = Path("data/weights/u2netp_mine.safetensors"),
    start: Annotated[str | None, option("train-masker", "start")] = None,
    kind: Annotated[str, option("train-masker", "kind")] = "u2netp",
    folds: Annotated[int, option("train-masker", "folds", min=3)] = 4,
    report: Annotated[Path, option("train-masker", "report")] = Path("data/report/masker"),
    always: Annotated[bool, option("train-masker", "always", "--always")] = False,
    steps: Annotated[int, option("train-masker", "steps", min=1)] = 24,
    input_size: Annotated[int, option("train-masker", "input_size", min=32)] = 320,
    seed: Annotated[int, option("train-masker", "seed")] = 0,
    params: Params = DEFAULT,
    device: Device = "auto",
) -> None:
    """Fine-tune a U²-Net masker on hand-drawn masks, if that helps on photos that were held out."""
    gpu_slots.take(load(params).files.at("gpu_slots"), device)
    from bgbias.masks import cross_validation, saliency, training
    from bgbias.masks import pairs as mask_pairs
    from bgbias.masks.predictor import find_weights
    from bgbias.masks.training import Recipe
    from bgbias.masks.u2net import NETS
    from bgbias.report import prose

    if out.suffix != ".safetensors":
        raise UserError(f"Weights are written as .safetensors; {out} is not called so. Correct --out.")
    if kind not in NETS:
        raise UserError(f"There is no net '{kind}' to fine-tune; there are: {', '.join(NETS)}.")
    network_device = pick(device)
    recipe = Recipe(steps=steps, input_size=input_size, seed=seed)
    pairs = mask_pairs.read_pairs(place)
    net = NETS[kind]()
    file = saliency.weights_file(kind, start) if start else find_weights(kind, "--start")
    saliency.load_weights(net, file, kind)
    judged = cross_validation.cross_validate(pairs, net, recipe, folds, network_device)
    cross_validation.write(judged, report)
    is_written = judged.helps or always
    text = prose.lines(
        "judged_masker.j2",
        rows=judged.rows.to_string(index=False, float_format="{:.3f}".format),
        changes=cross_validation.summary(judged.rows).to_dict("records"),
        shares=judged.shares.to_string(index=False, float_format="{:.3f}".format),
        helps=judged.helps,
        is_written=is_written,
        out=out,
    )
    print(text)
    say(f"figures and pictures of every photo: {report}/folds.csv, shares.csv, folds.png")
    if not is_written:
        return
    blend = judged.blend or cross_validation.choice(judged.changes, judged.blends, always=True)
    tuned = training.fine_tune(pairs, net, recipe, network_device)
    training.save_unfolded(tuned.at(blend), out)
    print(f"{out}: a share of {blend:g} of new weights, trained on all {len(pairs)} photos.")
    print(f"To use it, under `maskers` in params.yaml:  mine: {{kind: {kind}, options: {{weights: {out}}}}}")
