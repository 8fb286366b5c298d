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
from bgbias.models.adapters._network import adapted
from bgbias.models.adapters._preparation import Preparation, normalised, prepared, square, unbordered
from bgbias.models.adapters._weights import fill, guess_activation
from bgbias.models.backbones.timm import converted, published_config, with_quick_gelu
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
    source = f"{PAGE}{which.partition(':')[2]}" if elsewhere else _page(which)
    twin = "" if elsewhere else with_quick_gelu(which, options.weights is None)
    guesses = (guess_activation(name, options.weights, f"timm:{twin}"),) if twin and options.weights else ()
    network = _created(which, source, options)
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
    own = Preparation(
        _look(name, config, options), normalised(config["mean"], config["std"]), "timm's configuration"
    )
    pooling = getattr(network, "global_pool", None)
    how = f" ({pooling} pooling)" if isinstance(pooling, str) else ""
    embedding = f"embedding: timm's features before the classifier{how}"
    if _is_clip(network):
        told = (*told, UNPROJECTED)
    return adapted(name, network, prepared(own, options), options, told, embedding, guesses=guesses)


def _is_clip(network: Any) -> bool:
    """Whether what timm calls the classifier is the projection of a CLIP, and not of a fine-tuned one."""
    config = network.pretrained_cfg
    is_fine_tuned = "_ft_" in str(config.get("tag"))
    return (
        "_clip" in str(config.get("architecture")) and bool(config.get("num_classes")) and not is_fine_tuned
    )


def _page(which: str) -> str:
    """Where the weights come from; an unknown name is refused with near ones."""
    config = published_config(which)
    hub = getattr(config, "hf_hub_id", None)
    return f"{PAGE}{hub}" if hub else getattr(config, "url", "")


def _created(which: str, source: str, options: Options) -> Any:
    import timm

    more: dict[str, Any] = {"global_pool": POOLINGS[options.pooling]} if options.pooling else {}
    published = not which.startswith(ELSEWHERE)
    config = published_config(which) if published else None
    if options.size and config is not None and config.fixed_input_size:
        more["img_size"] = options.size
    if options.weights is None and config is not None and not config.has_weights:
        raise UserError(f"timm has no weights of {which}; name a file of them: --weights.")

    def create() -> Any:
        try:
            return timm.create_model(which, pretrained=options.weights is None, num_classes=0, **more)
        except (TypeError, AssertionError) as error:
            asked_for = ", ".join(f"{name} {value}" for name, value in more.items())
            raise UserError(
                f"timm:{which} cannot be built with {asked_for or 'its defaults'}: {error}"
            ) from error

    return asked(f"timm:{which}", source, create)


def _look(name: str, config: dict[str, Any], options: Options) -> Look:
    _, height, width = config["input_size"]
    mode = config["crop_mode"]
    square(height, width, name)
    unbordered(mode == "border", height, options, name)
    size = options.size or height
    return Look(
        size, math.floor(size / config["crop_pct"]), mode == "squash", config["interpolation"], "even"
    )
