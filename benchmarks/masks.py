"""Soft masks by the full U²-Net, against onnxruntime as rembg uses it. The weights are random: they do not matter to speed."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import Contender, Figure, Measured, peer

PEER = "rembg's session (onnxruntime)"
OURS = {"fp32": "bgbias, fp32", "bf16": "bgbias, bf16"}
ALONE = {"fp32": "the network alone, fp32", "bf16": "the network alone, bf16"}
FASTER = {"fp32": 0.9, "bf16": 1.5}
BATCH, BATCHES = {"cpu": 4, "cuda": 32}, {"cpu": 1, "cuda": 8}


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    import numpy as np
    import torch

    from bgbias.masks import u2net
    from bgbias.masks.maskers._params import SaliencyParams
    from bgbias.masks.saliency import SaliencyMasker
    from bgbias.toy.render import specimens

    size, make = (32, u2net.u2netp) if tiny else (320, u2net.u2net)
    batch = BATCH[torch.device(device).type]
    pictures = list(np.repeat(specimens(4, 2 * size)[0], photos(device) // 4, axis=0))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = make().eval()
    if device == "cpu":
        yield peer(PEER, "onnxruntime", lambda: _rembg(net, pictures, size))
    for precision, name in OURS.items():
        params = SaliencyParams(input_size=size, batch_size=batch, precision=precision)
        state = make()
        state.load_state_dict(net.state_dict())
        masker = SaliencyMasker(state, params, torch.device(device))
        yield Contender(name, "ours", partial(masker, pictures))
        if device != "cpu":
            yield Contender(ALONE[precision], "limit", _alone(masker, size, batch))


def judge(measured: Measured) -> list[Figure]:
    if measured.device != "cpu":
        return [
            figure
            for precision, name in OURS.items()
            for figure in (
                measured.ratio(
                    f"share of the speed of the network alone, {precision}",
                    ALONE[precision],
                    name,
                    at_least=0.9,
                ),
                measured.rate(f"masks, {precision}", name, photos(measured.device), "a second"),
            )
        ]
    return [
        measured.ratio(f"times as fast as {PEER}, {precision}", PEER, name, at_least=FASTER[precision])
        for precision, name in OURS.items()
    ]


def photos(device: str) -> int:
    """How many are masked in one run."""
    kind = device.partition(":")[0]
    return BATCH[kind] * BATCHES[kind]


def _alone(masker: Any, size: int, batch: int) -> Callable[[], None]:
    """As many passes through the masker's network, of pictures that lie in the GPU's memory."""
    import torch

    inputs = torch.rand(batch, 3, size, size, device=masker.device)

    def run() -> None:
        for _ in range(BATCHES["cuda"]):
            masker._saliency(inputs)

    return run


def _rembg(net: Any, pictures: list[Any], size: int) -> Callable[[], list[Any]]:
    """A photo at a time, as rembg 2.0.19 does it: its session's threads, its arithmetic before and after."""
    import onnxruntime

    from bgbias.masks.saliency import mask_from, network_input

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "net.onnx"
        _export(net, file, size)
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    def run() -> list[Any]:
        masks = []
        for picture in pictures:
            saliency = session.run(None, {"x": network_input(picture, size)[None]})[0][0, 0]
            masks.append(mask_from(saliency, *picture.shape[:2]))
        return masks

    return run


def _export(net: Any, file: Path, size: int) -> None:
    """The published file has all seven maps, each behind a sigmoid; so has this one."""
    import torch

    class Published(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Any) -> tuple[Any, ...]:
            return tuple(logits.sigmoid() for logits in self.net(x))

    with warnings.catch_warnings():
        # The older exporter needs no further package.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Published().eval(), (torch.zeros(1, 3, size, size),), str(file), dynamo=False, input_names=["x"]
        )
