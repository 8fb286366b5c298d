"""A whole network in a file: as TorchScript, from ``torch.jit.save`` (``torchscript:model.pt``), or
from ``torch.export.save`` (``exported:model.pt2``, or the file's name alone). Loading it runs no
Python of its own.

It is given RGB [B, 3, S, S], normalised as the options say, or as usual for ImageNet.
"""

from pathlib import Path
from typing import Any

from bgbias.compute.lazy import torch
from bgbias.errors import UserError
from bgbias.files import state_dicts
from bgbias.models.adapters import LOOKS, NORMALISES, Adapted, Options
from bgbias.models.adapters._library import asked, present
from bgbias.models.adapters._network import adapted
from bgbias.models.adapters._preparation import fixed, square, usual

OPTIONS = LOOKS | NORMALISES | {"pooling"}


def adapt_torchscript(which: str, options: Options) -> Adapted:
    """The network as it was saved; a file that holds weights alone is an error."""
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


def adapt_exported(which: str, options: Options) -> Adapted:
    """The program as it was exported, for photos of the size that it was exported for: its modes were settled then."""
    path = Path(which)
    present(path, "The exported program")
    program = asked(f"exported:{which}", which, lambda: torch.export.load(path))
    side, batch = _shape(program, which)
    side = fixed(side, options, which)
    return adapted(which, program.module(), usual(options, side), options, batch=batch)


def _shape(program: Any, which: str) -> tuple[int | None, int | None]:
    """Side and number of the pictures that the program takes, each None where it may be any."""
    wanted = set(program.graph_signature.user_inputs)
    shapes = [n.meta["val"].shape for n in program.graph.nodes if n.op == "placeholder" and n.name in wanted]
    if len(shapes) != 1 or len(shapes[0]) != 4:
        raise UserError(
            f"{which} takes {[list(map(str, s)) for s in shapes]}, not one tensor of pictures [B, 3, S, S]."
        )
    batch, _, height, width = (side if isinstance(side, int) else None for side in shapes[0])
    return square(height, width, which), batch


MEMBERS = {
    "torchscript": {"TAKES": "a file of torch.jit.save", "adapt": adapt_torchscript},
    "exported": {"TAKES": "a file of torch.export.save", "adapt": adapt_exported},
}
