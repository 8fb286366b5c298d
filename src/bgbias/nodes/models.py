"""Model nodes: train a cell; embed, score and attribute its test photos."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bgbias import digests, embedding, embeddings, plan, plugins, pretrained, records, seeds
from bgbias.album import Album
from bgbias.atomic import replacing
from bgbias.embeddings import Embeddings
from bgbias.errors import UserError
from bgbias.image_table import ImageTable
from bgbias.params import Study, loss_options, options
from bgbias.plan import Cell

if TYPE_CHECKING:
    from bgbias.model import EmbeddingModel

PAIRED_MAPS = 8  # attribution maps kept for figures


def train(study: Study, cell: Cell, device: str = "auto") -> None:
    """Train a cell until its validation score no longer improves; an interrupted run goes on where it stopped."""
    import torch

    from bgbias import training
    from bgbias.batches import Batch
    from bgbias.device import describe, pick
    from bgbias.embedding import embed_views
    from bgbias.methods import Task
    from bgbias.model import save

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
        workers = embedding.workers(device)

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
        state = training.fit(
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


def embed(study: Study, cell: Cell, device: str = "auto") -> None:
    """Embed a cell's test photos, clean and before every draw of backgrounds, decoding each photo once. Four folds' models side
    by side have embedded them already.
    """
    files = study.files
    outputs = {"embeddings": files.at("embeddings", **cell.wildcards)}
    with records.node(study, "embed", outputs, files.at("embed_record", **cell.wildcards), cell=cell) as made:
        if parts := plan.folds_of(study, cell):
            by_fold = [embeddings.read(files.at("embeddings", **part.wildcards)) for part in parts]
            found = embeddings.side_by_side(by_fold)
        else:
            found = _embedded(study, cell, device, made)
        found.write(outputs["embeddings"])
        made.metrics |= {"photos": len(found.ids), "photos_without_trusted_mask": int((~found.usable).sum())}


def attribute(study: Study, cell: Cell, device: str = "auto") -> None:
    """Score how much of a cell's attribution lies on the object, for a keyed subset of its test photos."""
    from bgbias.device import describe, pick

    files, settings = study.files, study.attribution
    outputs = {name: files.at(name, **cell.wildcards) for name in ("attribution", "maps")}
    with records.node(
        study, "attribute", outputs, files.at("attribute_record", **cell.wildcards), cell=cell
    ) as made:
        device = pick(device)
        made.device = describe(device)
        model = model_of(study, cell).to(device)
        album = Album(study, cell.dataset, model.resize, model.input_size)
        photos = album.evaluation(attribution_subset(album.table("test"), settings.images), {"masks"}, "test")
        from bgbias.attribution import attribute_photos

        distance = plugins.load("losses", cell.loss).DISTANCE
        frame, maps = attribute_photos(model, photos, distance, settings, device, keep=PAIRED_MAPS)
        if settings.similarity is not None:
            from bgbias.similarity_attribution import attribute_pairs

            pairs = attribute_pairs(model, photos, album.table("test"), settings, device)
            frame = pd.concat([frame, pairs], ignore_index=True)
        with replacing(outputs["attribution"]) as temporary:
            frame.to_csv(temporary, index=False)
        with replacing(outputs["maps"]) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **maps)  # type: ignore[arg-type]  # the stubs see an option
        for variant, part in frame.groupby("variant"):
            made.metrics |= {
                f"attribution_{variant}": float(part["score"].mean()),
                f"attribution_{variant}_below_0": float((part["score"] < 0).mean()),
                f"attribution_{variant}_skipped": int(part["score"].isna().sum()),
            }


def _embedded(study: Study, cell: Cell, device: str, made: records.Record) -> Embeddings:
    from bgbias.device import describe, pick
    from bgbias.model import for_inference

    device = pick(device)
    made.device = describe(device)
    model = for_inference(model_of(study, cell).to(device))
    album = Album(study, cell.dataset, model.resize, model.input_size)
    photos = album.evaluation(album.table("test"), {"masks", "backgrounds"}, "test")
    settings = study.evaluation
    pooled = not plan.trains(study, cell)
    return embedding.embed(
        model, photos, settings.draws, device, settings.precision, settings.batch_size, pooled
    )


def attribution_subset(table: ImageTable, count: int | None) -> ImageTable:
    """The first ``count`` photos in the order of their keys' numbers (all if None): the same ones for every model."""
    numbers = [seeds.number(seeds.key("attribution", *key)) for key in table.keys]
    chosen = np.argsort(np.array(numbers, dtype=np.uint64), kind="stable")[:count]
    return ImageTable(table.frame.iloc[chosen].reset_index(drop=True))


def model_of(study: Study, cell: Cell) -> EmbeddingModel:
    """The cell's model: as it was trained, or its backbone as it comes."""
    from bgbias.model import load

    return (
        load(study.files.at("model", **cell.wildcards))
        if plan.trains(study, cell)
        else _fresh_model(study, cell)
    )


def _fresh_model(study: Study, cell: Cell) -> EmbeddingModel:
    """The cell's model before any training: the backbone's weights, if it has any, and a random embedding layer."""
    from bgbias.model import build_model

    return build_model(
        cell.backbone,
        options(study, "backbones", cell.backbone, study.backbones[cell.backbone]),
        study.train.embedding_dim,
        seeds.torch_generator("model", cell.dataset, cell.backbone, cell.run),
        study.train.freeze_batch_norm,
        pretrained.file(study, pretrained.owner("backbones", cell.backbone)),
    )


def _means(vectors: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    from bgbias.retrieval import neighbours

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
