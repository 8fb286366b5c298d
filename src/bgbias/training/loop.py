"""The training loop: batches, early stopping on a validation score, and going on after an interruption.

Nothing here can reach test photos: ``fit`` gets training batches and a function that scores a model on validation photos.
After every epoch the whole state is saved outside the declared outputs; since all randomness is keyed by epoch and step, a run
that was killed ends with the same weights, bit for bit on a CPU, as one that was not.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from bgbias import progress
from bgbias.compute import optimizers
from bgbias.compute.device import autocast, full_precision
from bgbias.compute.transfer import prefetch
from bgbias.errors import UserError
from bgbias.files.atomic import replacing, write_text
from bgbias.models.model import EmbeddingModel
from bgbias.training.methods import BaseMethod, Batch
from bgbias.training.settings import Train

# Steps from one look at the losses to the next. On a CPU they are there anyway.
LOOKS = {"cpu": 1, "cuda": 50}
# Columns of an epoch that no second run repeats.
SECONDS = ("train_seconds", "validate_seconds")

EpochPasses = Callable[[int, str, int], Iterator[Batch]]
"""(epoch, what for, photos a batch) to batches that show every training photo once."""


def _no_passes(epoch: int, name: str, batch_size: int) -> Iterator[Batch]:
    raise ValueError("this method needs passes over all training photos")


@dataclass
class State:
    """Where a training stands after ``epoch`` epochs."""

    epoch: int = 0
    best_score: float = -math.inf
    best_epoch: int = 0
    best_weights: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)

    def rate(self, images_per_epoch: int) -> float:
        """Training images a second, over all epochs."""
        seconds = sum(self.seconds["train_seconds"])
        return images_per_epoch * len(self.history) / seconds if seconds else 0.0

    @property
    def seconds(self) -> dict[str, list[float]]:
        """What each epoch took, by ``SECONDS``."""
        return {name: [row[name] for row in self.history] for name in SECONDS}

    @property
    def curve(self) -> list[dict[str, float]]:
        """The history that another run of the same training repeats: without seconds."""
        return [{k: v for k, v in row.items() if k not in SECONDS} for row in self.history]

    def is_finished(self, settings: Train) -> bool:
        """Whether the epochs are used up, or ``patience`` of them brought nothing better."""
        return self.epoch >= settings.max_epochs or self.epoch - self.best_epoch >= settings.patience


def fit(
    method: BaseMethod,
    epoch_batches: Callable[[int], Iterator[Batch]],
    validate: Callable[[EmbeddingModel], dict[str, float]],
    monitor: str,
    settings: Train,
    checkpoint: Path,
    history: Path,
    digest: str,
    device: str = "cpu",
    passes: EpochPasses = _no_passes,
) -> State:
    """Train until nothing improves; the model is left with its best epoch's weights.

    ``epoch_batches(epoch)`` yields that epoch's batches, ``passes(epoch, name, batch_size)`` every training photo once, for
    methods that ask for it; ``validate`` returns scores by name, of which ``monitor`` is the one that must strictly improve; if
    it is empty, the last epoch's weights are kept. ``checkpoint`` and ``history`` (CSV, one row an epoch, complete at any moment)
    hold the unfinished state of the training that ``digest`` names; one of another digest is not continued. A loss that is not
    finite is an error.
    """
    model = method.model
    freeze(model.trunk, settings.frozen, model.backbone)
    to_device(method, device)
    optimizer = make_optimizer(method, settings)
    peaks = [float(group["lr"]) for group in optimizer.param_groups]
    state = _restore(checkpoint, digest, method, optimizer) or State()
    if state.epoch:
        progress.say(f"goes on after epoch {state.epoch}")
    write_history(history, state.history)
    while not state.is_finished(settings):
        start = time.perf_counter()
        epoch = state.epoch + 1
        set_rates(optimizer, peaks, settings, epoch)
        losses = train_epoch(method, epoch_batches(epoch), optimizer, settings, device, epoch, passes)
        middle = time.perf_counter()
        model.eval()
        scores = validate(model)
        if monitor and not math.isfinite(scores[monitor]):
            raise UserError(
                f"{monitor} is {scores[monitor]} after epoch {epoch}."
                f" Lower {method.lr_key} (now {settings.lr:g}) in params.yaml."
            )
        state.epoch = epoch
        if not monitor or scores[monitor] > state.best_score:
            state.best_score, state.best_epoch = scores.get(monitor, state.best_score), epoch
            state.best_weights = deepcopy(model.state_dict())
        durations = (middle - start, time.perf_counter() - middle)
        seconds = {name: round(s, 2) for name, s in zip(SECONDS, durations, strict=True)}
        state.history.append({"epoch": epoch, **losses, **scores, **seconds})
        _save(checkpoint, digest, method, optimizer, state)
        write_history(history, state.history)
        text = "  ".join(f"{k} {v:.4f}" for k, v in {**losses, **scores}.items())
        progress.say(f"epoch {epoch}/{settings.max_epochs}  {text}  {sum(durations):.1f} s")
    model.load_state_dict(state.best_weights)
    model.eval()
    return state


def freeze(trunk: nn.Module, parts: Sequence[str], backbone: str) -> None:
    """Keep these parts of a trunk as they are from now on: the modules or parameters that are so called, and all
    inside them. Batch norms in them still follow ``freeze_batch_norm``. A name that is none of the trunk's is an error.

    What lies below the lowest trained part needs no gradients: with the stem and the first stages of MobileNetV2, where its maps
    are largest, a step takes less than half the time.
    """
    parameters = dict(trunk.named_parameters())
    for part in parts:
        inside = [p for name, p in parameters.items() if f"{name}.".startswith(f"{part}.")]
        if not inside:
            names = ", ".join(dict.fromkeys(name.partition(".")[0] for name in parameters))
            raise UserError(
                f"params.yaml: train.frozen: {backbone} has no part '{part}' with parameters. Its parts are {names};"
                " parts inside of these are named with dots."
            )
        for parameter in inside:
            parameter.requires_grad_(False)


def to_device(method: BaseMethod, device: str) -> None:
    """Bring all that training changes to the device, in the memory layout that convolutions are fastest in."""
    for module in method.modules().values():
        module.to(device)
    method.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # unknown to torch's stubs


def set_rates(optimizer: torch.optim.Optimizer, peaks: list[float], settings: Train, epoch: int) -> None:
    """The learning rates of an epoch (from 1), from those at the peak: a function of its number, so that a resumed run agrees."""
    done = (epoch - 1) / settings.max_epochs
    share = 0.5 * (1 + math.cos(math.pi * done)) if settings.schedule == "cosine" else 1.0
    for group, peak in zip(optimizer.param_groups, peaks, strict=True):
        group["lr"] = peak * share


def make_optimizer(method: BaseMethod, settings: Train) -> torch.optim.Optimizer:
    """The optimizer over trunk, embedding layer, class weights (with their own rate) and whatever the method adds."""
    groups: list[dict[str, Any]] = [
        {"params": [p for p in method.model.trunk.parameters() if p.requires_grad], "lr": settings.lr},
        {"params": list(method.model.embedder.parameters()), "lr": settings.embedder_lr or settings.lr},
    ]
    if class_weights := list(method.base_loss.parameters()):
        rate = method.task.loss_lr if method.task else None
        groups.append({"params": class_weights, "lr": rate or settings.lr})
    groups += method.own_parameters(settings.lr)
    shared = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    if settings.optimizer in ("rmsprop", "sgd"):
        kind = optimizers.RMSprop if settings.optimizer == "rmsprop" else optimizers.SGD
        return kind(groups, momentum=settings.momentum, **shared)
    return {"adam": optimizers.Adam, "adamw": optimizers.AdamW}[settings.optimizer](groups, **shared)


def train_epoch(
    method: BaseMethod,
    batches: Iterator[Batch],
    optimizer: torch.optim.Optimizer,
    settings: Train,
    device: str,
    epoch: int,
    passes: EpochPasses = _no_passes,
) -> dict[str, float]:
    """One pass over the batches; the means of the method's losses. A loss that is not finite is an error."""
    method.start_epoch(epoch, lambda name, batch_size: prefetch(passes(epoch, name, batch_size), device))
    for module in method.modules().values():
        module.train()
    every = LOOKS["cuda" if device.startswith("cuda") else "cpu"]
    # Both stay on the device: reading makes a GPU wait.
    losses: list[Tensor] = []
    totals: dict[str, Tensor] = {}
    with full_precision() if method.full_precision else nullcontext():
        stream = prefetch(batches, device)
        for batch in progress.track(stream, settings.iterations_per_epoch, f"epoch {epoch}"):
            with autocast(device, settings.precision):
                parts = method.loss(batch)
            optimizer.zero_grad(set_to_none=True)
            parts["loss"].backward()
            optimizer.step()
            for name, value in parts.items():
                # In float64, as Python adds.
                value = value.detach().double()
                totals[name] = totals[name] + value if name in totals else value
            losses.append(parts["loss"].detach())
            if len(losses) % every == 0:
                _check_losses(losses, every, settings, epoch, method.lr_key)
    if left := len(losses) % every:
        _check_losses(losses, left, settings, epoch, method.lr_key)
    method.end_epoch()
    return {name: float(total) / settings.iterations_per_epoch for name, total in totals.items()}


def _check_losses(losses: Sequence[Tensor], count: int, settings: Train, epoch: int, lr_key: str) -> None:
    """UserError if one of the latest ``count`` losses is not finite."""
    finite = torch.stack(list(losses[-count:])).isfinite().tolist()
    if not all(finite):
        step = len(losses) - count + finite.index(False) + 1
        raise UserError(
            f"The loss is not finite in epoch {epoch}, step {step}. Lower {lr_key} (now {settings.lr:g}), or the"
            " loss's own settings, in params.yaml."
        )


def _save(
    path: Path, digest: str, method: BaseMethod, optimizer: torch.optim.Optimizer, state: State
) -> None:
    saved = {
        "modules": {name: module.state_dict() for name, module in method.modules().items()},
        "optimizer": optimizer.state_dict(),
        "state": vars(state),
        "digest": digest,
    }
    # Through Python's own file, since torch's writer hides that the disk is full.
    with replacing(path) as temporary, temporary.open("wb") as file:
        torch.save(saved, file)


def _restore(path: Path, digest: str, method: BaseMethod, optimizer: torch.optim.Optimizer) -> State | None:
    if not path.exists():
        return None
    try:
        saved = torch.load(path, weights_only=True, map_location="cpu")
        previous = saved["digest"]
    except Exception as error:  # torch raises many kinds for a damaged file
        progress.say(f"{path} is damaged ({error}); starting from the first epoch")
        return None
    if previous != digest:
        progress.say("the unfinished training found here had other settings; starting from the first epoch")
        return None
    for name, module in method.modules().items():
        module.load_state_dict(saved["modules"][name])
    optimizer.load_state_dict(saved["optimizer"])
    return State(**saved["state"])


def write_history(path: Path, rows: list[dict[str, float]]) -> None:
    """A row an epoch, as CSV."""
    write_text(path, pd.DataFrame(rows).to_csv(index=False, na_rep="nan") if rows else "")
