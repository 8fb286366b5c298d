"""Published weights: from a file to a trunk. Nothing here downloads."""

from __future__ import annotations

from torch import nn

from bgbias import weights
from bgbias.errors import UserError
from bgbias.paths import source


def load(
    trunk: nn.Module, file: str, backbone: str, how_to_get: str, prefix: str = "", head: str = ""
) -> None:
    """Fill the trunk from a state dict (.safetensors, or .pth read without executing anything in it).

    Keys lose their ``prefix``; those under ``head`` (the ImageNet classifier) are left out; all others must
    match one to one. A missing, damaged or foreign file is an error that says how to get the right one.
    """
    key = f"params.yaml: backbones.{backbone}.weights"
    path = source(file)
    if not path.is_file():
        raise UserError(
            f"The weights file {file} is missing ({key}). Get it with: {how_to_get.format(file=file)}"
            f"\nor set {key.removeprefix('params.yaml: ')} to null to start from random weights."
        )
    state = {
        k.removeprefix(prefix): v
        for k, v in weights.read(path, key).items()
        if not (head and k.startswith(head))
    }
    wanted = trunk.state_dict()
    # Counters of batches seen: not weights, and older files lack them.
    for name in wanted.keys() - state.keys():
        if name.endswith("num_batches_tracked"):
            state[name] = wanted[name]
    wrong = sorted(wanted.keys() ^ state.keys())
    wrong += sorted(k for k in wanted.keys() & state.keys() if wanted[k].shape != state[k].shape)
    if wrong:
        raise UserError(
            f"{file} does not hold weights of {backbone} ({key}): {len(wrong)} tensors are missing, unknown"
            f" or of another shape, such as '{wrong[0]}'."
            f" Get the right file with: {how_to_get.format(file=file)}"
        )
    trunk.load_state_dict(state, strict=True)
