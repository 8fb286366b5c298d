"""An image encoder as an ONNX graph: ``onnx:model.onnx``, or the file's name alone, run by ONNX Runtime. It has no gradients.

The input is one tensor, [B, 3, S, S] or [B, S, S, 3]. Whole numbers of 8 bits are given grey levels; floating-point numbers are
normalised as the options say, or as usual for ImageNet.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bgbias.errors import UserError
from bgbias.models.adapters import LOOKS, NORMALISES, Adapted, Options, _network, _runtime
from bgbias.models.adapters._library import needed, present
from bgbias.models.adapters._preparation import fixed, square, usual

TAKES = "a file with an ONNX graph"
OPTIONS = LOOKS | NORMALISES | {"pooling"}
KINDS: dict[str, type[np.number[Any]]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
}
# What exporters call the vectors among several outputs, the best first.
VECTORS = ("image_embeds", "image_features", "sentence_embedding", "embedding", "embeddings", "pooler_output")


class _Input(NamedTuple):
    """The graph's input: side S and number of pictures where they are fixed, and whether channels lie last."""

    name: str
    kind: type[np.number[Any]]
    side: int | None
    batch: int | None
    last: bool


def adapt(which: str, options: Options) -> Adapted:
    """The graph on the processor, or on a GPU where ONNX Runtime was built for one and it is asked for."""
    needed("onnxruntime", "onnx")
    options.refuse_precision(which)
    present(Path(which), "The ONNX graph")
    session = _runtime.session(which, f"onnx:{which}", which, options.device)
    entry = _input(session.get_inputs(), which, options)
    output, told = _output(session.get_outputs(), which)
    takes_grey_levels = entry.kind is np.uint8
    if takes_grey_levels:
        options.only(OPTIONS - NORMALISES, f"{which}, which takes grey levels")
    preparation = usual(options, entry.side, takes_grey_levels)

    def run(x: np.ndarray) -> np.ndarray:
        given = x.transpose(0, 2, 3, 1) if entry.last else x
        (found,) = session.run([output], {entry.name: np.ascontiguousarray(given, entry.kind)})
        return found  # type: ignore[no-any-return]

    return _network.on_processor(which, run, preparation, options, told=told, batch=entry.batch)


def _input(inputs: list[Any], which: str, options: Options) -> _Input:
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
    last = shape[3] == 3 and shape[1] != 3
    height, width = shape[1:3] if last else shape[2:]
    side = fixed(square(height, width, which), options, which)
    if side is None and options.size is None:
        raise UserError(
            f"{which} takes pictures of any size; say which one it was trained with: --size 224, for example."
        )
    return _Input(entry.name, KINDS[entry.type], side, shape[0], last)


def _output(outputs: list[Any], which: str) -> tuple[str, tuple[str, ...]]:
    """The output with the vectors, told where there are several."""
    names = [one.name for one in outputs]
    if len(names) == 1:
        return names[0], ()
    for known in VECTORS:
        if known in names:
            return known, (f"output: '{known}' of {', '.join(names)}",)
    raise UserError(
        f"{which} has the outputs {', '.join(names)}, none of which is called as vectors usually are ({', '.join(VECTORS)})."
        " Export it with the embedding alone."
    )
