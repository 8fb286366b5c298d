"""From photos to soft object masks with any saliency network that is an ONNX graph, as rembg runs such graphs.

RGB resized by LANCZOS to a square, divided by the picture's maximum, mean and standard deviation; the network's map through a
sigmoid where the graph lacks it, then what is done to a U²-Net's (``saliency.mask_from``): stretched to 0..1 per picture, times
255, truncated to bytes, LANCZOS back. The maximum before the stretch is the confidence: near 0 where nothing was found.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from bgbias.errors import UserError
from bgbias.masks import quality
from bgbias.masks.maskers._params import GraphParams, SaliencyRecipe
from bgbias.masks.policy import Mask
from bgbias.masks.saliency import mask_from, network_input, weights_file
from bgbias.models.adapters._library import load_graph

KINDS: dict[str, type[np.floating[Any]]] = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
PACKED = "onnx"  # the one tensor of a .safetensors that holds a graph
JUDGED = 8  # photos by which a graph that nobody knows is judged
ROUNDING = 1e-3  # of half precision, by which a map may leave 0..1


class _Input(NamedTuple):
    """The graph's input: its name, what it is made of, and the side S of [1, 3, S, S]."""

    name: str
    kind: type[np.floating[Any]]
    side: int


@dataclass(frozen=True)
class GraphMasker:
    """Photos in, masks out, photo by photo: not every graph takes more at a time. ``device`` is where the graph runs.

    ``is_unknown``: nobody published how the graph wants photos, so that its first masks are judged by their
    ``faults``.
    """

    session: Any
    entry: _Input
    output: str
    recipe: SaliencyRecipe
    path: Path
    device: str
    is_unknown: bool = False
    faults: list[str] = field(default_factory=list)

    def __call__(self, photos: Sequence[NDArray[np.uint8]]) -> list[Mask]:
        """One mask per RGB photo (uint8 [H, W, 3], any sizes), in order."""
        return list(self.one_by_one(photos))

    def one_by_one(self, photos: Sequence[NDArray[np.uint8]]) -> Iterator[Mask]:
        """The same one after the other; the first of an unknown graph when they are judged, so that nobody keeps bad ones."""
        made: list[Mask] = []
        for photo in photos:
            height, width = photo.shape[:2]
            made.append(mask_from(self._saliency(photo), height, width, self.recipe.stretch))
            if self.is_unknown and len(self.faults) < JUDGED:
                self._judge(made[-1])
            if not self.is_unknown or len(self.faults) == JUDGED:
                yield from made
                made.clear()
        yield from made

    def _judge(self, mask: Mask) -> None:
        """Refuse a graph if most of its first masks show no object."""
        self.faults.append(quality.fault(mask.alpha))
        counts = Counter(filter(None, self.faults))
        if len(self.faults) == JUDGED and 2 * counts.total() > JUDGED:
            counted = ", ".join(f"{count} show {fault}" for fault, count in counts.items())
            raise UserError(
                f"{self.path}: of the first {JUDGED} masks {counted}. The graph probably wants photos otherwise: give mean, std,"
                " sigmoid, stretch and output of masker onnx (`--mask-option mean=0.5,0.5,0.5`; in params.yaml, its options). The"
                " published graphs have maskers that know this: isnet, birefnet, birefnet_lite, u2net, u2netp."
            )

    def _saliency(self, photo: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The network's map, float32 [h, w] in 0..1."""
        name, kind, side = self.entry
        square = network_input(photo, side, self.recipe.mean, self.recipe.std).astype(kind)
        (output,) = self.session.run([self.output], {name: square[None]})
        if output.ndim < 2 or output.size != output.shape[-1] * output.shape[-2]:
            raise UserError(
                f"{self.path} gives {list(output.shape)} as '{self.output}', not one map [1, 1, h, w]: another network's file?"
                " Correct `weights`, or name the map (`output` of kind onnx)."
            )
        saliency = output.reshape(output.shape[-2:]).astype(np.float32)
        if self.recipe.sigmoid:
            saliency = expit(saliency)
        low, high = float(saliency.min()), float(saliency.max())
        if not (low >= -ROUNDING and high <= 1 + ROUNDING):  # also where it is no number
            raise UserError(
                f"{self.path} gives values from {low:.4g} to {high:.4g}, not from 0 to 1: another network's file? Correct"
                " `weights`; a graph without its last sigmoid wants `sigmoid: true` of kind onnx."
            )
        return saliency.clip(0, 1)


def build_masker(
    name: str, params: GraphParams, recipe: SaliencyRecipe, device: str, side: int | None = None
) -> GraphMasker:
    """The masker ``name`` with its graph loaded on ``device``; UserError where file, library or device are missing or others.

    ``side``: pixels that a graph which takes any size is shown, if its options do not say it; None if nobody knows.
    """
    path = weights_file(name, params.weights)
    graph = _unpack(path, name) if path.suffix == ".safetensors" else str(path)
    session = load_graph(graph, f"Masker '{name}'", str(path), device)
    entry = _input(session.get_inputs(), path, params.input_size, side)
    names = [one.name for one in session.get_outputs()]
    if recipe.output not in (*names, None):
        raise UserError(f"{path} has no output '{recipe.output}'; name one of: {', '.join(names)}.")
    return GraphMasker(session, entry, recipe.output or names[0], recipe, path, device, name == "onnx")


def pack(path: Path) -> dict[str, torch.Tensor]:
    """The bytes of an ONNX file as the one tensor of a .safetensors, which is the format that fetched weights are kept in."""
    return {PACKED: torch.from_numpy(np.fromfile(path, np.uint8))}


def _unpack(path: Path, name: str) -> bytes:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            graph: bytes = file.get_tensor(PACKED).tobytes()
    except SafetensorError as error:
        raise UserError(
            f"{path} holds no ONNX graph, which masker '{name}' is ({error}); name an .onnx file as its `weights`."
        ) from error
    return graph


def _input(inputs: list[Any], path: Path, size: int | None, usual: int | None) -> _Input:
    """The input, whose side is the graph's own, else the ``size`` that the options say, else the ``usual`` one."""
    if len(inputs) != 1:
        names = ", ".join(one.name for one in inputs)
        raise UserError(
            f"{path} has {len(inputs)} inputs ({names}), a saliency network a photo alone; correct `weights`."
        )
    (entry,) = inputs
    shape = [side if isinstance(side, int) and side > 0 else None for side in entry.shape]
    is_usable = len(shape) == 4 and shape[0] in (1, None) and shape[1] in (3, None) and shape[2] == shape[3]
    if not is_usable or entry.type not in KINDS:
        raise UserError(
            f"{path} takes {entry.type} {entry.shape}, not a photo [1, 3, S, S] of float32 or float16; correct `weights`."
        )
    graph_side = shape[2]
    if graph_side is not None and size not in (graph_side, None):
        raise UserError(
            f"{path} takes photos of {graph_side} pixels and no others; leave `input_size: {size}` out."
        )
    side = graph_side or size or usual
    if side is None:
        raise UserError(
            f"{path} takes photos of any size; say which one it was trained with: `input_size: 320`, for example."
        )
    return _Input(entry.name, KINDS[entry.type], side)
