"""A network as phones run it: ``tflite:model.tflite``, or the file's name alone, run by LiteRT on the processor. No gradients.

Whole numbers of 8 bits are given grey levels; floating-point numbers are normalised as the options
say, or as usual for ImageNet. The embedding is the last tensor that is named after pooling, in real
numbers; ``tflite:model.tflite#AvgPool/AvgPool`` names another one.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from bgbias.compute.device import threads
from bgbias.errors import UserError
from bgbias.models.adapters import LOOKS, NORMALISES, Adapted, Options, _network
from bgbias.models.adapters._library import asked, named, needed, present
from bgbias.models.adapters._preparation import fixed, square, usual

TAKES = "a file .tflite, and perhaps #<tensor>"
OPTIONS = LOOKS | NORMALISES
POOLED = ("pool", "mean", "embedding")  # in a tensor's name
GREY_LEVELS = {np.uint8: 0, np.int8: -128}  # what black is


def adapt(which: str, options: Options) -> Adapted:
    """The network; one that takes no squares of colours, or has no pooled tensor, is an error."""
    library = needed("ai_edge_litert.interpreter", "tflite")
    file, _, tensor = which.partition("#")
    present(Path(file), "The TFLite model")
    options.refuse_precision(which)

    def read() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # all tensors are kept on purpose
            interpreter = library.Interpreter(
                file, num_threads=threads(), experimental_preserve_all_tensors=True
            )
        interpreter.allocate_tensors()
        return interpreter

    model = asked(f"tflite:{which}", file, read)
    inputs = model.get_input_details()
    shape = inputs[0]["shape"].tolist()
    if len(inputs) != 1 or len(shape) != 4 or shape[3] != 3:
        shapes = [one["shape"].tolist() for one in inputs]
        raise UserError(f"{file} takes {shapes}, not pictures [1, S, S, 3] alone.")
    entry, kind = inputs[0]["index"], inputs[0]["dtype"]
    if takes_grey_levels := kind in GREY_LEVELS:
        options.only(OPTIONS - NORMALISES, f"{file}, which takes grey levels")
    side = fixed(square(shape[1], shape[2], file), options, file)
    layer = _find_layer(model, tensor, file)
    scale, zero = layer["quantization"]

    def run(x: np.ndarray) -> np.ndarray:
        pixels = x.transpose(0, 2, 3, 1) + GREY_LEVELS.get(kind, 0)
        model.set_tensor(entry, np.ascontiguousarray(pixels, kind))
        model.invoke()
        real = model.get_tensor(layer["index"]).astype(np.float32)
        real = (real - zero) * scale if scale else real
        return real.reshape(1, -1, real.shape[-1]).mean(1)  # type: ignore[no-any-return]

    preparation, described = usual(options, side, takes_grey_levels), f"embedding: the tensor {layer['name']}"
    return _network.on_processor(which, run, preparation, options, embedding=described, batch=1)


def _find_layer(model: Any, tensor: str, file: str) -> dict[str, Any]:
    """The tensor of this name, or the last one that is named after pooling."""
    tensors = {one["name"]: one for one in model.get_tensor_details() if one["shape"].size in (2, 4)}
    if tensor:
        named(tensor, tensors, f"tensor in {file}:", ", ".join(list(tensors)[-8:]))
        return tensors[tensor]
    for name, details in reversed(tensors.items()):
        is_vector = details["shape"][:-1].prod() == 1 < details["shape"][-1]
        if is_vector and any(word in name.lower() for word in POOLED):
            return details
    raise UserError(
        f"{file} has no tensor that is named after pooling. Name the one that is the embedding:"
        f" tflite:{file}#<tensor>, of {', '.join(list(tensors)[-8:])}."
    )
