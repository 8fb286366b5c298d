"""Saliency networks as ONNX graphs, small stand-ins for published ones: the same inputs, outputs and layout."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIDE = 32
# From R, G, B to one map of logits.
WEIGHTS = np.array([1.5, -2.0, 0.75], np.float32)
BIAS = np.float32(-0.4)
Shape = tuple[int | str | None, ...]


def graph(
    path: Path,
    *,
    sigmoid: bool = True,
    shape: Shape = (1, 3, SIDE, SIDE),
    inputs: tuple[str, ...] = ("input_image",),
    outputs: tuple[str, ...] = ("output_image",),
    kind: int = TensorProto.FLOAT,
    maps: int = 1,
    bias: float = float(BIAS),
) -> Path:
    """A 1x1 convolution of the colours, with or without its sigmoid; the outputs after the first one are its halves."""
    number = np.float16 if kind == TensorProto.FLOAT16 else np.float32
    kernel = np.tile(WEIGHTS[None, :, None, None], (maps, 1, 1, 1)).astype(number)
    last = outputs[0] if not sigmoid else "logits"
    nodes = [helper.make_node("Conv", [inputs[0], "kernel", "bias"], [last])]
    if sigmoid:
        nodes.append(helper.make_node("Sigmoid", [last], [outputs[0]]))
    nodes += [helper.make_node("Mul", [outputs[0], "half"], [name]) for name in outputs[1:]]
    stored = {"kernel": kernel, "bias": np.full(maps, bias, number)}
    stored |= {"half": np.array(0.5, number)} if outputs[1:] else {}
    made = helper.make_graph(
        nodes,
        "saliency",
        [helper.make_tensor_value_info(name, kind, shape) for name in inputs],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path
