"""A training step on real photos, against the same step on tensors that lie in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import Contender, Figure, Measured

TITLE = "training steps on photos, MobileNetV2 at 224, batch 32, contrastive loss"
DEVICES = ("cpu",)
THREADS = None
LIMIT, PLAIN, CURE = "plain on tensors in memory", "plain on photos", "bgaugment on photos"
STEPS, BATCH, PER_CLASS = 4, 32, 4


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from benchmarks import _album
    from bgbias.models.backbones.mobilenet_v2 import FACTS
    from bgbias.training.batches import Epochs
    from bgbias.training.settings import Train

    made = _album.album(8 if tiny else 96, 2 if tiny else 60)
    shown = {m: _album.training(made, FACTS.input_size, m == "bgaugment") for m in ("plain", "bgaugment")}
    steps, batch = (1, 8) if tiny else (STEPS, BATCH)

    def epoch(method: str) -> Any:
        settings = Train(batch_size=batch, iterations_per_epoch=steps)
        return Epochs(shown[method], ("bench", 0), settings, PER_CLASS).batches(1)

    in_memory = list(epoch("plain"))
    yield Contender(LIMIT, "limit", _steps("plain", lambda: iter(in_memory), steps, device))
    yield Contender(PLAIN, "ours", _steps("plain", lambda: epoch("plain"), steps, device))
    yield Contender(CURE, "ours", _steps("bgaugment", lambda: epoch("bgaugment"), steps, device))


def judge(measured: Measured) -> list[Figure]:
    steps = 1 if measured.tiny else STEPS
    return [
        measured.ratio("photos by tensors in memory", PLAIN, LIMIT, at_most=1.12),
        measured.ratio("bgaugment by plain", CURE, PLAIN, at_most=1.05),
        measured.rate("images/s, plain", PLAIN, steps * BATCH, "/s"),
    ]


def _steps(method: str, batches: Callable[[], Any], steps: int, device: str) -> Callable[[], object]:
    """Some steps of the real training loop, with a model of its own."""
    from bgbias import plugins, seeds
    from bgbias.models.backbones.mobilenet_v2 import Params
    from bgbias.models.model import build_model
    from bgbias.training import loop
    from bgbias.training.settings import Train

    model = build_model("mobilenet_v2", Params(weights=None), 128, seeds.torch_generator("bench"))
    loss = plugins.load("losses", "contrastive")
    base = loss.build(loss.Params(pos_margin=0, neg_margin=0.5), 0, 128, seeds.torch_generator("bench"))
    wrapped = plugins.load("methods", method).Method(model, base)
    settings = Train(iterations_per_epoch=steps)
    loop.to_device(wrapped, device)
    optimizer = loop.make_optimizer(wrapped, settings)
    return lambda: loop.train_epoch(wrapped, batches(), optimizer, settings, device, 1)
