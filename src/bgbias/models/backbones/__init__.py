"""Networks from a photo to a feature map, each with its preprocessing facts.

A file here offers ``FACTS``, ``Params`` and ``build(params)``, a trunk with random weights. Where weights are published it also
says where (``PUBLISHED``) and how their keys become the trunk's (``PREFIX``, taken away; ``HEAD``, the classifier, left out). A
file that stands for a library of networks (``VARIANTS`` says what goes behind the colon, as in ``timm:vit_tiny_patch16_224``)
offers ``facts``, ``likely_resize`` (of forecasts, which must not take long), ``build``, ``adapted`` and ``published``, which are
given the variant first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, model_validator

from bgbias import plugins
from bgbias.compute.lazy import Tensor, nn
from bgbias.errors import UserError
from bgbias.files import state_dicts
from bgbias.models.preprocess import Preprocess
from bgbias.settings import Strict

# Options that share a file.
SHARED = {
    "_torchvision": ("resnet18", "resnet50", "resnet50_96", "resnet152"),
    "mobilenet_v2": ("mobilenet_v2_tf", "mobilenet_v2_tf_112"),
    "tiny": ("tiny_batch_norm",),
}


@dataclass(frozen=True)
class Facts:
    """What a network was trained to see, and what it gives.

    ``input_size``: side of the square crop, pixels; ``resize``: short side of the photo before the crop; ``channels``: of the
    feature map.
    """

    input_size: int
    resize: int
    preprocess: Preprocess
    channels: int


class Pretrained(Strict):
    """Options that all backbones with published weights share: where these come from."""

    weights: str | None = Field(
        description="a state dict (.safetensors or .pth; shared:<file>), a URL, `published`, or null: random weights"
    )
    sha256: str | None = Field(None, description="of a URL's file, or its first 8 digits or more")

    @model_validator(mode="after")
    def _checksum_of_a_url(self) -> Pretrained:
        if ("://" in (self.weights or "")) != (self.sha256 is not None):
            raise ValueError("a URL as `weights` needs a `sha256` beside it, and nothing else takes one")
        if self.sha256 is not None and not re.fullmatch("[0-9a-f]{8,64}", self.sha256):
            raise ValueError("`sha256` is 64 lower-case hexadecimal digits, or the first 8 or more of them")
        return self


def facts(name: str, params: Strict) -> Facts:
    """The facts of the backbone ``name`` with these options; a variant that does not exist is an error."""
    module, variant = plugins.load("backbones", name), plugins.variant(name)
    return module.facts(variant, params) if variant else module.FACTS


def build(name: str, params: Strict) -> nn.Module:
    """The trunk, float [B, 3, H, W] to [B, channels, h, w], with random weights from torch's global generator."""
    module, variant = plugins.load("backbones", name), plugins.variant(name)
    return module.build(variant, params) if variant else module.build(params)


def load(trunk: nn.Module, file: Path, backbone: str) -> None:
    """Fill the trunk from a state dict (.safetensors, or .pth read without executing anything in it).

    Keys lose the backbone's ``PREFIX``; those under its ``HEAD`` (the ImageNet classifier) are left out; all
    others must match one to one. A missing, damaged or foreign file is an error that says what to do.
    """
    key = f"backbones.{backbone}.weights"
    if not file.is_file():
        raise UserError(
            f"The weights file {file} is missing (params.yaml: {key}). Put it there, or set {key} to"
            f" {'`published`, to have it fetched, or ' if _is_published(backbone) else ''}null to start from random weights."
        )
    state = state_dicts.read_state_dict(file, f"params.yaml: {key}")
    trunk.load_state_dict(fit_state(trunk, state, backbone, str(file)), strict=True)


def fit_state(trunk: nn.Module, state: dict[str, Tensor], backbone: str, origin: str) -> dict[str, Tensor]:
    """A state dict in the trunk's own names; shapes alone (torch's device ``meta``) do. One that does not fit is an error,
    which calls it ``origin``.
    """
    module, variant = plugins.load("backbones", backbone), plugins.variant(backbone)
    original = state
    if variant:
        state = module.adapted(variant, trunk, state)
    prefix, head = getattr(module, "PREFIX", ""), getattr(module, "HEAD", "")
    weights = {k.removeprefix(prefix): v for k, v in state.items() if not (head and k.startswith(head))}
    expected = trunk.state_dict()
    for name, tensor in expected.items():
        # Counters of batches seen are no weights, and older files lack them; Caffe's vectors are [1, C].
        if name.endswith("num_batches_tracked"):
            weights.setdefault(name, tensor)
        elif name in weights and weights[name].shape == (1, *tensor.shape):
            weights[name] = weights[name][0]
    if wrong := state_dicts.difference(expected, weights, origin, original):
        raise UserError(
            f"{origin} does not hold weights of {backbone}: {wrong}. Name the right file at"
            f" backbones.{backbone}.weights in params.yaml{', or `published`' if _is_published(backbone) else ''}"
            f"{', or leave img_size out, if the weights are for photos of another size' if variant else ''}."
        )
    return weights


def _is_published(backbone: str) -> bool:
    module = plugins.load("backbones", backbone)
    return bool(getattr(module, "PUBLISHED", ()) or hasattr(module, "published"))
