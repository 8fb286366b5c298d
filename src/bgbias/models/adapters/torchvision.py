"""Classifiers of torchvision: ``torchvision:resnet50``, or with one of several weights ``torchvision:resnet50/IMAGENET1K_V1``.

The embedding is what the last layer, the classifier, is given; photos are prepared as the weights' own transforms do it.
"""

from typing import Any

from bgbias.compute.lazy import nn
from bgbias.errors import UserError
from bgbias.models.adapters import LOOKS, NORMALISES, Adapted, Options
from bgbias.models.adapters._library import asked, named
from bgbias.models.adapters._network import adapted, fill
from bgbias.models.adapters._preparation import of_library
from bgbias.models.look import Look

TAKES = "the name of a classifier of torchvision"
OPTIONS = LOOKS | NORMALISES | {"weights"}
LISTING = "https://pytorch.org/vision/stable/models.html"


def adapt(which: str, options: Options) -> Adapted:
    """The classifier without its last layer."""
    from torchvision import models

    architecture, _, tag = which.partition("/")
    named(architecture, models.list_models(module=models), "classifier of torchvision", LISTING)
    published = models.get_model_weights(architecture)
    if tag:
        tags = [w.name for w in published]
        named(tag, tags, f"weights of {architecture}", " ".join(tags))
    weights: Any = published[tag] if tag else published.DEFAULT
    # As torchvision builds these two for weights that it publishes; ``transform_input`` normalises once more inside.
    has_auxiliary = architecture in ("inception_v3", "googlenet")
    more = {"transform_input": True, "aux_logits": True, "init_weights": False} if has_auxiliary else {}
    network = models.get_model(architecture, weights=None, **more)
    name = f"torchvision:{which}"
    if options.weights is None:
        state = asked(name, weights.url, lambda: weights.get_state_dict(progress=False, check_hash=True))
        network.load_state_dict(state)
        told: tuple[str, ...] = (f"weights: {weights}, as published ({weights.url})",)
        _without_classifier(network, name)
    else:
        _without_classifier(network, name)
        told = fill(network, options.weights, name)
    transforms = weights.transforms()
    (size,), (resize,) = transforms.crop_size, transforms.resize_size
    look = Look(size, resize, interpolation=transforms.interpolation.value, rounding="even")
    source, colours = f"torchvision's transforms of {weights}", (transforms.mean, transforms.std)
    preparation = of_library(name, options, source, (size, size), look, colours)
    embedding = "embedding: what the last layer, the classifier, is given"
    return adapted(name, network, preparation, options, told, embedding)


def _without_classifier(network: Any, name: str) -> None:
    """Let the last linear layer give what it gets."""
    linear = [
        path
        for path, module in network.named_modules()
        if isinstance(module, nn.Linear) and "aux" not in path.lower()
    ]
    own = [path for path in linear if path.partition(".")[0] in ("fc", "classifier", "head", "heads")]
    if not own:
        raise UserError(
            f"{name} ends in no linear layer, so that it is not known which features are its embedding. Write a function that"
            " returns a network which gives them, and name it: --model file.py:function."
        )
    network.set_submodule(own[-1], nn.Identity())
