"""Node: one trained model."""

import shutil

from bgbias import plugins
from bgbias.engine import inputs, records
from bgbias.engine.forecast import Cost, model_bytes, photos_of
from bgbias.engine.node import Dependencies, Limits, step
from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.models.settings import How
from bgbias.nodes._models import fresh_model, with_statistics
from bgbias.study import CELL, Cell, plan
from bgbias.study.params import Study, loss_options
from bgbias.training.settings import METRICS

SUBJECT = ("cell",)
OUTPUTS = {
    "model": f"RUNS/models/{CELL}/model.safetensors",
    "history": f"RUNS/models/{CELL}/history.csv",
    "train_record": f"RUNS/models/{CELL}/run.json",
}
LIMITS = Limits(memory_mb=8000, minutes=1440)
CURVE = "history"  # grows while the node works


def depends(study: Study, cell: Cell) -> Dependencies:
    """Of code the loss and the method, how these two go together, and what scores the validation photos."""
    plan.check_is_network(study, cell)
    if not plan.trains(study, cell):
        raise UserError(f"{cell.name} is not trained: it is the backbone as it comes.")
    method, needs = plan.method(study, cell), plan.needs(study, cell)
    selection = plan.selection_condition(study, cell)
    condition = RANDOM_BACKGROUND if selection == "corrupted" else CLEAN
    by = [("losses", cell.loss), ("conditions", condition), *(("metrics", name) for name in METRICS)]
    by += [("repulsions", cell.loss)] * method.repels + method.uses
    photos = inputs.album(study, cell.dataset, needs, "train", "val", backbone=cell.backbone)
    return Dependencies(
        files=photos | inputs.backbone_weights(study, cell),
        settings={
            "train": study.train.model_dump(exclude={"selection"}),
            "selection": selection,
            "loss": loss_options(study, cell.dataset, cell.loss),
            **inputs.backbone(study, cell),
            **({"method": method.identity} if method.identity else {}),
            **(inputs.mask_policy(study) if "masks" in needs else {}),
        },
        code=[method.module, *(plugins.load(*one) for one in by)],
    )


def cost(study: Study, cell: Cell) -> Cost:
    """From the epochs that patience alone takes to all that are allowed, each with its validation."""
    chosen, protocol = plan.method(study, cell), study.train
    method, params = chosen.module.Method, chosen.params()
    forward, backward = method.photos_a_step(params, protocol.batch_size)
    of_training, _ = photos_of(study, cell.dataset, "train")
    validated, _ = photos_of(study, cell.dataset, "val")
    images, unknown = photos_of(study, cell.dataset, "train", "val")
    least, most = min(protocol.patience + 1, protocol.max_epochs), protocol.max_epochs

    def passes(epochs: int) -> int:
        between: int = method.photos_between_epochs(params, of_training, epochs)
        return epochs * (protocol.iterations_per_epoch * forward + validated) + between

    def returned(epochs: int) -> int:
        return int(epochs * protocol.iterations_per_epoch * backward)

    there, back = ((count(least), count(most)) for count in (passes, returned))
    return Cost(images, there, back, model_bytes(study, cell), unknown)


def train(study: Study, cell: Cell, device: str = "auto") -> None:
    """Train one model. Resumes an interrupted run."""
    from bgbias.models.model import save
    from bgbias.models.norms import is_folded
    from bgbias.study.album import Album
    from bgbias.study.training import build_method
    from bgbias.training import loop
    from bgbias.training.batches import Epochs
    from bgbias.training.validation import Validation

    with records.node(study, step("train", cell=cell)) as record:
        device = record.on(device)
        settings = study.train
        model = fresh_model(study, cell)
        album = Album(study, cell.dataset, model.resize, model.input_size, cell.fold, cell.backbone)
        photos = album.training(plan.method(study, cell).needs, device)
        validation = album.evaluation(album.table("val"), plan.needs(study, cell), "val")
        how = How(device, settings.precision, study.evaluation.batch_size)
        validate = Validation(validation, plan.selection_condition(study, cell), how)
        method = build_method(study, cell, model, photos.labels)
        if not model.freeze_batch_norm and is_folded(model):
            # Whether norms learn is known when the method is there; it may have copied folded ones, and is made anew.
            model = fresh_model(study, cell)
            record.notes |= with_statistics(model, album)
            method = build_method(study, cell, model, photos.labels)
        per_class = int(method.images_per_class or plugins.load("losses", cell.loss).IMAGES_PER_CLASS)
        batches_a_step = method.batches_a_step
        epochs = Epochs(photos, (cell.dataset, cell.run), settings, per_class, batches_a_step)
        checkpoint = study.files.at("partial", grid=study.grid, **cell.wildcards)
        history = study.files.at("partial_history", grid=study.grid, **cell.wildcards)
        state = loop.fit(
            method, epochs.batches, validate, validate.monitor, settings, checkpoint, history, record.digest, device,
            epochs.passes,
        )  # fmt: skip
        header = {"cell": cell.wildcards, "digest": record.digest, "best_epoch": state.best_epoch}
        save(model, record.outputs["model"], header)
        # Seconds in a product would make it another one each time; the record has them.
        loop.write_history(record.outputs["history"], state.curve)
        record.epoch_seconds |= state.seconds
        record.metrics |= {"best_epoch": state.best_epoch, "epochs": state.epoch}
        record.metrics[f"best_{validate.monitor}"] = state.best_score
        record.metrics["images_per_second"] = state.rate(
            batches_a_step * settings.batch_size * settings.iterations_per_epoch
        )
        steps = settings.iterations_per_epoch * state.epoch
        record.metrics["seconds_a_step"] = sum(state.seconds["train_seconds"]) / steps
        record.notes["deterministic"] = "with this machine and threads" if device == "cpu" else "no"
        record.notes["photos_without_trusted_mask"] = photos.without_trusted_mask
    shutil.rmtree(checkpoint.parent, ignore_errors=True)
