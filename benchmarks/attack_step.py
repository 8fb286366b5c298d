"""An attack on a batch as adversarial training makes it, against its passes through the network alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import Contender, Figure, Measured

TITLE = "one step of an attack on a batch of 32 photos, MobileNetV2 at 224, batch norms of its own"
DEVICES = ("cpu", "cuda")
THREADS = None
LIMIT, OURS = "passes forward and back to the photos", "attack"
BATCH, PER_CLASS = 32, 4


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    import torch

    from bgbias import plugins, seeds
    from bgbias.compute.transfer import to_device
    from bgbias.models.backbones.mobilenet_v2 import FACTS, Params
    from bgbias.models.model import build_model
    from bgbias.training import loop
    from bgbias.training.methods import Batch

    size, count = (64, 8) if tiny else (FACTS.input_size, BATCH)
    model = build_model("mobilenet_v2", Params(weights=None), 128, seeds.torch_generator("bench"))
    contrastive, advprop = plugins.load("losses", "contrastive"), plugins.load("methods", "advprop_d")
    base = contrastive.build(contrastive.Params(pos_margin=0, neg_margin=0.5), 0, 128, torch.Generator())
    method = advprop.Method(model, base, advprop.Params())
    loop.to_device(method, device)
    for part in method.modules().values():
        part.train()
    drawn = torch.randint(
        256, (count, size, size, 3), dtype=torch.uint8, generator=seeds.torch_generator("photos")
    )
    labels = torch.arange(count) // PER_CLASS
    batch = to_device(Batch(drawn.permute(0, 3, 1, 2), labels, torch.arange(count)), device)
    grey = batch.images.float()
    yield Contender(LIMIT, "limit", _passes(method, model.preprocess(grey)))
    yield Contender(OURS, "ours", lambda: method.attacked(grey, batch))


def judge(measured: Measured) -> list[Figure]:
    return [measured.ratio("attack by its passes", OURS, LIMIT, at_most=1.1)]


def _passes(method: Any, seen: Any) -> Callable[[], object]:
    """The targets' embeddings, and one way to the photos and back, on photos that are normalised already."""
    import torch

    from bgbias import attacks

    model = method.model

    def run() -> object:
        with attacks.evaluating(model):
            with torch.no_grad():
                aims = model(seen)
            x = seen.detach().requires_grad_()
            return torch.autograd.grad((model(x) - aims.flip(0)).square().sum(), x)

    return run
