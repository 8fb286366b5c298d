"""Settings for the studies of real photos, looked for on validation classes alone: `make docs-settings`.

``python docs/settings cub50`` trains plainly with each candidate and loss that ``cub50.csv`` beside this file does not
have yet: seed 0, 400 steps, a row for every 50. What a candidate does not name is as the grid's own training says. The same for
the untrained backbone: its pooled features, and these under the random embedding layers of three seeds. A GPU is used where there
is one. Test photos, masks and other backgrounds are not looked at.
A table should be begun and ended on one machine: its record names the last.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from bgbias import plugins
from bgbias.compute import device
from bgbias.models.settings import How
from bgbias.nodes._models import fresh_model
from bgbias.report import names
from bgbias.report.pages import markdown
from bgbias.results.publication import note_tables
from bgbias.study import params, plan
from bgbias.study.album import Album
from bgbias.study.cell import Cell
from bgbias.study.params import Study
from bgbias.study.training import build_method
from bgbias.training import loop
from bgbias.training.batches import Epochs
from bgbias.training.settings import Train
from bgbias.training.validation import Validation

ROOT = Path(__file__).resolve().parents[2]
HERE = Path("docs/settings")
STEM = tuple(str(block) for block in range(7))  # of MobileNetV2: down to maps of 28 x 28
DEEP = tuple(str(block) for block in range(14))  # down to maps of 14 x 14
SHORT: dict[str, Any] = {"iterations_per_epoch": 50, "max_epochs": 8, "patience": 8, "schedule": "cosine"}
RATES: dict[str, Any] = {"lr": 2e-5, "embedder_lr": 1e-4, "frozen": ()}
CANDIDATES: dict[str, dict[str, Any]] = {
    "blocks 0-6 frozen, trunk 2e-5": {"frozen": STEM},
    "blocks 0-6 frozen, trunk 5e-5": {"frozen": STEM, "lr": 5e-5},
    "blocks 0-6 frozen, trunk 1e-4": {"frozen": STEM, "lr": 1e-4},
    "blocks 0-13 frozen, trunk 5e-5": {"frozen": DEEP, "lr": 5e-5},
    "blocks 0-13 frozen, trunk 1e-4": {"frozen": DEEP, "lr": 1e-4},
    "nothing frozen, trunk 2e-5": {},
}
CHOSEN = "blocks 0-13 frozen, trunk 5e-5"  # for the grids `cub50` and `grocery`
UNTRAINED = {"pooled features": True, "random embedding layer": False}
SEEDS = (0, 1, 2)


def plain(study: Study, dataset: str, loss: str) -> Cell:
    """The grid's first model that is trained plainly with this loss."""
    of = (dataset, loss, "plain")
    return next(cell for cell in plan.cells(study) if (cell.dataset, cell.loss, cell.method) == of)


def validation(study: Study, album: Album) -> Validation:
    """What scores a model on the clean validation photos."""
    shown = album.evaluation(album.table("val"), (), "val")
    how = How(device.pick(), study.train.precision, study.evaluation.batch_size)
    return Validation(shown, "clean", how)


def trained(study: Study, cell: Cell, name: str) -> pd.DataFrame:
    """Validation scores of one candidate after each epoch."""
    changed = study.train.model_dump() | SHORT | RATES | CANDIDATES[name]
    study = study.model_copy(update={"train": Train.model_validate(changed)})
    model = fresh_model(study, cell)
    album = Album(study, cell.dataset, model.resize, model.input_size)
    photos, validate = album.training(plan.method(study, cell).needs, device.pick()), validation(study, album)
    method = build_method(study, cell, model, photos.labels)
    per_class = int(method.images_per_class or plugins.load("losses", cell.loss).IMAGES_PER_CLASS)
    epochs = Epochs(photos, (cell.dataset, cell.run), study.train, per_class)
    with tempfile.TemporaryDirectory() as scratch:
        unfinished = Path(scratch) / "state", Path(scratch) / "curve"
        state = loop.fit(
            method, epochs.batches, validate, validate.monitor, study.train, *unfinished, name, device.pick(),
            getattr(plan.loss_params(study, cell), "lr", None),
        )  # fmt: skip
    return pd.DataFrame(state.history).rename(columns={"loss": "training_loss"})


def untrained(study: Study, cell: Cell, pooled: bool) -> pd.DataFrame:
    """The same score of the backbone as it comes, a row a seed of the embedding layer."""
    rows = []
    for seed in SEEDS[: 1 if pooled else None]:
        model = fresh_model(study, dataclasses.replace(cell, seed=seed)).eval().to(device.pick())
        album = Album(study, cell.dataset, model.resize, model.input_size)
        if pooled:
            model.forward = model.pooled  # type: ignore[method-assign]
        rows.append({"epoch": 0, "seed": seed, **validation(study, album)(model)})
    return pd.DataFrame(rows)


def search(study: Study, dataset: str) -> Iterator[pd.DataFrame]:
    """What the table lacks, finished part by finished part."""
    losses = list(dict.fromkeys(cell.loss for cell in plan.cells(study) if cell.method == "plain"))
    known = {tuple(row) for row in read(dataset)[["loss", "settings"]].itertuples(index=False)}
    wanted = [("none", name) for name in UNTRAINED] + [(loss, name) for name in CANDIDATES for loss in losses]
    for loss, name in wanted:
        if (loss, name) in known:
            continue
        cell = plain(study, dataset, losses[0] if loss == "none" else loss)
        found = untrained(study, cell, UNTRAINED[name]) if loss == "none" else trained(study, cell, name)
        found.insert(0, "settings", name)
        found.insert(0, "loss", loss)
        yield found


def read(dataset: str) -> pd.DataFrame:
    """What was found so far."""
    file = ROOT / HERE / f"{dataset}.csv"
    return pd.read_csv(file) if file.exists() else pd.DataFrame(columns=["loss", "settings"])


def shown(rows: pd.DataFrame) -> str:
    """A row for each setting as Markdown: the best validation MAP@R of each loss, its step, and what training took."""
    rows = rows.assign(score=100 * rows["val_map_at_r"])
    trained = rows[rows["loss"] != "none"]
    losses = list(dict.fromkeys(trained["loss"]))
    heads = ["settings", *(f"{names.loss(loss)} (at step)" for loss in losses), "minutes of training"]
    table = []
    for name in UNTRAINED:
        score = rows.loc[rows["settings"] == name, "score"].mean()
        table.append([f"untrained, {name}", *[f"{score:.1f}"] * len(losses), "–"])
    for name in CANDIDATES:
        line = [name]
        for loss in losses:
            curve = trained[(trained["loss"] == loss) & (trained["settings"] == name)]
            best = curve.loc[curve["score"].idxmax()] if len(curve) else None
            steps = SHORT["iterations_per_epoch"]
            line.append("–" if best is None else f"{best['score']:.1f} ({best['epoch'] * steps:.0f})")
        minutes = trained[trained["settings"] == name].groupby("loss")["train_seconds"].sum() / 60
        table.append([*line, ", ".join(f"{minutes[loss]:.1f}" for loss in losses if loss in minutes)])
    return markdown(pd.DataFrame(table, columns=heads))


def tables() -> dict[str, str]:
    """Each table as its page shows it."""
    return {"cub50": shown(read("cub50"))}


def completed(datasets: list[str]) -> Iterator[Path]:
    """Find what the tables of these datasets lack; gives those that had something to add."""
    for dataset in datasets:
        table = HERE / f"{dataset}.csv"
        is_complete = True
        for found in search(params.load(grid=dataset), dataset):
            is_complete = False
            pd.concat([read(dataset), found]).to_csv(ROOT / table, index=False)
        if not is_complete:
            yield table


if __name__ == "__main__":
    note_tables("settings", "make docs-settings", completed(sys.argv[1:]))
