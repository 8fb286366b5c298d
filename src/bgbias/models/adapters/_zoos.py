"""Networks of model zoos, whose weights are published with the preparation of photos that they were trained with."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bgbias.compute.lazy import Tensor, nn
from bgbias.errors import UserError
from bgbias.models.adapters import LOOKS, NORMALISES, Adapted, Options, as_kind
from bgbias.models.adapters._library import PAGE, check_name, import_extra, load_source, silence
from bgbias.models.adapters._network import adapt_network, fill, guess_activation
from bgbias.models.adapters._preparation import Preparation, apply_options, normalise_colours, square
from bgbias.models.backbones.timm import (
    converted,
    create,
    find_page,
    input_size,
    published_config,
    with_quick_gelu,
)
from bgbias.models.look import Interpolation, Look

OPTIONS = LOOKS | NORMALISES | {"weights"}
POOLINGS = {"cls": "token", "mean": "avg"}  # in timm's words
HUB, FOLDER = "hf-hub:", "local-dir:"
UNPROJECTED = (
    "projection: left out; these are the features before it. The projected ones, with which people search, are those of"
    " open_clip:<model>/<tag>"
)
CLASSIFIERS = "https://pytorch.org/vision/stable/models.html"
TOWERS = 'python -c "import open_clip; print(open_clip.list_pretrained())"'


def adapt_timm(which: str, options: Options) -> Adapted:
    """Image networks of timm: ``timm:resnet50``, ``timm:vit_small_patch14_dinov2.lvd142m``, ``timm:hf-hub:<owner>/<name>``.

    The embedding is what timm pools before the classifier (``num_classes=0``); photos are prepared as the pretrained
    configuration says. A Vision Transformer with another ``size`` gets its positions resampled by timm.
    """
    name = f"timm:{which}"
    elsewhere = which.startswith((HUB, "hf_hub:", FOLDER))
    source = f"{PAGE}{which.partition(':')[2]}" if elsewhere else find_page(which)
    twin = "" if elsewhere else with_quick_gelu(which, options.weights is None)
    guesses = (guess_activation(name, options.weights, f"timm:{twin}"),) if twin and options.weights else ()
    more: dict[str, Any] = {"global_pool": POOLINGS[options.pooling]} if options.pooling else {}
    if not elsewhere:
        more |= input_size(which, options.size)
        if options.weights is None and not published_config(which).has_weights:
            raise UserError(f"timm has no weights of {which}; name a file of them: --weights.")
    network = load_source(name, source, lambda: create(which, options.weights is None, **more))
    notes: tuple[str, ...] = (f"weights: as published ({source})",)
    if options.weights is not None:
        notes = fill(network, options.weights, name, lambda state: converted(network, state))
    return _adapt_timm_network(network, options, name, notes, guesses, elsewhere or "." in which)


def timm_network(model: Any, options: Options, name: str) -> Adapted:
    """A network that timm made, without its classifier."""
    options.only(LOOKS | NORMALISES, name)
    network = copy.deepcopy(model)
    network.reset_classifier(0)
    return _adapt_timm_network(network, options, name, ())


def _adapt_timm_network(
    network: Any,
    options: Options,
    name: str,
    notes: tuple[str, ...],
    guesses: tuple[str, ...] = (),
    is_told: bool = True,
) -> Adapted:
    import timm

    config = timm.data.resolve_model_data_config(network)
    _, *sides = config["input_size"]
    colours, mode, size = (config["mean"], config["std"]), config["crop_mode"], options.size or sides[0]
    resize = math.floor(size / config["crop_pct"])
    look = Look(size, resize, mode == "squash", config["interpolation"], "even")
    preparation = _prepare(
        name, options, "timm's configuration", sides, look, colours, is_told, has_borders=mode == "border"
    )
    pooling = getattr(network, "global_pool", None)
    how = f" ({pooling} pooling)" if isinstance(pooling, str) else ""
    embedding = f"embedding: timm's features before the classifier{how}"
    pretrained = network.pretrained_cfg
    # What timm calls the classifier is then the projection of a CLIP, and not of a fine-tuned one.
    is_clip = "_clip" in str(pretrained.get("architecture")) and bool(pretrained.get("num_classes"))
    if is_clip and "_ft_" not in str(pretrained.get("tag")):
        notes = (*notes, UNPROJECTED)
    return adapt_network(name, network, preparation, options, notes, embedding, guesses=guesses)


def adapt_torchvision(which: str, options: Options) -> Adapted:
    """Classifiers of torchvision: ``torchvision:resnet50``, or with one of several weights
    ``torchvision:resnet50/IMAGENET1K_V1``.

    The embedding is what the last layer, the classifier, is given; photos are prepared as the weights' own transforms do it.
    """
    from torchvision import models

    architecture, _, tag = which.partition("/")
    check_name(architecture, models.list_models(module=models), "classifier of torchvision", CLASSIFIERS)
    published = models.get_model_weights(architecture)
    if tag:
        tags = [w.name for w in published]
        check_name(tag, tags, f"weights of {architecture}", " ".join(tags))
    weights: Any = published[tag] if tag else published.DEFAULT
    # As torchvision builds these two for weights that it publishes; ``transform_input`` normalises once more inside.
    has_auxiliary = architecture in ("inception_v3", "googlenet")
    more = {"transform_input": True, "aux_logits": True, "init_weights": False} if has_auxiliary else {}
    network = models.get_model(architecture, weights=None, **more)
    name = f"torchvision:{which}"
    if options.weights is None:
        state = load_source(
            name, weights.url, lambda: weights.get_state_dict(progress=False, check_hash=True)
        )
        network.load_state_dict(state)
        notes: tuple[str, ...] = (f"weights: {weights}, as published ({weights.url})",)
        _remove_classifier(network, name)
    else:
        _remove_classifier(network, name)
        notes = fill(network, options.weights, name)
    transforms = weights.transforms()
    (size,), (resize,) = transforms.crop_size, transforms.resize_size
    look = Look(size, resize, interpolation=transforms.interpolation.value, rounding="even")
    source, colours = f"torchvision's transforms of {weights}", (transforms.mean, transforms.std)
    preparation = _prepare(name, options, source, (size, size), look, colours, is_told=bool(tag))
    embedding = "embedding: what the last layer, the classifier, is given"
    return adapt_network(name, network, preparation, options, notes, embedding)


def _remove_classifier(network: Any, name: str) -> None:
    linear = [
        path
        for path, module in network.named_modules()
        if isinstance(module, nn.Linear) and "aux" not in path.lower()
    ]
    heads = [path for path in linear if path.partition(".")[0] in ("fc", "classifier", "head", "heads")]
    if not heads:
        raise UserError(
            f"{name} ends in no linear layer, so that it is not known which features are its embedding. Write a function that"
            " returns a network which gives them, and name it: --model file.py:function."
        )
    network.set_submodule(heads[-1], nn.Identity())


def adapt_open_clip(which: str, options: Options) -> Adapted:
    """Image towers of OpenCLIP: ``open_clip:ViT-B-32/laion2b_s34b_b79k``, ``open_clip:hf-hub:<owner>/<name>`` or a folder of
    that form, ``open_clip:local-dir:<folder>``.

    The embedding is ``encode_image``; photos are prepared as the weights' own configuration says.
    """
    open_clip = import_extra("open_clip", "open-clip")
    name, is_published = f"open_clip:{which}", options.weights is None
    model_name, tag = which, ""
    notes: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()
    more: dict[str, Any] = {}
    if which.startswith((HUB, FOLDER)):
        source = which.removeprefix(FOLDER) if which.startswith(FOLDER) else PAGE + which.removeprefix(HUB)
    else:
        model_name, tag, source, notes, more = _find_tower(which, name, is_published)
        quick = f"{which}-quickgelu"
        if options.weights is not None and quick in open_clip.list_models():
            guesses = (guess_activation(name, options.weights, f"open_clip:{quick}"),)

    def create() -> Any:
        here = model_name
        if which.startswith(HUB) and not is_published:  # its configuration alone is fetched
            from huggingface_hub import hf_hub_download

            config = hf_hub_download(which.removeprefix(HUB), "open_clip_config.json")
            here = f"{FOLDER}{Path(config).parent}"
        return open_clip.create_model(
            here,
            tag if tag and is_published else None,
            load_weights=is_published,
            require_pretrained=is_published,
            force_image_size=options.size,
            pretrained_text=False,
            **more,
        )

    with silence():
        model = load_source(name, source, create)
    loaded: tuple[str, ...] = (f"weights: as published ({source})",)
    if options.weights is not None:
        loaded = fill(model.visual, options.weights, name, lambda state: _fit_positions(model, state))

    def run(x: Tensor) -> Any:
        output = model.visual(x)
        return output[0] if isinstance(output, tuple) else output  # CoCa's tower gives its tokens, too

    config = model.visual.preprocess_cfg
    embedding = "embedding: encode_image(), the features that are compared with texts"
    if pooling := getattr(model.visual, "pool_type", ""):
        projected = ", projected" * (getattr(model.visual, "proj", None) is not None)
        embedding += f" ({pooling} pooling{projected})"
    mode, colours, size = config["resize_mode"], (config["mean"], config["std"]), config["size"]
    sides = (size, size) if isinstance(size, int) else size
    interpolation: Interpolation = "bilinear" if config["interpolation"] == "bilinear" else "bicubic"
    look = Look(sides[0], sides[0], mode == "squash", interpolation, "even")
    is_told = bool(tag) or which.startswith((HUB, FOLDER))
    preparation = _prepare(
        name, options, "OpenCLIP's configuration", sides, look, colours, is_told, mode == "longest"
    )
    return adapt_network(
        name, model.visual, preparation, options, (*loaded, *notes), embedding, guesses=guesses, run=run
    )


def _find_tower(
    which: str, name: str, is_published: bool
) -> tuple[str, str, str, tuple[str, ...], dict[str, Any]]:
    """Architecture and tag, where the weights come from, what was settled on the way, and options of OpenCLIP that it needs."""
    import open_clip

    architecture, _, tag = which.partition("/")
    check_name(architecture, open_clip.list_models(), "model of OpenCLIP", TOWERS)
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    if tag:
        check_name(tag, tags, f"pretrained tag of {architecture}", " ".join(tags))
    elif is_published:
        raise UserError(
            f"{name} does not say which weights: open_clip:{architecture}/<tag> of {' '.join(tags) or 'none'}."
        )
    published = open_clip.get_pretrained_cfg(architecture, tag) if tag else {}
    is_quick = bool(published.get("quick_gelu"))
    is_quick_model = bool(open_clip.get_model_config(architecture).get("quick_gelu"))
    notes = (f"activation: QuickGELU, as '{tag}' was trained",) if is_quick else ()
    if tag and is_quick_model and not is_quick:
        raise UserError(
            f"'{tag}' was trained without QuickGELU; name open_clip:{architecture.removesuffix('-quickgelu')}/{tag}."
        )
    config = {
        key: published[key] for key in ("mean", "std", "interpolation", "resize_mode") if key in published
    }
    hub = published.get("hf_hub", "").strip("/")
    source = f"{PAGE}{hub}" if hub else published.get("url", "")
    return architecture, tag, source, notes, {"force_quick_gelu": is_quick, "force_preprocess_cfg": config}


def _fit_positions(model: Any, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Names without ``visual.`` and positions of another size as this model's, as far as OpenCLIP knows how."""
    from open_clip.model import resize_pos_embed

    whole = {f"visual.{name}": tensor for name, tensor in state.items()}
    resize_pos_embed(whole, model)
    return {name.removeprefix("visual."): tensor for name, tensor in whole.items()}


def _prepare(
    name: str,
    options: Options,
    source: str,
    sides: Sequence[int],
    look: Look,
    colours: tuple[tuple[float, ...], tuple[float, ...]],
    is_told: bool,
    has_borders: bool = False,
) -> Preparation:
    """What a zoo's configuration says, with what ``options`` say in its place; ``colours``: mean and std of 0..1. Of a person's
    own weights they are a guess, unless ``is_told``: the model's name has the tag of published ones.

    Pictures that are no squares (``sides``: height and width), and borders around photos, are an error.
    """
    height, width = sides
    square(height, width, name)
    if has_borders and options.resize is None and options.squash is None:
        raise UserError(
            f"{name} puts borders around photos, which is not done here. Say --squash, or --resize {height}."
        )
    preparation = apply_options(Preparation(look, normalise_colours(*colours), source), options)
    if options.weights is None or is_told:
        return preparation
    guessed = tuple(name for name in ("mean", "std") if name not in options.list_given())
    return replace(preparation, guessed=guessed, of_weights=False)


MEMBERS = {
    "timm": as_kind(
        adapt_timm,
        "the name of a model of timm, or hf-hub:<owner>/<name>",
        OPTIONS=OPTIONS | {"pooling"},
        OF="timm",
        of_object=timm_network,
    ),
    "torchvision": as_kind(adapt_torchvision, "the name of a classifier of torchvision"),
    "open_clip": as_kind(
        adapt_open_clip, "<model>/<pretrained tag>, hf-hub:<owner>/<name> or local-dir:<folder>"
    ),
}
