"""Image networks of timm: ``timm:resnet50``, ``timm:vit_small_patch14_dinov2.lvd142m``, ``timm:hf-hub:<owner>/<name>``.

The embedding is what timm pools before the classifier (``num_classes=0``); photos are prepared as the pretrained configuration
says. A Vision Transformer with another ``size`` gets its positions resampled by timm.
"""

import copy
import math
from typing import Any

from bgbias.errors import UserError
from bgbias.models.adapters import LOOKS, NORMALISES, Adapted, Options
from bgbias.models.adapters._library import PAGE, asked
from bgbias.models.adapters._network import adapted, fill, guess_activation
from bgbias.models.adapters._preparation import of_library
from bgbias.models.backbones.timm import (
    converted,
    create,
    input_size,
    published_config,
    sources,
    with_quick_gelu,
)
from bgbias.models.look import Look

OF = "timm"
TAKES = "the name of a model of timm, or hf-hub:<owner>/<name>"
OPTIONS = LOOKS | NORMALISES | {"weights", "pooling"}
POOLINGS = {"cls": "token", "mean": "avg"}
ELSEWHERE = ("hf-hub:", "hf_hub:", "local-dir:")
UNPROJECTED = (
    "projection: left out; these are the features before it. The projected ones, with which people search, are those of"
    " open_clip:<model>/<tag>"
)


def adapt(which: str, options: Options) -> Adapted:
    """The network with its own pooling, or the one that is asked for."""
    name = f"timm:{which}"
    elsewhere = which.startswith(ELSEWHERE)
    source = f"{PAGE}{which.partition(':')[2]}" if elsewhere else next(iter(sources(which)), "")
    twin = "" if elsewhere else with_quick_gelu(which, options.weights is None)
    guesses = (guess_activation(name, options.weights, f"timm:{twin}"),) if twin and options.weights else ()
    more: dict[str, Any] = {"global_pool": POOLINGS[options.pooling]} if options.pooling else {}
    if not elsewhere:
        more |= input_size(which, options.size)
        if options.weights is None and not published_config(which).has_weights:
            raise UserError(f"timm has no weights of {which}; name a file of them: --weights.")
    network = asked(name, source, lambda: create(which, options.weights is None, **more))
    told: tuple[str, ...] = (f"weights: as published ({source})",)
    if options.weights is not None:
        told = fill(network, options.weights, name, lambda state: converted(network, state))
    return _adapted(network, options, name, told, guesses)


def of_object(model: Any, options: Options, name: str) -> Adapted:
    """A network that timm made, without its classifier."""
    options.only(LOOKS | NORMALISES, name)
    network = copy.deepcopy(model)
    network.reset_classifier(0)
    return _adapted(network, options, name, ())


def _adapted(
    network: Any, options: Options, name: str, told: tuple[str, ...], guesses: tuple[str, ...] = ()
) -> Adapted:
    import timm

    config = timm.data.resolve_model_data_config(network)
    _, *sides = config["input_size"]
    colours, mode, size = (config["mean"], config["std"]), config["crop_mode"], options.size or sides[0]
    resize = math.floor(size / config["crop_pct"])
    look = Look(size, resize, mode == "squash", config["interpolation"], "even")
    preparation = of_library(
        name, options, "timm's configuration", sides, look, colours, has_borders=mode == "border"
    )
    pooling = getattr(network, "global_pool", None)
    how = f" ({pooling} pooling)" if isinstance(pooling, str) else ""
    embedding = f"embedding: timm's features before the classifier{how}"
    known = network.pretrained_cfg
    # What timm calls the classifier is then the projection of a CLIP, and not of a fine-tuned one.
    is_clip = "_clip" in str(known.get("architecture")) and bool(known.get("num_classes"))
    if is_clip and "_ft_" not in str(known.get("tag")):
        told = (*told, UNPROJECTED)
    return adapted(name, network, preparation, options, told, embedding, guesses=guesses)
