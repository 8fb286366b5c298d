"""Training: a step on photos and on a GPU, an attack on a batch, and several small models at once."""

import itertools
import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from benchmarks import Case, Figure, rate, ratio, result
from benchmarks._album import Album, epoch
from benchmarks._models import PER_CLASS, contrastive_method, random_model, trainer
from benchmarks._project import CORES, environment
from bgbias import attacks, seeds
from bgbias.compute import vitals
from bgbias.compute.transfer import to_device
from bgbias.training.batches import TrainingPhotos
from bgbias.training.methods import Batch

# A step on photos, against the same step on tensors that lie in memory.

TENSORS, PLAIN, REPLACED = "plain on tensors in memory", "plain on photos", "bgaugment on photos"


def training_step(
    device: str, photos: int = 96, backgrounds: int = 60, batch: int = 32, steps: int = 4
) -> Case:
    album, backbone = Album(photos, backgrounds), "mobilenet_v2"
    size = random_model(backbone).input_size
    plain, replaced = album.training(size, replaced=False), album.training(size)
    in_memory = [*epoch(plain, batch, steps)]
    train_tensors, train_plain = (trainer("plain", backbone, steps, device) for _ in range(2))
    train_replaced = trainer("bgaugment", backbone, steps, device)
    return Case(
        ours={
            PLAIN: lambda: train_plain(epoch(plain, batch, steps)),
            REPLACED: lambda: train_replaced(epoch(replaced, batch, steps)),
        },
        limits={TENSORS: lambda: train_tensors(iter(in_memory))},
        figures=[
            Figure("photos by tensors in memory", ratio(PLAIN, TENSORS), at_most=1.12),
            Figure("bgaugment by plain", ratio(REPLACED, PLAIN), at_most=1.05),
            Figure("images/s, plain", rate(PLAIN, batch * steps), unit="/s"),
        ],
    )


# Training with background replacement on a GPU: from prepared photos, against batches that lie in its memory.

# Some seconds of each batch size, since a GPU's utilisation is told a few times a second.
GPU_STEPS = {32: 300, 128: 100}
IN_MEMORY = 8
EVERY = 0.2  # seconds
# The driver tells of the time before it is asked; what lies before the work does not count.
LOOKS_BACK = 1.0  # seconds

Train = Callable[[Iterator[Batch]], object]


def training_gpu(
    device: str,
    photos: int = 128,
    backgrounds: int = 60,
    backbone: str = "bn_inception",
    steps: Mapping[int, int] = GPU_STEPS,
) -> Case:
    """``steps`` of each batch size."""
    album = Album(photos, backgrounds)
    prepared = album.training(random_model(backbone).input_size, device=device)
    ours, limits, figures = {}, {}, []
    for size, number in steps.items():
        train = trainer("bgaugment", backbone, number, device)
        batches = [to_device(one, device) for one in epoch(prepared, size, min(number, IN_MEMORY))]
        on_photos, in_memory = f"photos, batch {size}", f"batches in the GPU's memory, batch {size}"
        ours[on_photos] = partial(train_watched, train, prepared, size, number)
        limits[in_memory] = partial(_train_in_memory, train, batches, number)
        what = f"share of the images/s on batches in the GPU's memory, batch {size}"
        figures += [
            Figure(what, ratio(in_memory, on_photos), at_least=0.95),
            Figure(f"images/s, batch {size}", rate(on_photos, size * number), unit="/s"),
            Figure(f"GPU busy, batch {size}", result(on_photos), at_least=90.0, unit="% of the time"),
        ]
    return Case(ours=ours, limits=limits, figures=figures)


def train_watched(train: Train, photos: TrainingPhotos, batch: int, steps: int) -> list[float]:
    """Per cent of the GPU's time that it was busy, at several moments; NaN where nobody tells."""
    with vitals.watching(EVERY) as watched:
        train(epoch(photos, batch, steps))
    samples = [dict(zip(vitals.COLUMNS, row, strict=True)) for row in watched.rows]
    busy = [one["gpu_percent"] for one in samples if (one["elapsed_seconds"] or 0) >= LOOKS_BACK]
    return [percent for percent in busy if percent is not None] or [math.nan]


def _train_in_memory(train: Train, batches: Sequence[Batch], steps: int) -> None:
    train(itertools.islice(itertools.cycle(batches), steps))


# An attack on a batch as adversarial training makes it, against its passes through the network alone.

PASSES, ATTACK = "passes forward and back to the photos", "attack"


def attack_step(device: str, size: int = 224, batch: int = 32) -> Case:
    method = contrastive_method("advprop_d", "mobilenet_v2", device)
    model = method.model
    for part in method.modules().values():
        part.train()
    generator = seeds.torch_generator("photos")
    photos = torch.randint(256, (batch, 3, size, size), dtype=torch.uint8, generator=generator)
    rows = torch.arange(batch)
    attacked = to_device(Batch(photos, rows // PER_CLASS, rows), device)
    grey = attacked.images.float()
    normalised = model.preprocess(grey)

    def passes() -> Tensor:
        """The targets' embeddings, and one way to the photos and back, on photos that are normalised already."""
        with attacks.evaluating(model):
            with torch.no_grad():
                targets = model(normalised)
            x = normalised.detach().requires_grad_()
            return torch.autograd.grad((model(x) - targets.flip(0)).square().sum(), x)[0]

    return Case(
        ours={ATTACK: lambda: method.attack_batch(grey, attacked)},  # type: ignore[attr-defined]
        limits={PASSES: passes},
        figures=[Figure("attack by its passes", ratio(ATTACK, PASSES), at_most=1.1)],
    )


# Several small models at once on one GPU, or on one core each, against one after the other with all that the machine has.

SIDE_BY_SIDE, IN_TURN = "side by side", "one after the other"
ON_A_GPU = 4


def many_cells(device: str, steps: int = 40) -> Case:
    """In processes that have all that they need when they are timed: to start takes longer than such a training."""
    command = f"from benchmarks._models import train_when_told; train_when_told({device!r}, {steps})"
    count = ON_A_GPU if device.startswith("cuda") else max(2, CORES)
    cells = [
        subprocess.Popen(
            [sys.executable, "-c", command],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]

    def train(some: Sequence[subprocess.Popen[str]], threads: int) -> None:
        for cell in some:
            print(threads, file=cell.stdin, flush=True)
        for cell in some:
            assert cell.stdout
            if not cell.stdout.readline():
                raise RuntimeError("a training failed, see above")

    def in_turn() -> None:
        for cell in cells:
            train([cell], CORES)

    return Case(
        ours={SIDE_BY_SIDE: lambda: train(cells, 1 if device == "cpu" else CORES), IN_TURN: in_turn},
        figures=[Figure("times as fast as one after the other", ratio(IN_TURN, SIDE_BY_SIDE), at_least=1)],
    )
