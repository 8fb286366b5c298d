"""Weights in files: a state dict from a .safetensors, or from a .pth that is read without executing anything in it; and what kind
of file it is that holds something else."""

from __future__ import annotations

import pickle
import pickletools
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bgbias.errors import UserError
from bgbias.files.atomic import replacing

if TYPE_CHECKING:
    from torch import Tensor

TORCH = "a state dict or a checkpoint of torch"
SAVE = "where the network is at hand: torch.save(model.state_dict(), 'weights.pth')"
# What a checkpoint of a training calls the weights in it.
NESTED = ("state_dict", "model_state_dict", "model", "net", "network", "ema")
WRAPPED = ("module.", "_orig_mod.")  # DataParallel's, and those of torch.compile
LEGACY_TORCH = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")


def read_state_dict(path: Path, whose: str, device: str = "cpu") -> dict[str, Tensor]:
    """Tensors by name on a device (``meta``: shapes alone). ``whose`` names the owner in errors, which say what to do.

    A file that cannot be read, or holds anything but tensors by name, is an error.
    """
    import torch
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            return {name: tensor.to(device) for name, tensor in load_file(path).items()}
        state = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # readers raise many kinds for what they do not know
        raise UserError(f"{path} cannot be read as weights of {whose}: {_explain(path, error)}") from error
    refusal = f"{path} does not hold weights of {whose}: "
    if not isinstance(state, dict):
        raise UserError(f"{refusal}it holds a {type(state).__name__}, not a state dict. Save one {SAVE}")
    if foreign := [name for name, tensor in state.items() if not hasattr(tensor, "storage")]:
        raise UserError(f"{refusal}'{foreign[0]}' is no tensor. {_find_weights(path, state)}")
    return state


def _explain(path: Path, error: Exception) -> str:
    if isinstance(error, OSError):
        return str(error)
    what = kind(path)
    # torch's own advice on such an error is to execute what is in the file.
    objects = isinstance(error, pickle.UnpicklingError)
    if objects and what.startswith(TORCH):
        return f"it holds Python objects beside tensors. Save a state dict {SAVE}"
    if what and not what.startswith(TORCH):
        return f"it is {what}. Save a state dict {SAVE}"
    reason = (
        "no pickle of tensors"
        if objects
        else (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    )
    return f"it is damaged or of an unknown kind ({reason}); fetch or copy it again."


def kind(path: Path) -> str:
    """What a file of weights or a network is, in words, by its bytes, none of which is executed; empty where they do not tell."""
    with path.open("rb") as file:
        start = file.read(512)
    if start.startswith(b"PK") and zipfile.is_zipfile(path):
        return _find_kind(path)
    if start.startswith(b"version https://git-lfs"):
        return "a pointer of Git LFS, whose file was not fetched (`git lfs pull`)"
    if start.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return "a page of HTML, as servers send it in place of a file"
    if start.startswith(b"\x89HDF"):
        return "an HDF5 file, as Keras writes them"
    if start.startswith(LEGACY_TORCH):
        return f"{TORCH} before version 1.6"
    return "an ONNX graph" if path.suffix == ".onnx" or b"pytorch" in start[:32] else ""


def _find_kind(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if any(name.endswith("constants.pkl") for name in names):
            return "a network as TorchScript"
        inner = next((name for name in names if name.endswith("data.pkl")), None)
        if inner is None:
            return "a zip archive"
        data = archive.read(inner)
    if b"pytorch-lightning_version" in data:
        return "a checkpoint of PyTorch Lightning"
    for operation, argument, _ in pickletools.genops(data):
        if operation.name == "EMPTY_DICT" or argument == "collections OrderedDict":
            break
        if operation.name == "GLOBAL":
            return f"a whole network as a pickle ({str(argument).replace(' ', '.')}), which runs code when it is loaded"
    return TORCH


def _find_weights(path: Path, state: dict[Any, Any]) -> str:
    """How to get at the weights in a checkpoint of a training, beside which it keeps other things."""
    for name in NESTED:
        inner = state.get(name)
        if isinstance(inner, dict) and inner and all(hasattr(tensor, "storage") for tensor in inner.values()):
            return f"It is a checkpoint of a training, whose weights are its '{name}': {_format_command(path, f'[{name!r}]')}"
    return f"Save a state dict {SAVE}"


def _format_command(path: Path, part: str, expression: str = "state") -> str:
    target = path.with_name(f"{path.stem}_weights.pth")
    read = f"torch.load('{path}', map_location='cpu', weights_only=True){part}"
    return f"python -c \"import torch; state = {read}; torch.save({expression}, '{target}')\""


def difference(
    expected: dict[str, Tensor], state: dict[str, Tensor], origin: Path | str, names: Iterable[str] = ()
) -> str:
    """The first name by which two state dicts differ, with shapes, and how many more do; empty if none does. ``names``: those in
    the file ``origin`` itself, if they are others than those of ``state``.
    """
    faults = [f"'{name}' is missing" for name in expected if name not in state]
    faults += [
        f"'{name}' is {list(state[name].shape)} where {list(tensor.shape)} is needed"
        for name, tensor in expected.items()
        if name in state and state[name].shape != tensor.shape
    ]
    faults += [f"'{name}' is not a name of this network" for name in sorted(state.keys() - expected.keys())]
    if not faults:
        return ""
    more = f" (and {len(faults) - 1} more of its tensors do not fit)" if len(faults) > 1 else ""
    prefix = next((p for p in WRAPPED if state and all(name.startswith(p) for name in names or state)), None)
    if prefix is None:
        return faults[0] + more
    expression = f"{{k.removeprefix('{prefix}'): v for k, v in state.items()}}"
    return f"all its names begin with '{prefix}'; take that away: {_format_command(Path(origin), '', expression)}"


def write_state_dict(state: dict[str, Tensor], target: Path) -> None:
    """Tensors by name as .safetensors, atomically."""
    from safetensors.torch import save

    with replacing(target) as temporary:
        # Shared storages, which safetensors refuses, become separate ones. Its own files are for their owner alone.
        separate = {name: tensor.detach().clone().contiguous() for name, tensor in state.items()}
        temporary.write_bytes(save(separate))
