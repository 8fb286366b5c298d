"""A whole network as TorchScript, from ``torch.jit.save``: ``torchscript:model.pt``. Loading it runs no Python of its own.

It is given RGB [B, 3, S, S], normalised as the options say, or as usual for ImageNet.
"""

from pathlib import Path

from bgbias.errors import UserError
from bgbias.files import state_dicts
from bgbias.models.adapters import LOOKS, NORMALISES, Adapted, Options
from bgbias.models.adapters._library import asked, present
from bgbias.models.adapters._network import adapted
from bgbias.models.adapters._preparation import usual

TAKES = "a file of torch.jit.save"
OPTIONS = LOOKS | NORMALISES | {"pooling"}


def adapt(which: str, options: Options) -> Adapted:
    """The network as it was saved; a file that holds weights alone is an error."""
    import torch

    path = Path(which)
    present(path, "The network")
    kind = state_dicts.kind(path)
    if kind != "a network as TorchScript":
        raise UserError(
            f"{which} is {kind or 'of an unknown kind'}, no TorchScript. Weights go with the name of their network:"
            f" --model timm:resnet50 --weights {which}."
        )
    network = asked(f"torchscript:{which}", which, lambda: torch.jit.load(path, map_location="cpu"))
    return adapted(which, network, usual(options), options)
