"""Several small cells at once on one GPU, or on one core each, against one after the other with all that the machine has."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from benchmarks import Contender, Figure, Measured
from benchmarks._machine import cores

TITLE = "trainings of a small model (MobileNetV2 at 64 pixels): side by side, or one after the other"
DEVICES = ("cpu", "cuda")
THREADS = None
ROUNDS = 2
OURS, IN_TURN = "side by side", "one after the other"
ON_A_GPU = 4
STEPS = 40

TRAIN = """
import sys
import torch
from bgbias import plugins, seeds
from bgbias.compute.device import pick
from bgbias.models.backbones.mobilenet_v2 import Params
from bgbias.models.model import build_model
from bgbias.training import loop
from bgbias.training.methods import Batch
from bgbias.training.settings import Train

device, steps = pick(sys.argv[1]), int(sys.argv[2])
generator = seeds.torch_generator("bench")
model = build_model("mobilenet_v2", Params(weights=None), 128, generator)
loss = plugins.load("losses", "contrastive")
base = loss.build(loss.Params(pos_margin=0, neg_margin=0.5), 0, 128, generator)
method = plugins.load("methods", "plain").Method(model, base)
settings = Train(iterations_per_epoch=steps)
loop.to_device(method, device)
photos = torch.randint(0, 256, (32, 3, 64, 64), dtype=torch.uint8)
batch = Batch(photos, torch.arange(32) // 4, torch.arange(32))
optimizer = loop.make_optimizer(method, settings)
loop.train_epoch(method, iter([batch] * steps), optimizer, settings, device, 1)
"""


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    count = ON_A_GPU if device.startswith("cuda") else max(2, cores())
    steps = 1 if tiny else STEPS

    def start(threads: int) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-c", TRAIN, device, str(steps)]
        return subprocess.Popen(words, env={**os.environ, "OMP_NUM_THREADS": str(threads)})

    def side_by_side() -> None:
        _finish([start(1 if device == "cpu" else cores()) for _ in range(count)])

    def in_turn() -> None:
        for _ in range(count):
            _finish([start(cores())])

    yield Contender(OURS, "ours", side_by_side)
    yield Contender(IN_TURN, "ours", in_turn)


def judge(measured: Measured) -> list[Figure]:
    return [measured.ratio("times as fast as one after the other", IN_TURN, OURS, at_least=1)]


def _finish(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.wait():
            raise RuntimeError(f"a training ended with {process.returncode}")
