"""Published weights: a state dict from a .safetensors file, or from a .pth that is read without executing anything in it and
converted once."""

from __future__ import annotations

import pickle
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bgbias.errors import UserError
from bgbias.files.atomic import replacing

if TYPE_CHECKING:
    from torch import Tensor


def read_state_dict(path: Path, whose: str) -> dict[str, Tensor]:
    """Tensors by name, on the CPU. ``whose`` names the owner in errors, which say what to do.

    A .pth leaves a .safetensors of the same stem beside it, where its folder can be written; that one is read from then on,
    as long as it is the younger of the two. A file that cannot be read, or holds anything but tensors by name, is an error.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    converted = path.with_suffix(".safetensors")
    try:
        if converted.exists() and (path == converted or converted.stat().st_mtime > path.stat().st_mtime):
            return load_file(converted)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, OSError) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise UserError(
            f"{path} cannot be read as weights of {whose} ({said}); fetch or copy it again."
        ) from error
    if not isinstance(state, dict):
        raise UserError(
            f"{path} does not hold weights of {whose}: it holds a {type(state).__name__}, not a state dict."
        )
    foreign = [name for name, tensor in state.items() if not hasattr(tensor, "storage")]
    if foreign:
        raise UserError(f"{path} does not hold weights of {whose}: '{foreign[0]}' is no tensor.")
    with suppress(OSError):  # a read-only folder: the .pth is read again next time
        write_state_dict(state, converted)
    return state


def write_state_dict(state: dict[str, Tensor], target: Path) -> None:
    """Tensors by name as .safetensors, atomically."""
    from safetensors.torch import save_file

    with replacing(target) as temporary:
        # Shared storages, which safetensors refuses, become separate ones.
        save_file({name: tensor.detach().clone().contiguous() for name, tensor in state.items()}, temporary)
