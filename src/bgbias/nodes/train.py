"""Model nodes: train a cell; embed, score and attribute its test photos."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from bgbias import plugins, seeds
from bgbias.engine import digests, records
from bgbias.errors import UserError
from bgbias.evaluation import photos as loading
from bgbias.files.atomic import replacing
from bgbias.nodes._models import _fresh_model
from bgbias.study import plan
from bgbias.study.album import Album
from bgbias.study.cell import Cell
from bgbias.study.params import Study, loss_options, options

if TYPE_CHECKING:
    from bgbias.models.model import EmbeddingModel


def train(study: Study, cell: Cell, device: str = "auto") -> None:
    """Train a cell until its validation score no longer improves; an interrupted run goes on where it stopped."""
    import torch

    from bgbias.compute.device import describe, pick
    from bgbias.models.inference import embed_views
    from bgbias.models.model import save
    from bgbias.training import loop
    from bgbias.training.batches import Batch
    from bgbias.training.methods import Task

    files, settings = study.files, study.train
    digest = digests.digest(study, "train", cell=cell)
    outputs = {name: files.at(name, **cell.wildcards) for name in ("model", "history")}
    with records.node(study, "train", outputs, files.at("train_record", **cell.wildcards), cell=cell) as made:
        device = pick(device)
        made.device = describe(device)
        model = _fresh_model(study, cell)
        album = Album(study, cell.dataset, model.resize, model.input_size, cell.fold)
        named = plan.method(study, cell)
        photos = album.training(named.needs, device)
        validation = album.evaluation(album.table("val"), plan.needs(study, cell), "val")
        condition = plan.selection_condition(study, cell)
        workers = loading.workers(device)

        loss_module = plugins.load("losses", cell.loss)
        loss_settings = options(study, "losses", cell.loss, loss_options(study, cell.dataset, cell.loss))
        weights = seeds.torch_generator("loss", cell.dataset, cell.loss, cell.run)
        n_classes = int(photos.labels.max()) + 1
        base_loss = loss_module.build(loss_settings, n_classes, settings.embedding_dim, weights)
        task = Task(torch.from_numpy(photos.labels), (cell.dataset, cell.run))
        method = named.build(model, base_loss, task)

        def epoch_batches(epoch: int) -> Iterator[Batch]:
            return photos.epoch(
                (cell.dataset, cell.run, epoch),
                settings.batch_size,
                method.images_per_class or loss_module.IMAGES_PER_CLASS,
                settings.iterations_per_epoch,
                settings.crop_scale,
                settings.crop_ratio,
            )

        def passes(epoch: int, name: str, batch_size: int) -> Iterator[Batch]:
            key = (cell.dataset, cell.run, epoch, name)
            return photos.every(key, batch_size, settings.crop_scale, settings.crop_ratio)

        def validate(trained: EmbeddingModel) -> dict[str, float]:
            # One fixed draw for corrupted validation: redrawing it each epoch would favour lucky epochs.
            views = (
                validation.views(range(1), clean=False, workers=workers)
                if condition == "corrupted"
                else validation.views(range(0), workers=workers)
            )
            found = embed_views(trained, views, device, settings.precision, study.evaluation.batch_size)
            scores = _means(found, validation.table.labels)
            suffix = "" if condition == "clean" else "_corrupted"
            return {f"val{suffix}_{name}": value for name, value in scores.items()}

        monitor = "val_map_at_r" if condition == "clean" else "val_corrupted_map_at_r"
        partial = files.at("partial", grid=study.grid, **cell.wildcards)
        history = files.at("partial_history", grid=study.grid, **cell.wildcards)
        state = loop.fit(
            method, epoch_batches, validate, monitor, settings, partial, history, digest, device,
            getattr(loss_settings, "lr", None), passes,
        )  # fmt: skip
        save(
            model,
            outputs["model"],
            {"cell": cell.wildcards, "digest": digest, "best_epoch": state.best_epoch},
        )
        with replacing(outputs["history"]) as temporary:
            shutil.copyfile(history, temporary)
        made.metrics |= {
            "best_epoch": state.best_epoch,
            "epochs": state.epoch,
            f"best_{monitor}": state.best_score,
        }
        made.metrics["images_per_second"] = _rate(
            state.history, settings.batch_size * settings.iterations_per_epoch
        )
        made.notes["deterministic"] = device == "cpu"
        made.notes["photos_without_trusted_mask"] = photos.without_trusted_mask
        if device.startswith("cuda"):
            made.metrics["peak_gpu_memory_mb"] = torch.cuda.max_memory_allocated() / 2**20
    shutil.rmtree(partial.parent, ignore_errors=True)


def _means(vectors: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    from bgbias.evaluation.retrieval import neighbours

    ranked = neighbours(vectors, labels, vectors, labels)
    chosen = ("map_at_r", "precision_at_1")
    values = {name: plugins.load("metrics", name).per_query(ranked) for name in chosen}
    if np.isnan(values["map_at_r"]).all():
        raise UserError(
            "No validation photo has another one of its class; give the validation split more photos a class."
        )
    return {name: float(np.nanmean(v)) for name, v in values.items()}


def _rate(history: list[dict[str, float]], images_per_epoch: int) -> float:
    seconds = sum(row["train_seconds"] for row in history)
    return images_per_epoch * len(history) / seconds if seconds else 0.0
