"""From photos to soft object masks with a U²-Net: what happens to pixels before and after the network.

The recipe is that of rembg 2.0.19, with which the background-bias paper made its masks: RGB resized by
LANCZOS to a square, divided by the picture's maximum, ImageNet mean and standard deviation; the fused output
stretched to 0..1 per picture, times 255, truncated to bytes, LANCZOS back. The stretch always reaches 1, also
where nothing is salient, so the maximum before the stretch is kept as a confidence.

Weights come as .pth or .safetensors, or from an ONNX file, as rembg and others publish them: the graph is read, nothing in it is
run. Exporters keep the official names of some tensors and number the others. Where batch norm was folded into the convolutions
(what exporters do by default), it becomes one that changes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from bgbias import plugins
from bgbias.compute.device import full_precision, pick, threads
from bgbias.compute.transfer import prefetch, to_host
from bgbias.errors import UserError
from bgbias.files import state_dicts
from bgbias.files.places import source
from bgbias.masks.maskers._params import MEAN, STD, Colours, SaliencyParams
from bgbias.masks.policy import Mask
from bgbias.masks.u2net import NETS, ConvNormRelu, U2Net

# The inputs of ONNX's BatchNormalization after the first.
BATCH_NORM = ("weight", "bias", "running_mean", "running_var")


def network_input(
    photo: NDArray[np.uint8], size: int, mean: Colours = MEAN, std: Colours = STD
) -> NDArray[np.float32]:
    """The normalised square [3, size, size] that the network sees of an RGB photo [H, W, 3]."""
    square = np.asarray(Image.fromarray(photo).resize((size, size), Image.Resampling.LANCZOS), np.float32)
    away, by = np.array(mean, np.float32), np.array(std, np.float32)
    return ((square / max(square.max(), 1.0) - away) / by).transpose(2, 0, 1)


def mask_from(saliency: NDArray[np.float32], height: int, width: int, stretch: bool = True) -> Mask:
    """The mask of a photo of this size from its square saliency map in 0..1; with ``stretch`` empty if the map is constant."""
    low, high = float(saliency.min()), float(saliency.max())
    if stretch:
        saliency = (saliency - low) / (high - low) if high > low else np.zeros_like(saliency)
    square = Image.fromarray((saliency * 255).astype(np.uint8))
    return Mask(np.array(square.resize((width, height), Image.Resampling.LANCZOS)), high)


class SaliencyMasker:
    """Photos in, masks out. ``device`` is where the network really runs."""

    def __init__(self, net: U2Net, params: SaliencyParams, device: torch.device) -> None:
        self.device, self._params = device, params
        self._overlapped = device.type != "cpu"
        net = net.float().fold()
        if params.precision == "bf16":
            net = net.to_bfloat16()
        # The stubs of torch do not know that modules take a memory format.
        self._net = net.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def __call__(self, photos: Sequence[NDArray[np.uint8]]) -> list[Mask]:
        """One mask per RGB photo (uint8 [H, W, 3], any sizes), in order; on a CPU whichever come together, at any batch size."""
        return list(self.one_by_one(photos))

    def one_by_one(self, photos: Sequence[NDArray[np.uint8]]) -> Iterator[Mask]:
        """The same as they are made, batch by batch."""
        step = self._params.batch_size
        batches = [photos[start : start + step] for start in range(0, len(photos), step)]
        with ThreadPoolExecutor(threads()) as pool:
            inputs = (self._inputs(batch, pool) for batch in batches)
            # Pillow is slower than a GPU and works beside it; on a CPU it would only take the network's cores.
            saliencies = (
                to_host(map(self._saliency, prefetch(inputs, str(self.device))))
                if self._overlapped
                else map(self._saliency, inputs)
            )
            for batch, maps in zip(batches, saliencies, strict=True):
                heights, widths = zip(*(photo.shape[:2] for photo in batch), strict=True)
                # A photo that was shown twice has two maps.
                yield from pool.map(mask_from, maps.numpy()[: len(batch)], heights, widths)

    def _inputs(self, batch: Sequence[NDArray[np.uint8]], pool: ThreadPoolExecutor) -> torch.Tensor:
        inputs = list(pool.map(network_input, batch, repeat(self._params.input_size)))
        # A single picture is convolved by other kernels, which move grey levels by one: it is shown twice.
        return torch.from_numpy(np.stack(inputs * 2 if len(inputs) == 1 else inputs))

    @torch.inference_mode()
    def _saliency(self, inputs: torch.Tensor) -> torch.Tensor:
        """Fused saliency [B, size, size] in 0..1, on the device."""
        x = inputs.to(self.device, memory_format=torch.channels_last)
        # So that both devices give the same masks.
        with full_precision():
            return self._net(x)[0][:, 0].sigmoid()


def build_masker(name: str, params: SaliencyParams, device: str) -> SaliencyMasker:
    """The masker ``name`` with its weights loaded; UserError where they or ``device`` are absent."""
    real = torch.device(pick(device))
    net = NETS[name]()
    load_weights(net, weights_file(name, params.weights), name)
    return SaliencyMasker(net, params, real)


def weights_file(name: str, weights: str | None) -> Path:
    """The file of the masker's ``weights``, as its options name it. None, and a file that is not there, are errors; the latter's
    says where it is published.
    """
    if weights is None:
        raise UserError(f"Masker '{name}' has no weights; name their file as its 'weights' in params.yaml.")
    path = source(weights)
    if path.is_file():
        return path
    sources = getattr(plugins.load("maskers", name), "PUBLISHED", ())
    fitting = [s for s in sources if s.called.endswith(path.suffix)] or sources
    published = next(iter(fitting), None)
    put = f"put it there (published: {published.place}, sha256 {published.sha256}) or " if published else ""
    cure = f"{put}correct 'weights' in params.yaml"
    if path.stem.endswith("_toy"):
        cure = "`make toy-masker` makes it"
    raise UserError(f"The weights of masker '{name}' are missing: no file {path}; {cure}.")


def load_weights(net: U2Net, path: Path, name: str) -> None:
    """Fill ``net`` from a .safetensors file, an official .pth or an .onnx; UserError says what does not match."""
    state = published_state(path, net, f"masker '{name}'")
    check_fits(net, state, path, name)
    net.load_state_dict(state)


def published_state(path: Path, net: U2Net, whose: str, device: str = "cpu") -> dict[str, torch.Tensor]:
    """The tensors of a file of weights by the names of ``net``, in whichever format they are published. ``device``: ``meta`` for
    their shapes alone, where the format has these by themselves.
    """
    if path.suffix == ".onnx":
        return read_onnx(path, net, whose)
    return state_dicts.read_state_dict(path, whose, device)


def check_fits(net: U2Net, state: dict[str, torch.Tensor], path: Path, name: str) -> None:
    """Refuse the tensors of the file ``path``, or their shapes alone (torch's ``meta``), where they are not those of ``net``."""
    # Batch norm's counters of batches are bookkeeping, and absent from files of before 2018 and from ours.
    bookkeeping = {k for k in net.state_dict() if k.endswith("num_batches_tracked")}
    expected, actual = (
        {k: v for k, v in s.items() if k not in bookkeeping} for s in (net.state_dict(), state)
    )
    if fault := state_dicts.difference(expected, actual, path):
        raise UserError(
            f"{path} does not hold the weights of '{name}': {fault}."
            " Is it the file of the other net (u2net, u2netp)? Correct 'weights' in params.yaml."
        )


def read_onnx(path: Path, net: U2Net, whose: str) -> dict[str, torch.Tensor]:
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
    own_state = net.state_dict()

    def tensors_of(module: str, parts: Sequence[str], sources: Sequence[str]) -> dict[str, torch.Tensor]:
        """The tensors ``sources`` as the ``parts`` of a module."""
        for name in sources:
            if name not in stored:
                raise UserError(
                    f"{fault} that can be read: '{name}' is computed in the graph, not stored in it."
                    " Use the official .pth file."
                )
        arrays = [np.array(onnx.numpy_helper.to_array(stored[name])) for name in sources]
        return {f"{module}.{p}": torch.from_numpy(a) for p, a in zip(parts, arrays, strict=True)}

    convolutions = [n for n in graph.node if n.op_type == "Conv"]
    norm_after = {n.input[0]: n for n in graph.node if n.op_type == "BatchNormalization"}
    own_names = {n.input[1].removesuffix(".weight") for n in convolutions if n.input[1] in own_state}
    blocks = [f"{name}.conv_s1" for name, module in net.named_modules() if isinstance(module, ConvNormRelu)]
    nameless = [name for name in blocks if name not in own_names]
    if len(convolutions) != len(own_names) + len(nameless):
        raise UserError(
            f"{fault}: its graph has {len(convolutions)} convolutions where {len(own_names) + len(nameless)} are"
            " needed. Is it another net's? Correct 'weights' in params.yaml."
        )
    in_order = iter(nameless)
    state: dict[str, torch.Tensor] = {}
    for node in convolutions:
        name = node.input[1].removesuffix(".weight") if node.input[1] in own_state else next(in_order)
        state |= tensors_of(name, ("weight", "bias"), node.input[1:])
        if name.endswith(".conv_s1"):
            norm = name.removesuffix("conv_s1") + "bn_s1"
            after = norm_after.get(node.output[0])
            state |= tensors_of(norm, BATCH_NORM, after.input[1:]) if after else _unchanging(norm, own_state)
    return state


def _unchanging(norm: str, own_state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A batch norm that lets everything pass, but for the epsilon (1e-5) that it adds to the variance."""
    values = {f"{norm}.{p}": v for p, v in zip(BATCH_NORM, (1.0, 0.0, 0.0, 1.0), strict=True)}
    return {name: own_state[name].new_full(own_state[name].shape, value) for name, value in values.items()}
