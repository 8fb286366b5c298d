"""From a network of torch to an adapted model, with its own weights or those of a file, as trainings leave them: wrappings are
taken off and noted, nothing in it is executed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bgbias.compute.device import pick
from bgbias.compute.lazy import Tensor, nn, torch
from bgbias.errors import UserError
from bgbias.files import state_dicts
from bgbias.models.adapters import Adapted, Options
from bgbias.models.adapters._calls import failing
from bgbias.models.adapters._preparation import Preparation
from bgbias.models.preprocess import Preprocess

State = dict[str, Tensor]

# Whatever else a checkpoint calls the weights in it; a training's own names come first.
NESTED = (
    *state_dicts.NESTED,
    *("model_ema", "state_dict_ema", "teacher", "student"),
    *("backbone", "encoder", "params", "weights"),
)
DEEPEST = 3  # parts of a name that may be a wrapper's: module.encoder_q.backbone.
ACTIVATIONS = re.compile("GELU|ELU|ReLU|SiLU|Swish|Mish")
# Entries of OpenAI's own files, which were trained with QuickGELU.
OPENAI = {"input_resolution", "context_length", "vocab_size"}


def adapt_network(
    name: str,
    network: Any,
    preparation: Preparation,
    options: Options,
    notes: tuple[str, ...] = (),
    embedding: str = "",
    batch: int | None = None,
    guesses: tuple[str, ...] = (),
    run: Callable[[Tensor], Any] | None = None,
) -> Adapted:
    """The network, which is moved to the device and into evaluation mode, behind its preparation.

    ``embedding`` says what its output is, if it is known to be vectors; else the output is pooled as ``options`` say. ``batch``:
    1 if it takes one picture at a time; another fixed number is an error. ``run``: what is asked of the network, if it is not
    simply called.
    """
    run = run or network
    if batch not in (None, 1):
        raise UserError(
            f"{name} takes {batch} pictures at once and no other number; export it for one, or for any number."
        )
    device, dtype = pick(options.device), torch.float32
    if isinstance(network, torch.nn.Module):
        with suppress(NotImplementedError):  # of exported programs, which know no modes
            network.eval()
        network.to(device)
        leaves = (m for m in network.modules() if not any(True for _ in m.children()))
        kinds = {str(getattr(leaf, "original_name", type(leaf).__name__)) for leaf in leaves}
        activations = sorted(filter(ACTIVATIONS.search, kinds))
        if activations and not any(line.startswith("activation: ") for line in notes):
            notes = (f"activation: {', '.join(activations)}", *notes)
        # Input of another precision than its weights' would be refused.
        dtype = next((t.dtype for t in network.parameters() if t.is_floating_point()), dtype)
    how = None if embedding else options.pooling

    def prepare(x: Tensor, normalise: Preprocess | None = preparation.normalise) -> Tensor:
        return (x if normalise is None else normalise(x)).to(dtype)

    def embedded(x: Tensor, normalise: Preprocess | None = preparation.normalise) -> Tensor:
        parts = [prepare(x, normalise)] if batch is None else prepare(x, normalise).split(1)
        return torch.cat([pool(run(part), how)[0] for part in parts]).float()

    def vectors(views: np.ndarray, normalise: Preprocess | None = preparation.normalise) -> np.ndarray:
        with torch.inference_mode():
            return embedded(_to_batch(views, device), normalise).cpu().numpy()

    side = preparation.look.size
    black = np.zeros((1, side, side, 3), np.uint8)
    with torch.inference_mode():
        output, words = pool(attempt(name, preparation, lambda: run(prepare(_to_batch(black, device)))), how)
    lines = (preparation.describe(), embedding or words, *notes)
    others = {
        options: partial(vectors, normalise=normalise)
        for options, normalise in preparation.alternatives().items()
    }
    guesses = (*preparation.guesses(), *guesses)
    module = network if isinstance(network, torch.nn.Module) else None
    return Adapted(
        name, preparation.look, output.shape[1], lines, vectors, embedded, device, guesses, others, module
    )


def attempt(name: str, preparation: Preparation, run: Callable[[], Any]) -> Any:
    """What ``run`` gives for a picture; any error of its own becomes one that names the model and the size, and --size, unless
    the model itself says its size.
    """
    side = preparation.look.size
    is_chosen = "size" in (*preparation.guessed, *preparation.given)
    remedy = " If it was made for another size, give --size." if is_chosen else ""
    with failing(f"{name} fails on a picture of {side} x {side} pixels", remedy):
        return run()


def _to_batch(views: np.ndarray, device: str) -> Tensor:
    """Views uint8 [B, S, S, 3] as float32 [B, 3, S, S]."""
    return torch.from_numpy(np.ascontiguousarray(views)).to(device).permute(0, 3, 1, 2).float()


def pool(output: Any, how: str | None) -> tuple[Tensor, str]:
    """Vectors [B, D] of vectors, a map [B, D, h, w] (its mean) or tokens [B, N, D] (``how``: cls, the first, or mean); and what
    they are, in words.
    """
    output = _find_tensor(output)
    if output.is_complex():
        raise UserError("The network gives complex numbers, which no cosine compares; return real ones.")
    shape = list(output.shape)
    match output.ndim, how:
        case 2, None:
            return output, "embedding: the network's output"
        case 4, None | "mean":
            return output.mean((2, 3)), "embedding: the mean of the network's feature map"
        case 3, "cls":
            return output[:, 0], "embedding: the first token that the network gives"
        case 3, "mean":
            return output.mean(1), "embedding: the mean of the tokens that the network gives"
        case 2, _:
            fault = f"vectors {shape}: there is nothing to pool. Leave --pooling out."
        case 3, _:
            fault = f"tokens {shape}. Say --pooling cls (the first of them) or --pooling mean."
        case 4, _:
            fault = f"a map {shape}, which has no class token. Say --pooling mean."
        case _:
            fault = f"{shape}, where vectors [B, D], a map [B, D, h, w] or tokens [B, N, D] are expected."
    raise UserError(f"The network gives {fault}")


def _find_tensor(output: Any) -> Tensor:
    outputs = dict(output) if isinstance(output, Mapping) else {}
    if isinstance(output, (tuple, list)):
        outputs = {str(number): part for number, part in enumerate(output)}
    if len(outputs) == 1:
        (output,) = outputs.values()
    if isinstance(output, torch.Tensor):
        return output
    what = f"several things ({', '.join(map(str, outputs))})" if outputs else f"a {type(output).__name__}"
    raise UserError(
        f"The network gives {what}, where one tensor is expected. Wrap it: a file with a function that returns a network whose"
        " forward() gives the embedding alone, as --model file.py:function."
    )


def fill(
    network: nn.Module, path: Path, whose: str, converted: Callable[[State], State] = lambda state: state
) -> tuple[str, ...]:
    """Fill the network from a state dict or a checkpoint, and tell what was taken off and what was left over.

    ``converted`` brings names of other libraries into the network's. A tensor that is missing or has another shape is an error.
    """
    state, notes = read(path, whose)
    expected = network.state_dict()
    prefix, *others = _find_prefixes(expected, state)
    inner = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
    over = [name for name in state if not name.startswith(prefix)]
    if prefix:
        notes.append(f"weights: '{prefix}' taken off the names{_format_others(others)}")
    remedy = (
        "Name the right file, the right network, or the --size that it was trained for; or leave --size out."
    )
    with failing(f"{path} cannot be fitted to {whose}", f" {remedy}"):
        state = converted(inner)
    for name, tensor in expected.items():
        # Counters of batches seen are no weights, and older files lack them.
        if name.endswith("num_batches_tracked"):
            state.setdefault(name, tensor)
    weights = {name: tensor for name, tensor in state.items() if name in expected}
    if wrong := state_dicts.difference(expected, weights, path):
        if weights.keys() == expected.keys():
            raise UserError(f"{path} has other shapes than {whose}, whose names it has: {wrong}. {remedy}")
        raise UserError(
            f"{path} does not hold weights of {whose}: {wrong}. Name the right file, or the right network."
        )
    over += [name for name in state if name not in expected]
    if over:
        first = ", ".join(over[:3]) + (", ..." if len(over) > 3 else "")
        notes.append(f"weights: {len(over)} tensors of the file are not used ({first})")
    network.load_state_dict(weights, strict=True)
    return (f"weights: {path}", *notes)


def read(path: Path, whose: str) -> tuple[State, list[str]]:
    """Tensors by name, and what they were taken out of."""
    notes: list[str] = []
    state: Any = None
    if path.suffix != ".safetensors":
        with suppress(Exception):  # it is read once more, for the words
            state = torch.load(path, map_location="cpu", weights_only=True)
    while not (
        isinstance(state, dict) and state and all(isinstance(t, torch.Tensor) for t in state.values())
    ):
        inside = [name for name in NESTED if isinstance(state, dict) and isinstance(state.get(name), dict)]
        if not inside:
            return state_dicts.read_state_dict(path, whose), []
        state = state[inside[0]]
        notes.append(f"weights: '{inside[0]}' of the checkpoint{_format_others(inside[1:])}")
    return {str(name): tensor for name, tensor in state.items()}, notes


def _format_others(others: list[str]) -> str:
    return f" (not {', '.join(others)})" if others else ""


def _find_prefixes(expected: State, state: State) -> list[str]:
    """What stands before the network's own names in the file: the beginnings that leave most of them, in the file's order."""
    parts = [name.split(".") for name in state]
    candidates = dict.fromkeys(
        ".".join([*p[:depth], ""]) for p in parts for depth in range(1, min(len(p), DEEPEST + 1))
    )
    fitting = {
        prefix: sum(
            prefix + name in state and state[prefix + name].shape == t.shape for name, t in expected.items()
        )
        for prefix in ("", *candidates)
    }
    most = max(fitting.values())
    return [prefix for prefix, count in fitting.items() if count == most] if most else [""]


def guess_activation(name: str, weights: Path, quick: str) -> str:
    """The sentence on a file of weights for a network that computes GELU, and whose twin ``quick`` computes QuickGELU; a file
    that is known to want the twin is an error.
    """
    says = "its name says it" if "quickgelu" in weights.name.lower() else ""
    if read(weights, name)[0].keys() >= OPENAI:
        says = "it is one of OpenAI's files"
    if says:
        raise UserError(
            f"{weights} was trained with QuickGELU ({says}), and {name} computes GELU: name {quick}."
        )
    return (
        f"{name} computes GELU, and {weights.name} does not tell its activation. Weights of OpenAI, among others, were trained"
        f" with QuickGELU: {quick} computes that."
    )
