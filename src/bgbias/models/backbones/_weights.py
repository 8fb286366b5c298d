"""From a file of weights to a trunk. Nothing here downloads."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from bgbias import plugins
from bgbias.compute.lazy import Tensor, nn, torch
from bgbias.errors import UserError
from bgbias.files import state_dicts


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
    trunk.load_state_dict(fitted(trunk, state, backbone, str(file)), strict=True)


def fitted(trunk: nn.Module, state: dict[str, Tensor], backbone: str, origin: str) -> dict[str, Tensor]:
    """A state dict in the trunk's own names; shapes alone (torch's device ``meta``) do. One that does not fit is an error,
    which calls it ``origin``.
    """
    module, variant = plugins.load("backbones", backbone), plugins.variant(backbone)
    found = state
    if variant:
        state = module.adapted(variant, trunk, state)
    prefix, head = getattr(module, "PREFIX", ""), getattr(module, "HEAD", "")
    kept = {k.removeprefix(prefix): v for k, v in state.items() if not (head and k.startswith(head))}
    wanted = trunk.state_dict()
    for name, tensor in wanted.items():
        # Counters of batches seen are no weights, and older files lack them; Caffe's vectors are [1, C].
        if name.endswith("num_batches_tracked"):
            kept.setdefault(name, tensor)
        elif name in kept and kept[name].shape == (1, *tensor.shape):
            kept[name] = kept[name][0]
    if wrong := state_dicts.difference(wanted, kept, origin, found):
        if variant and _fits_as_trained(trunk, found, backbone, origin):
            raise UserError(
                f"{origin} fits {backbone} at the size of photos that it was trained with, and not at another one: leave"
                f" backbones.{backbone}.img_size in params.yaml out."
            )
        raise UserError(
            f"{origin} does not hold weights of {backbone}: {wrong}. Name the right file at"
            f" backbones.{backbone}.weights in params.yaml{', or `published`' if _is_published(backbone) else ''}."
        )
    return kept


def _fits_as_trained(trunk: nn.Module, state: dict[str, Tensor], backbone: str, origin: str) -> bool:
    module = plugins.load("backbones", backbone)
    with torch.device("meta"):
        usual = module.build(plugins.variant(backbone), module.Params(weights=None))
    shapes, own = ({k: t.shape for k, t in net.state_dict().items()} for net in (usual, trunk))
    if shapes == own:
        return False
    with suppress(UserError):
        fitted(usual, state, backbone, origin)
        return True
    return False


def _is_published(backbone: str) -> bool:
    module = plugins.load("backbones", backbone)
    return bool(getattr(module, "PUBLISHED", ()) or hasattr(module, "published"))
