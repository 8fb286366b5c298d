"""Parts of a pretrained network that training leaves as they are.

What lies below the lowest trained part needs no gradients: with the stem and the first stages of MobileNetV2, where its maps are
largest, a step takes less than half the time.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from bgbias.errors import UserError


def frozen(trunk: nn.Module, parts: Sequence[str], backbone: str) -> list[nn.Parameter]:
    """The parameters of these parts of a trunk: of the modules or parameters that are so called, and of all inside them.

    A name that is none of the trunk's is an error.
    """
    named = dict(trunk.named_parameters())
    chosen = {name for name in named for part in parts if f"{name}.".startswith(f"{part}.")}
    for part in parts:
        if not any(f"{name}.".startswith(f"{part}.") for name in named):
            known = ", ".join(dict.fromkeys(name.partition(".")[0] for name in named))
            raise UserError(
                f"params.yaml: train.frozen: {backbone} has no part '{part}' with parameters. Its parts are {known};"
                " parts inside of these are named with dots."
            )
    return [named[name] for name in named if name in chosen]


def freeze(trunk: nn.Module, parts: Sequence[str], backbone: str) -> None:
    """Keep these parts of the trunk as they are from now on; batch norms in them still follow ``freeze_batch_norm``."""
    for parameter in frozen(trunk, parts, backbone):
        parameter.requires_grad_(False)
