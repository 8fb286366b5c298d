"""The most memory that each kind of node takes with as many test photos as SOP has; with the smallest network.

What a process holds by itself is counted (Linux: ``RssAnon``), libraries and the network included. Pages of prepared pictures are
not: processes share them, and the kernel takes them back when it needs room. Masks are given, and attribution has one noisy copy
of a photo: both work photo by photo. What a larger network holds of a batch comes on top.
"""

from __future__ import annotations

import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import Contender, Figure, Measured, surroundings
from benchmarks._project import scratch_folder

PER_CLASS = 5.34
SPLITS = {"train": 2000, "val": 500, "test": 60_502}
CELL = ("photos", "tiny", "contrastive", "plain")
OF_ANOTHER = {
    **dict.fromkeys(("fetch", "index", "masks"), ("photos",)),
    "backgrounds": ("drawn",),
    "collect": (),
}
# In MB. Of each kind of node that is not listed, as much as the next one that loads a network.
AT_MOST = {
    "fetch": 1000,
    "index": 1000,
    "masks": 1000,
    "backgrounds": 1000,
    "train": 1500,
    "embed": 1500,
    "score": 1000,
    "attribute": 1500,
    "segment": 1500,
    "collect": 1000,
}
SIDE = 64
LOOK = 0.01  # seconds between two looks at what a process holds
STUDY = """
grid: memory
datasets:
  photos:
    {kind: table, masker: ground_truth, backgrounds: drawn, options: {source: photos.csv, root: photos.zip, masks: true}}
maskers: {ground_truth: {kind: ground_truth}}
backgrounds: {drawn: {train: {textures: 2}, val: {textures: 2}, test: {textures: 100}}}
backbones: {tiny: {}}
losses: {contrastive: {default: {pos_margin: 0.0, neg_margin: 0.5}}}
train: {batch_size: 32, iterations_per_epoch: 1, max_epochs: 1, embedding_dim: 128, freeze_batch_norm: false}
evaluation: {draws: 5}
attribution: {samples: 1}
segmentation: {episodes: 1000}
grids:
  memory:
    cells:
      - {datasets: [photos], backbones: [tiny], losses: [contrastive], methods: [plain], seeds: [0]}
"""


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    folder = scratch_folder()
    _pictures(folder, 40 if tiny else 1)  # eight classes to train at least
    (folder / "params.yaml").write_text(STUDY, encoding="utf-8")
    for node in AT_MOST:
        words = OF_ANOTHER.get(node, CELL)
        # Once: it is the same each time, and takes minutes.
        megabytes = _most(folder, node, *words)
        yield Contender(node, "ours", partial(float, megabytes))


def judge(measured: Measured) -> list[Figure]:
    return [
        Figure(f"most that {node} holds", [measured.results[node]], at_most=most, unit="MB")
        for node, most in AT_MOST.items()
    ]


def _pictures(folder: Path, part: int) -> None:
    """A table, and a zip of small photos and their masks; only one class in ``part``."""
    import numpy as np

    from bgbias import seeds
    from bgbias.images import pixels

    generator = seeds.generator("benchmark memory")
    mask = np.zeros((SIDE, SIDE), np.uint8)
    mask[16:48, 16:48] = 255
    lines = ["image,label,split,mask"]
    with zipfile.ZipFile(folder / "photos.zip", "w") as file:
        for split, photos in SPLITS.items():
            for number in range(photos // part):
                colours = generator.integers(0, 256, (4, 4, 3), np.uint8)
                name = f"{split}/{number:06d}"
                file.writestr(f"{name}.png", pixels.encode_png(colours.repeat(16, 0).repeat(16, 1)))
                file.writestr(f"masks/{name}.png", pixels.encode_png(mask))
                lines.append(f"{name}.png,{split} {int(number / PER_CLASS)},{split},masks/{name}.png")
    (folder / "photos.csv").write_text("\n".join(lines), encoding="utf-8")


def _most(folder: Path, *words: str) -> float:
    """The most, in MB, that this node's process holds; one that fails is a RuntimeError that shows how it ended."""
    command = [sys.executable, "-m", "bgbias", *words]
    said = folder / "said.txt"
    with said.open("w") as file:
        node = subprocess.Popen(
            command, cwd=folder, env=surroundings(BGBIAS_TRACK="0"), stdout=file, stderr=file
        )
    status, most = Path(f"/proc/{node.pid}/status"), 0.0
    while node.poll() is None:
        held = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("RssAnon")]
        most = max([most, *(int(kilobytes) / 1024 for kilobytes in held)])
        time.sleep(LOOK)
    if node.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{said.read_text()[-2000:]}")
    return most
