"""Node: what a backbone has learned from photos without their labels, where models of it begin (docs/methods.md, section 6)."""

import shutil

from bgbias.engine import inputs, records
from bgbias.engine.forecast import MODEL_BYTES, Cost, photos_of
from bgbias.engine.node import Dependencies, Limits, step
from bgbias.errors import UserError
from bgbias.nodes._models import network, with_statistics
from bgbias.photos.folds import seed_and_fold
from bgbias.study import Study, plan
from bgbias.study.named import NamedEntry

SUBJECT = ("backbone", "dataset", "run")
WHERE = "pretrained/{backbone}/{dataset}/seed{run}"
OUTPUTS = {
    "pretrained": f"RUNS/models/{WHERE}/pretrained.safetensors",
    "pretraining_history": f"RUNS/models/{WHERE}/history.csv",
    "pretrain_record": f"RUNS/models/{WHERE}/run.json",
}
LIMITS = Limits(memory_mb=8000, minutes=1440)
CURVE = "pretraining_history"  # grows while the node works


def depends(study: Study, backbone: str, dataset: str, run: str) -> Dependencies:
    network, pretraining = plan.backbone(study, backbone), _find_pretraining(study, backbone)
    params = pretraining.params()
    photos = inputs.album(study, dataset, params.needs, backbone=backbone)
    return Dependencies(
        files=photos | inputs.weights(network),
        settings={
            "pretraining": {"kind": pretraining.kind, **params.model_dump(exclude={"dataset"})},
            **inputs.backbone_settings(study, backbone),
            **(inputs.mask_policy(study) if "masks" in params.needs else {}),
        },
        code=[network.module, pretraining.module],
    )


def cost(study: Study, backbone: str, dataset: str, run: str) -> Cost:
    pretraining = _find_pretraining(study, backbone)
    params, (images, unknown) = pretraining.params(), photos_of(study, dataset, "train")
    if not unknown:
        params.check(images)
    forward, backward = pretraining.module.Pretraining.photos_a_step(params, params.batch_size)
    steps = params.epochs * (images // params.batch_size)
    there, back = ((steps * count, steps * count) for count in (forward, backward))
    return Cost(images, there, back, MODEL_BYTES, unknown)


def pretrain(study: Study, backbone: str, dataset: str, run: str, device: str = "auto") -> None:
    """Pretrain a backbone without labels. On a dataset's training photos; resumes an interrupted run."""
    from bgbias.files import state_dicts
    from bgbias.study.album import Album
    from bgbias.training import loop
    from bgbias.training.pretraining import epoch_views

    pretraining, (_, fold) = _find_pretraining(study, backbone), seed_and_fold(run)
    node = step("pretrain", backbone=backbone, dataset=dataset, run=run)
    with records.node(study, node) as record:
        device = record.on(device)
        params, key = pretraining.params(), (dataset, run)
        # Its embedding layer learns nothing; a grid's embedding_dim must not be in what an interrupted run keeps.
        model = network(study, backbone, ("pretraining", *key), freeze_batch_norm=False, dim=1)
        album = Album(study, dataset, model.resize, model.input_size, fold, backbone)
        record.notes |= with_statistics(model, album)
        photos = album.training(params.needs, device)
        training = params.as_training(len(photos.labels))
        steps = training.max_epochs * training.iterations_per_epoch
        method = pretraining.module.Pretraining(model, params, key, steps)
        method.lr_key = f"pretrainings.{pretraining.name}.lr"
        checkpoint, history = (
            study.files.at(name, grid=study.grid, **node.wildcards)
            for name in ("partial_pretraining", "partial_pretraining_history")
        )
        state = loop.fit(
            method,
            lambda epoch: epoch_views(photos, key, epoch, params),
            lambda model: {},
            "",
            training,
            checkpoint,
            history,
            record.digest,
            device,
        )
        state_dicts.write_state_dict(model.trunk.state_dict(), record.outputs["pretrained"])
        loop.write_history(record.outputs["pretraining_history"], state.curve)
        record.epoch_seconds |= state.seconds
        views = 2 * params.batch_size * training.iterations_per_epoch
        record.metrics |= {"epochs": state.epoch, "images_per_second": state.rate(views)}
        record.metrics["seconds_a_step"] = sum(state.seconds["train_seconds"]) / steps
        record.notes["deterministic"] = "with this machine and threads" if device == "cpu" else "no"
    shutil.rmtree(checkpoint.parent, ignore_errors=True)


def _find_pretraining(study: Study, backbone: str) -> NamedEntry:
    pretraining = plan.pretraining(study, backbone)
    if pretraining is None:
        raise UserError(
            f"{backbone} is not pretrained here: backbones.{backbone} in params.yaml names no `pretraining`."
        )
    return pretraining
