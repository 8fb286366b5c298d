"""Training with background replacement on a GPU: from prepared photos, against batches that lie in its memory."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import Contender, Figure, Measured
from benchmarks._utilisation import Utilisation

TITLE = "training steps with background replacement, BN-Inception at 227, contrastive loss"
DEVICES = ("cuda",)
THREADS = None
ROUNDS = 3
STEPS = {
    32: 300,
    128: 100,
}  # of each batch size; some seconds, since a GPU's utilisation is told a few times a second
PER_CLASS, IN_MEMORY = 4, 8
AT_LEAST, BUSY = 0.95, 90.0


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from benchmarks import _album
    from bgbias.compute.transfer import to_device
    from bgbias.models.backbones import bn_inception
    from bgbias.models.backbones import tiny as small
    from bgbias.training.batches import Epochs
    from bgbias.training.settings import Train

    facts = small.FACTS if tiny else bn_inception.FACTS
    made = _album.album(8 if tiny else max(STEPS), 2 if tiny else 60)
    photos = _album.training(made, facts.input_size, device=device)
    watch = Utilisation(device)
    for size in STEPS:
        batch, steps = (8, 2) if tiny else (size, STEPS[size])
        train = _training(device, steps, tiny)

        def epoch(batch: int = batch, steps: int = steps) -> Iterator[Any]:
            settings = Train(batch_size=batch, iterations_per_epoch=steps)
            return Epochs(photos, ("bench", 0), settings, PER_CLASS).batches(1)

        there = [to_device(one, device) for one in epoch(steps=min(steps, IN_MEMORY))]

        def on_tensors(train: Any = train, there: Any = there, steps: int = steps) -> None:
            train(itertools.islice(itertools.cycle(there), steps))

        def on_photos(train: Any = train, epoch: Any = epoch) -> Any:
            begin = time.perf_counter()
            train(epoch())
            return watch.between(begin, time.perf_counter()), watch.missing

        yield Contender(ours(size), "ours", on_photos)
        yield Contender(_limit(size), "limit", on_tensors)


def judge(measured: Measured) -> list[Figure]:
    figures = []
    for size, steps in STEPS.items():
        batch, steps = (8, 2) if measured.tiny else (size, steps)
        seen, missing = measured.results[ours(size)]
        missing = "" if seen else missing or "it was over before nvidia-smi told"
        what = f"share of the images/s on batches in the GPU's memory, batch {size}"
        figures += [
            measured.ratio(what, _limit(size), ours(size), at_least=AT_LEAST),
            measured.rate(f"images/s, batch {size}", ours(size), batch * steps, "/s"),
            Figure(f"GPU busy, batch {size}", seen, at_least=BUSY, unit="% of the time", missing=missing),
        ]
    return figures


def ours(size: int) -> str:
    """The contender that trains on photos in batches of this size."""
    return f"photos, batch {size}"


def _limit(size: int) -> str:
    return f"batches in the GPU's memory, batch {size}"


def _training(device: str, steps: int, tiny: bool) -> Callable[[Iterator[Any]], object]:
    """The real loop over given batches, with a model of its own."""
    from bgbias import plugins, seeds
    from bgbias.models.model import build_model
    from bgbias.training import loop
    from bgbias.training.settings import Train

    backbone, options = ("tiny", {}) if tiny else ("bn_inception", {"weights": None})
    params = plugins.load("backbones", backbone).Params.model_validate(options)
    model = build_model(backbone, params, 128, seeds.torch_generator("bench"))
    loss = plugins.load("losses", "contrastive")
    base = loss.build(loss.Params(pos_margin=0, neg_margin=0.5), 0, 128, seeds.torch_generator("bench"))
    method = plugins.load("methods", "bgaugment").Method(model, base)
    settings = Train(iterations_per_epoch=steps)
    loop.to_device(method, device)
    optimizer = loop.make_optimizer(method, settings)
    return lambda batches: loop.train_epoch(method, batches, optimizer, settings, device, 1)
