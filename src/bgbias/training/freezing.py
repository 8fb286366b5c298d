"""Parts of a pretrained network that training leaves as they are.

What lies below the lowest trained part needs no gradients: with the stem and the first stages of MobileNetV2, where its maps are
largest, a step takes less than half the time.
"""

from collections.abc import Sequence

from torch import nn

from bgbias.errors import UserError


def freeze(trunk: nn.Module, parts: Sequence[str], backbone: str) -> None:
    """Keep these parts of a trunk as they are from now on: the modules or parameters that are so called, and all
    inside them. Batch norms in them still follow ``freeze_batch_norm``.

    A name that is none of the trunk's is an error.
    """
    named = dict(trunk.named_parameters())
    for part in parts:
        inside = [p for name, p in named.items() if f"{name}.".startswith(f"{part}.")]
        if not inside:
            known = ", ".join(dict.fromkeys(name.partition(".")[0] for name in named))
            raise UserError(
                f"params.yaml: train.frozen: {backbone} has no part '{part}' with parameters. Its parts are {known};"
                " parts inside of these are named with dots."
            )
        for parameter in inside:
            parameter.requires_grad_(False)
