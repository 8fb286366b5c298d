"""From a file of weights, as trainings leave them, to a network: wrappings are taken off and told, nothing in it is executed.

Weights seldom tell the activation that they were trained with, which changes all numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bgbias.compute.lazy import Tensor, nn, torch
from bgbias.errors import UserError
from bgbias.files import state_dicts

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


def fill(
    network: nn.Module, path: Path, whose: str, converted: Callable[[State], State] = lambda state: state
) -> tuple[str, ...]:
    """Fill the network from a state dict or a checkpoint, and tell what was taken off and what was left over.

    ``converted`` brings names of other libraries into the network's. A tensor that is missing or has another shape is an error.
    """
    state, told = read(path, whose)
    wanted = network.state_dict()
    prefix, *others = _prefixes(wanted, state)
    own = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
    over = [name for name in state if not name.startswith(prefix)]
    if prefix:
        told.append(f"weights: '{prefix}' taken off the names{_not_taken(others)}")
    state = converted(own)
    for name, tensor in wanted.items():
        # Counters of batches seen are no weights, and older files lack them.
        if name.endswith("num_batches_tracked"):
            state.setdefault(name, tensor)
    kept = {name: tensor for name, tensor in state.items() if name in wanted}
    if wrong := state_dicts.difference(wanted, kept, path):
        raise UserError(
            f"{path} does not hold weights of {whose}: {wrong}. Name the right file, or the right network."
        )
    over += [name for name in state if name not in wanted]
    if over:
        first = ", ".join(over[:3]) + (", ..." if len(over) > 3 else "")
        told.append(f"weights: {len(over)} tensors of the file are not used ({first})")
    network.load_state_dict(kept, strict=True)
    return (f"weights: {path}", *told)


def read(path: Path, whose: str) -> tuple[State, list[str]]:
    """Tensors by name, and what they were taken out of."""
    if path.suffix == ".safetensors":
        return state_dicts.read_state_dict(path, whose), []
    try:
        held: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # it is read once more, for the words
        return state_dicts.read_state_dict(path, whose), []
    told = []
    while not (isinstance(held, dict) and held and all(isinstance(t, torch.Tensor) for t in held.values())):
        inside = [name for name in NESTED if isinstance(held, dict) and isinstance(held.get(name), dict)]
        if not inside:
            return state_dicts.read_state_dict(path, whose), []
        held = held[inside[0]]
        told.append(f"weights: '{inside[0]}' of the checkpoint{_not_taken(inside[1:])}")
    return {str(name): tensor for name, tensor in held.items()}, told


def _not_taken(others: list[str]) -> str:
    return f" (not {', '.join(others)})" if others else ""


def _prefixes(wanted: State, state: State) -> list[str]:
    """What stands before the network's own names in the file: the beginnings that leave most of them, in the file's order."""
    parts = [name.split(".") for name in state]
    tried = dict.fromkeys(
        ".".join([*p[:depth], ""]) for p in parts for depth in range(1, min(len(p), DEEPEST + 1))
    )
    fitting = {
        prefix: sum(
            prefix + name in state and state[prefix + name].shape == t.shape for name, t in wanted.items()
        )
        for prefix in ("", *tried)
    }
    most = max(fitting.values())
    return [prefix for prefix, count in fitting.items() if count == most] if most else [""]


def list_activations(network: nn.Module) -> str:
    """Those that are modules of their own, by their classes; empty where there are none."""
    leaves = (m for m in network.modules() if not any(True for _ in m.children()))
    kinds = {str(getattr(leaf, "original_name", type(leaf).__name__)) for leaf in leaves}
    return ", ".join(sorted(filter(ACTIVATIONS.search, kinds)))


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
