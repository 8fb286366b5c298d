"""Training: a step on photos and on a GPU, an attack on a batch, and several small cells at once."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import Contender, Figure, Measured, surroundings
from benchmarks._project import contrastive_method, cores, random_model, trainer
from bgbias.compute import vitals

PER_CLASS = 4


def epochs(photos: Any, batch: int, steps: int) -> Iterator[Any]:
    """The batches of an epoch."""
    from bgbias.training.batches import Epochs
    from bgbias.training.settings import Train

    settings = Train(batch_size=batch, iterations_per_epoch=steps)
    return Epochs(photos, ("bench", 0), settings, PER_CLASS).batches(1)


# A step on real photos, against the same step on tensors that lie in memory.

TENSORS, PLAIN, REPLACED = "plain on tensors in memory", "plain on photos", "bgaugment on photos"
STEPS, BATCH = 4, 32


def step_contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from benchmarks import _album
    from bgbias.models.backbones.mobilenet_v2 import FACTS

    made = _album.album(8 if tiny else 96, 2 if tiny else 60)
    steps, batch = (1, 8) if tiny else (STEPS, BATCH)
    shown = {m: _album.training(made, FACTS.input_size, m == "bgaugment") for m in ("plain", "bgaugment")}
    in_memory = list(epochs(shown["plain"], batch, steps))

    def runs(method: str, batches: Callable[[], Any]) -> Callable[[], object]:
        train = trainer(contrastive_method(method, random_model("mobilenet_v2"), device), steps, device)
        return lambda: train(batches())

    yield Contender(TENSORS, "limit", runs("plain", lambda: iter(in_memory)))
    yield Contender(PLAIN, "ours", runs("plain", lambda: epochs(shown["plain"], batch, steps)))
    yield Contender(REPLACED, "ours", runs("bgaugment", lambda: epochs(shown["bgaugment"], batch, steps)))


def judge_step(measured: Measured) -> list[Figure]:
    steps = 1 if measured.tiny else STEPS
    return [
        measured.ratio("photos by tensors in memory", PLAIN, TENSORS, at_most=1.12),
        measured.ratio("bgaugment by plain", REPLACED, PLAIN, at_most=1.05),
        measured.rate("images/s, plain", PLAIN, steps * BATCH),
    ]


# Training with background replacement on a GPU: from prepared photos, against batches that lie in its memory.

# Of each batch size; some seconds, since a GPU's utilisation is told a few times a second.
GPU_STEPS = {32: 300, 128: 100}
IN_MEMORY = 8
AT_LEAST, BUSY = 0.95, 90.0
EVERY = 0.2  # seconds
# The driver tells of the time before it is asked; what lies before the work does not count.
LOOKS_BACK = 1.0  # seconds


def on_photos(size: int) -> str:
    """The contender that trains on photos in batches of this size."""
    return f"photos, batch {size}"


def _on_tensors(size: int) -> str:
    return f"batches in the GPU's memory, batch {size}"


def gpu_contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from benchmarks import _album
    from bgbias.compute.transfer import to_device
    from bgbias.models.backbones import bn_inception
    from bgbias.models.backbones import tiny as small

    facts = small.FACTS if tiny else bn_inception.FACTS
    made = _album.album(8 if tiny else max(GPU_STEPS), 2 if tiny else 60)
    photos = _album.training(made, facts.input_size, device=device)
    for size in GPU_STEPS:
        batch, steps = (8, 2) if tiny else (size, GPU_STEPS[size])
        model = random_model("tiny" if tiny else "bn_inception")
        train = trainer(contrastive_method("bgaugment", model, device), steps, device)
        there = [to_device(one, device) for one in epochs(photos, batch, min(steps, IN_MEMORY))]

        def tensors(train: Any = train, there: Any = there, steps: int = steps) -> None:
            train(itertools.islice(itertools.cycle(there), steps))

        def watched(train: Any = train, batch: int = batch, steps: int = steps) -> list[float]:
            with vitals.watching(EVERY) as seen:
                train(epochs(photos, batch, steps))
            samples = [dict(zip(vitals.COLUMNS, row, strict=True)) for row in seen.rows]
            busy = [one["gpu_percent"] for one in samples if (one["elapsed_seconds"] or 0) >= LOOKS_BACK]
            return [percent for percent in busy if percent is not None]

        yield Contender(on_photos(size), "ours", watched)
        yield Contender(_on_tensors(size), "limit", tensors)


def judge_gpu(measured: Measured) -> list[Figure]:
    figures = []
    for size, steps in GPU_STEPS.items():
        batch, steps = (8, 2) if measured.tiny else (size, steps)
        seen = measured.results[on_photos(size)]
        missing = "" if seen else "there is no GPU, or it was over before nvidia-smi told"
        what = f"share of the images/s on batches in the GPU's memory, batch {size}"
        figures += [
            measured.ratio(what, _on_tensors(size), on_photos(size), at_least=AT_LEAST),
            measured.rate(f"images/s, batch {size}", on_photos(size), batch * steps),
            Figure(f"GPU busy, batch {size}", seen, at_least=BUSY, unit="% of the time", missing=missing),
        ]
    return figures


# An attack on a batch as adversarial training makes it, against its passes through the network alone.

PASSES, ATTACK = "passes forward and back to the photos", "attack"


def attack_contenders(device: str, tiny: bool) -> Iterator[Contender]:
    import torch

    from bgbias import attacks, seeds
    from bgbias.compute.transfer import to_device
    from bgbias.models.backbones.mobilenet_v2 import FACTS
    from bgbias.training.methods import Batch

    size, count = (64, 8) if tiny else (FACTS.input_size, BATCH)
    model = random_model("mobilenet_v2")
    method = contrastive_method("advprop_d", model, device)
    for part in method.modules().values():
        part.train()
    drawn = torch.randint(
        256, (count, size, size, 3), dtype=torch.uint8, generator=seeds.torch_generator("photos")
    )
    labels = torch.arange(count) // PER_CLASS
    batch = to_device(Batch(drawn.permute(0, 3, 1, 2), labels, torch.arange(count)), device)
    grey = batch.images.float()
    seen = model.preprocess(grey)

    def passes() -> object:
        """The targets' embeddings, and one way to the photos and back, on photos that are normalised already."""
        with attacks.evaluating(model):
            with torch.no_grad():
                aims = model(seen)
            x = seen.detach().requires_grad_()
            return torch.autograd.grad((model(x) - aims.flip(0)).square().sum(), x)

    yield Contender(PASSES, "limit", passes)
    yield Contender(ATTACK, "ours", lambda: method.attack_batch(grey, batch))


def judge_attack(measured: Measured) -> list[Figure]:
    return [measured.ratio("attack by its passes", ATTACK, PASSES, at_most=1.1)]


# Several small cells at once on one GPU, or on one core each, against one after the other with all that the machine has.

SIDE_BY_SIDE, IN_TURN = "side by side", "one after the other"
ON_A_GPU, CELL_STEPS = 4, 40
TRAIN = """
import sys
import torch
from benchmarks._project import contrastive_method, random_model, trainer
from bgbias.compute.device import pick
from bgbias.training.methods import Batch

device, steps = pick(sys.argv[1]), int(sys.argv[2])
photos = torch.randint(0, 256, (32, 3, 64, 64), dtype=torch.uint8)
batch = Batch(photos, torch.arange(32) // 4, torch.arange(32))
method = contrastive_method("plain", random_model("mobilenet_v2"), device)
trainer(method, steps, device)(iter([batch] * steps))
"""


def cells_contenders(device: str, tiny: bool) -> Iterator[Contender]:
    count = ON_A_GPU if device.startswith("cuda") else max(2, cores())
    words = [sys.executable, "-c", TRAIN, device, str(1 if tiny else CELL_STEPS)]

    def run(at_once: int, threads: int) -> None:
        processes = [
            subprocess.Popen(words, env=surroundings(OMP_NUM_THREADS=str(threads))) for _ in range(at_once)
        ]
        if any([process.wait() for process in processes]):
            raise RuntimeError("a training failed, see above")

    def in_turn() -> None:
        for _ in range(count):
            run(1, cores())

    yield Contender(SIDE_BY_SIDE, "ours", lambda: run(count, 1 if device == "cpu" else cores()))
    yield Contender(IN_TURN, "ours", in_turn)


def judge_cells(measured: Measured) -> list[Figure]:
    return [measured.ratio("times as fast as one after the other", IN_TURN, SIDE_BY_SIDE, at_least=1)]
