"""A whole network in a file. Loading it runs no Python of its own."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bgbias.compute.device import threads
from bgbias.compute.lazy import Tensor, torch
from bgbias.errors import UserError
from bgbias.files import state_dicts
from bgbias.models.adapters import LOOKS, NORMALISES, Adapted, Options, as_kind
from bgbias.models.adapters._library import check_name, import_extra, load_graph, load_source
from bgbias.models.adapters._network import adapt_network
from bgbias.models.adapters._preparation import Preparation, square, usual

OPTIONS = LOOKS | NORMALISES | {"pooling"}
KINDS: dict[str, type[np.number[Any]]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
}
# What exporters to ONNX call the vectors among several outputs, the best first.
VECTORS = ("image_embeds", "image_features", "sentence_embedding", "embedding", "embeddings", "pooler_output")
POOLED = ("pool", "mean", "embedding")  # in the name of a TFLite model's tensor
GREY_LEVELS = {np.uint8: 0, np.int8: -128}  # what black is in TFLite


def adapt_torchscript(which: str, options: Options) -> Adapted:
    """A whole network as TorchScript, from ``torch.jit.save``: ``torchscript:model.pt``. Loading it runs no Python of its
    own, and a file that holds weights alone is an error.

    It is given RGB [B, 3, S, S], normalised as the options say, or as usual for ImageNet.
    """
    path = _check_file(which)
    kind = state_dicts.kind(path)
    if kind != "a network as TorchScript":
        raise UserError(
            f"{which} is {kind or 'of an unknown kind'}, no TorchScript. Weights go with the name of their network:"
            f" --model timm:resnet50 --weights {which}."
        )
    network = load_source(f"torchscript:{which}", which, lambda: torch.jit.load(path, map_location="cpu"))
    return adapt_network(which, network, usual(options), options)


def adapt_exported(which: str, options: Options) -> Adapted:
    """A whole network as a program, from ``torch.export.save``: ``exported:model.pt2``, or the file's name alone. Loading it
    runs no Python of its own.

    It is given RGB [B, 3, S, S] of the size that it was exported for, normalised as the options say, or as usual for ImageNet.
    """
    path = _check_file(which)
    program: Any = load_source(f"exported:{which}", which, lambda: torch.export.load(path))
    entries = set(program.graph_signature.user_inputs)
    shapes = [n.meta["val"].shape for n in program.graph.nodes if n.op == "placeholder" and n.name in entries]
    if len(shapes) != 1 or len(shapes[0]) != 4:
        raise UserError(
            f"{which} takes {[list(map(str, s)) for s in shapes]}, not one tensor of pictures [B, 3, S, S]."
        )
    batch, _, *sides = (side if isinstance(side, int) else None for side in shapes[0])
    preparation = usual(options, _find_side(sides, options, which))
    return adapt_network(which, program.module(), preparation, options, batch=batch)


def adapt_onnx(which: str, options: Options) -> Adapted:
    """An image encoder as an ONNX graph: ``onnx:model.onnx``, or the file's name alone, run by ONNX Runtime. It has no
    gradients.

    The input is one tensor, [B, 3, S, S] or [B, S, S, 3]. Whole numbers of 8 bits are given grey levels; floating-point
    numbers are normalised as the options say, or as usual for ImageNet. It runs on the processor, or on a GPU where
    ONNX Runtime was built for one and it is asked for.
    """
    _check_file(which)
    options.refuse_precision(which)
    session = load_graph(which, f"onnx:{which}", which, options.device)
    inputs = session.get_inputs()
    if len(inputs) != 1:
        names = ", ".join(one.name for one in inputs)
        raise UserError(
            f"{which} has {len(inputs)} inputs ({names}); export the part that embeds images alone."
        )
    (entry,) = inputs
    shape = [side if isinstance(side, int) and side > 0 else None for side in entry.shape]
    if len(shape) != 4 or entry.type not in KINDS:
        raise UserError(
            f"{which} takes {entry.type} {entry.shape}, not pictures [B, 3, S, S] of float32, float16 or uint8."
        )
    kind, is_last = KINDS[entry.type], shape[3] == 3 and shape[1] != 3
    side = _find_side(shape[1:3] if is_last else shape[2:], options, which)
    if side is None and options.size is None:
        raise UserError(
            f"{which} takes pictures of any size; say which one it was trained with: --size 224, for example."
        )
    if takes_grey_levels := kind is np.uint8:
        options.only(OPTIONS - NORMALISES, f"{which}, which takes grey levels")
    output, notes = _choose_output([one.name for one in session.get_outputs()], which)

    def run(x: np.ndarray) -> np.ndarray:
        pixels = np.ascontiguousarray(x.transpose(0, 2, 3, 1) if is_last else x, kind)
        return session.run([output], {entry.name: pixels})[0]  # type: ignore[no-any-return]

    preparation = usual(options, side, takes_grey_levels)
    return _adapt_function(which, run, preparation, options, notes=notes, batch=shape[0])


def adapt_tflite(which: str, options: Options) -> Adapted:
    """A network as phones run it: ``tflite:model.tflite``, or the file's name alone, run by LiteRT on the processor. No
    gradients.

    Whole numbers of 8 bits are given grey levels; floating-point numbers are normalised as the options say, or as usual for
    ImageNet. The embedding is the last tensor that is named after pooling, in real numbers;
    ``tflite:model.tflite#AvgPool/AvgPool`` names another one.
    """
    library = import_extra("ai_edge_litert.interpreter", "tflite")
    file, _, tensor = which.partition("#")
    _check_file(file)
    options.refuse_precision(which)

    def read() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # all tensors are kept on purpose
            interpreter = library.Interpreter(
                file, num_threads=threads(), experimental_preserve_all_tensors=True
            )
        interpreter.allocate_tensors()
        return interpreter

    model = load_source(f"tflite:{which}", file, read)
    inputs = model.get_input_details()
    shape = inputs[0]["shape"].tolist()
    if len(inputs) != 1 or len(shape) != 4 or shape[3] != 3:
        shapes = [one["shape"].tolist() for one in inputs]
        raise UserError(f"{file} takes {shapes}, not pictures [1, S, S, 3] alone.")
    entry, kind = inputs[0]["index"], inputs[0]["dtype"]
    if takes_grey_levels := kind in GREY_LEVELS:
        options.only(LOOKS, f"{file}, which takes grey levels")
    side = _find_side(shape[1:3], options, file)
    layer = _find_layer(model, tensor, file)
    scale, zero = layer["quantization"]

    def run(x: np.ndarray) -> np.ndarray:
        pixels = x.transpose(0, 2, 3, 1) + GREY_LEVELS.get(kind, 0)
        model.set_tensor(entry, np.ascontiguousarray(pixels, kind))
        model.invoke()
        real = model.get_tensor(layer["index"]).astype(np.float32)
        real = (real - zero) * scale if scale else real
        return real.reshape(1, -1, real.shape[-1]).mean(1)  # type: ignore[no-any-return]

    preparation, embedding = usual(options, side, takes_grey_levels), f"embedding: the tensor {layer['name']}"
    return _adapt_function(which, run, preparation, options, embedding=embedding, batch=1)


def _check_file(file: str) -> Path:
    if not Path(file).is_file():
        raise UserError(f"The model {file} is missing; correct --model.")
    return Path(file)


def _find_side(sides: list[int | None], options: Options, name: str) -> int | None:
    """The side of the pictures that a network takes, which options may repeat; None where it takes any."""
    height, width = sides
    side = square(height, width, name)
    if side is not None and options.size not in (None, side):
        raise UserError(
            f"{name} takes pictures of {side} pixels and no others; leave --size {options.size} out."
        )
    return side


def _choose_output(names: list[str], which: str) -> tuple[str, tuple[str, ...]]:
    if len(names) == 1:
        return names[0], ()
    for name in VECTORS:
        if name in names:
            return name, (f"output: '{name}' of {', '.join(names)}",)
    raise UserError(
        f"{which} has the outputs {', '.join(names)}, none of which is called as vectors usually are ({', '.join(VECTORS)})."
        " Export it with the embedding alone."
    )


def _find_layer(model: Any, tensor: str, file: str) -> dict[str, Any]:
    """The tensor of this name, or the last one that is named after pooling."""
    tensors = {one["name"]: one for one in model.get_tensor_details() if one["shape"].size in (2, 4)}
    if tensor:
        check_name(tensor, tensors, f"tensor in {file}:", ", ".join(list(tensors)[-8:]))
        return tensors[tensor]
    for name, details in reversed(tensors.items()):
        is_vector = details["shape"][:-1].prod() == 1 < details["shape"][-1]
        if is_vector and any(word in name.lower() for word in POOLED):
            return details
    raise UserError(
        f"{file} has no tensor that is named after pooling. Name the one that is the embedding:"
        f" tflite:{file}#<tensor>, of {', '.join(list(tensors)[-8:])}."
    )


def _adapt_function(
    name: str,
    run: Callable[[np.ndarray], np.ndarray],
    preparation: Preparation,
    options: Options,
    **more: Any,
) -> Adapted:
    """A function of arrays float32 [B, 3, S, S] that runs on the processor or manages its device itself."""

    def network(x: Tensor) -> Tensor:
        return torch.from_numpy(run(x.numpy()))

    return replace(
        adapt_network(name, network, preparation, replace(options, device="cpu"), **more), network=None
    )


MEMBERS = {
    "torchscript": as_kind(adapt_torchscript, "a file of torch.jit.save"),
    "exported": as_kind(adapt_exported, "a file of torch.export.save"),
    "onnx": as_kind(adapt_onnx, "a file with an ONNX graph"),
    "tflite": as_kind(adapt_tflite, "a file .tflite, and perhaps #<tensor>", OPTIONS=LOOKS | NORMALISES),
}
