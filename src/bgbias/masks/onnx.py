"""Weights of a U²-Net from an ONNX file, as rembg and others publish them: the graph is read, nothing in it is run.

Exporters keep the official names of some tensors and number the others. Where batch norm was folded into the convolutions (what
exporters do by default), it becomes one that changes nothing.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bgbias.errors import UserError
from bgbias.masks.u2net import ConvNormRelu, U2Net

# The inputs of ONNX's BatchNormalization after the first.
BATCH_NORM = ("weight", "bias", "running_mean", "running_var")


def read_onnx(path: Path, net: U2Net, whose: str) -> dict[str, Tensor]:
    """A state dict of ``net`` by its own names; UserError where the graph is not that of a net of this kind.

    Convolutions that kept their names go by these, the numbered ones by their order, which is that in which ``net`` runs them.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        graph = onnx.load(path).graph
    except (DecodeError, OSError, onnx.onnx_cpp2py_export.checker.ValidationError) as error:
        raise UserError(
            f"{path} cannot be read as weights of {whose}: it is no ONNX graph, or damaged ({error}); fetch or copy it again."
        ) from error
    fault = f"{path} does not hold weights of {whose}"
    stored = {i.name: i for i in graph.initializer}
    constants = [n for n in graph.node if n.op_type == "Constant"]
    stored |= {n.output[0]: a.t for n in constants for a in n.attribute if a.name == "value"}
    known = net.state_dict()

    def named(module: str, parts: Sequence[str], sources: Sequence[str]) -> dict[str, Tensor]:
        """The tensors ``sources`` as the ``parts`` of a module."""
        for source in sources:
            if source not in stored:
                raise UserError(
                    f"{fault} that can be read: '{source}' is computed in the graph, not stored in it."
                    " Use the official .pth file."
                )
        arrays = [np.array(onnx.numpy_helper.to_array(stored[source])) for source in sources]
        return {f"{module}.{p}": torch.from_numpy(a) for p, a in zip(parts, arrays, strict=True)}

    convolutions = [n for n in graph.node if n.op_type == "Conv"]
    norm_after = {n.input[0]: n for n in graph.node if n.op_type == "BatchNormalization"}
    own_names = {n.input[1].removesuffix(".weight") for n in convolutions if n.input[1] in known}
    blocks = [f"{name}.conv_s1" for name, module in net.named_modules() if isinstance(module, ConvNormRelu)]
    nameless = [name for name in blocks if name not in own_names]
    if len(convolutions) != len(own_names) + len(nameless):
        raise UserError(
            f"{fault}: its graph has {len(convolutions)} convolutions where {len(own_names) + len(nameless)} are"
            " needed. Is it another net's? Correct 'weights' in params.yaml."
        )
    in_order = iter(nameless)
    state: dict[str, Tensor] = {}
    for node in convolutions:
        name = node.input[1].removesuffix(".weight") if node.input[1] in known else next(in_order)
        state |= named(name, ("weight", "bias"), node.input[1:])
        if name.endswith(".conv_s1"):
            norm = name.removesuffix("conv_s1") + "bn_s1"
            after = norm_after.get(node.output[0])
            state |= named(norm, BATCH_NORM, after.input[1:]) if after else _unchanging(norm, known)
    return state


def _unchanging(norm: str, known: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A batch norm that lets everything pass, but for the epsilon (1e-5) that it adds to the variance."""
    values = {f"{norm}.{p}": v for p, v in zip(BATCH_NORM, (1.0, 0.0, 0.0, 1.0), strict=True)}
    return {name: known[name].new_full(known[name].shape, value) for name, value in values.items()}
