"""Models of random weights, which do not matter to speed, and the real loop of training around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bgbias import plugins, seeds


def random_model(backbone: str, device: str = "cpu", dim: int = 128) -> Any:
    """A backbone under a random embedding layer."""
    from bgbias.models.model import build_model

    options = {} if backbone == "tiny" else {"weights": None}
    params = plugins.load("backbones", backbone).Params.model_validate(options)
    return build_model(backbone, params, dim, seeds.torch_generator("bench")).to(device)


def contrastive_method(name: str, model: Any, device: str) -> Any:
    """A method with the contrastive loss around a model, on its device."""
    from bgbias.training import loop

    loss = plugins.load("losses", "contrastive")
    base = loss.build(loss.Params(pos_margin=0, neg_margin=0.5), 0, 128, seeds.torch_generator("bench"))
    module = plugins.load("methods", name)
    params = (module.Params(),) if hasattr(module, "Params") else ()
    method = module.Method(model, base, *params)
    loop.to_device(method, device)
    return method


def trainer(method: Any, steps: int, device: str) -> Callable[[Any], object]:
    """So many steps of the real loop over given batches."""
    from bgbias.training import loop
    from bgbias.training.settings import Train

    settings = Train(iterations_per_epoch=steps)
    optimizer = loop.make_optimizer(method, settings)
    return lambda batches: loop.train_epoch(method, batches, optimizer, settings, device, 1)
