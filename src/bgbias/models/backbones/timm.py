"""Any image network that timm knows, as ``timm:<its name there>``: convolutional ones, ViTs, Swin, DINOv2.

Photos are prepared as the network's pretrained configuration says, but resized bilinearly like all others. Networks that give
tokens lose their prefix tokens (class, registers), and the others become a map; where the final norm comes after pooling it is
applied to each token.
"""

from __future__ import annotations

import math
import re
import sys
from functools import cache
from typing import Any

from pydantic import Field

from bgbias.compute.lazy import Tensor, nn, torch
from bgbias.errors import UserError
from bgbias.models.adapters._library import PAGE, check_name, load_source
from bgbias.models.backbones import Facts, Pretrained
from bgbias.models.preprocess import Preprocess

VARIANTS = "the name of a model of timm"
# As in vit_tiny_patch16_224 and convnext_base.fb_in22k_ft_in1k_384; and what most models have that do not say it.
SIZE = re.compile(r"_(\d{3})(?!\d)")
USUAL_SIZE, USUAL_CROP = 224, 0.9


class Params(Pretrained):
    """Weights, and the size of the photos."""

    img_size: int | None = Field(None, ge=16, description="side in pixels; as trained if null")


def facts(variant: str, params: Params) -> Facts:
    """As timm's pretrained configuration says, but for a chosen ``img_size``."""
    config = published_config(variant)
    size = params.img_size or config.input_size[-1]
    mean, std = (tuple(map(float, values)) for values in (config.mean, config.std))
    channels = _count_channels(variant, params.img_size)
    return Facts(size, math.floor(size / config.crop_pct), Preprocess(1 / 255, mean, std, "rgb"), channels)  # type: ignore[arg-type]


def likely_resize(variant: str, params: Params) -> int:
    """The short side of photos as far as names tell it, for whoever cannot wait until timm is loaded (seconds)."""
    sizes = SIZE.findall(variant)
    return math.floor((params.img_size or int(sizes[-1] if sizes else USUAL_SIZE)) / USUAL_CROP)


def build(variant: str, params: Params) -> nn.Module:
    """The trunk, random: float [B, 3, H, W] to [B, channels, h, w]."""
    from bgbias.models.backbones._feature_map import FeatureMap

    return FeatureMap(create(variant, **input_size(variant, params.img_size)))


def adapted(variant: str, trunk: nn.Module, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A published state dict in the trunk's names and shapes, as far as timm knows how; without the classifier."""
    network: Any = trunk.net
    expected, state = network.state_dict(), converted(network, state)
    heads = network.pretrained_cfg["classifier"] or ()
    heads = tuple(f"{head}." for head in ((heads,) if isinstance(heads, str) else heads))
    return {f"net.{k}": v for k, v in state.items() if k in expected or not k.startswith(heads)}


def converted(network: Any, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Another publisher's names and another size's positions as timm's own, as far as it knows how."""
    expected = network.state_dict()
    if all(name in state and state[name].shape == tensor.shape for name, tensor in expected.items()):
        return state
    convert = getattr(sys.modules[type(network).__module__], "checkpoint_filter_fn", None)
    return convert(state, network) if convert else state


def with_quick_gelu(variant: str, is_published: bool) -> str:
    """The name of a CLIP's twin that computes QuickGELU, empty if there is none. Of published weights, those that were trained
    with it are an error.
    """
    import timm

    name, _, tag = variant.partition(".")
    twin = name.replace("_clip_", "_clip_quickgelu_")
    if twin == name or "quickgelu" in name or twin not in timm.list_models():
        return ""
    if is_published and "QuickGELU" in " ".join(published_config(variant).notes or ()):
        raise UserError(
            f"The weights '{tag}' were trained with QuickGELU, and timm:{variant} computes GELU: name timm:{twin}.{tag}."
        )
    return twin


def published(variant: str, params: Params) -> dict[str, Tensor]:
    """The weights that timm itself fetches (and keeps in its cache); an error says where a copy may be put instead."""
    import timm

    if not published_config(variant).has_weights:
        raise UserError(f"timm has no weights of {variant}; name a file or a URL as its `weights`, or null.")
    with_quick_gelu(variant, is_published=True)
    # With its classifier and for its own size of photos: as published, so that `adapted` knows it.
    network = load_source(
        f"timm:{variant}",
        find_page(variant),
        lambda: timm.create_model(variant, pretrained=True),
        "Fetch it where there is a network.",
    )
    return network.state_dict()  # type: ignore[no-any-return]


def find_page(variant: str) -> str:
    """The page or the address where timm looks for published weights; empty if it has neither."""
    config = published_config(variant)
    return f"{PAGE}{config.hf_hub_id}" if config.hf_hub_id else config.url or ""


def create(name: str, pretrained: bool = False, **options: Any) -> Any:
    """timm's network without its classifier; one that cannot be built with these options is an error."""
    import timm

    try:
        return timm.create_model(name, pretrained, num_classes=0, **options)
    except (TypeError, AssertionError) as error:
        text = ", ".join(f"{option} {value}" for option, value in options.items())
        raise UserError(
            f"timm:{name} cannot be built with {text or 'its defaults'}: {error}. Choose other values, or another network."
        ) from error


def input_size(variant: str, side: int | None) -> dict[str, Any]:
    """The option of ``create`` for photos of ``side`` pixels, if the network must know it; an unknown name is an error."""
    return {"img_size": side} if published_config(variant).fixed_input_size and side else {}


@cache
def published_config(variant: str) -> Any:
    """timm's pretrained configuration; an unknown name is refused with near ones."""
    import timm
    from timm.models import get_pretrained_cfg

    name, _, tag = variant.partition(".")
    check_name(
        name, timm.list_models(), "model of timm", 'python -c "import timm; print(*timm.list_models())"'
    )
    if tag:
        tags = [full_name.partition(".")[2] for full_name in timm.list_pretrained(f"{name}.*")]
        check_name(tag, tags, f"tag of {name}", " ".join(tags))
    return get_pretrained_cfg(variant)


@cache
def _count_channels(variant: str, img_size: int | None) -> int:
    with torch.device("meta"):  # no memory, no random numbers
        return int(create(variant, **input_size(variant, img_size)).num_features)
