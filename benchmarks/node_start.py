"""What a step costs beyond its work: steps that have next to nothing to do, against importing what they need."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks import Contender, Figure, Measured
from benchmarks._project import BEFORE, CELL, run, scratch_folder, write_smallest

# What a node cannot do without: the command line and the settings (pydantic by itself loads nothing), tables, and what it
# computes with.
EVERY = "typer, pydantic.main, yaml, pandas"
NEEDS = {
    "train": f"{EVERY}, torch, faiss, pytorch_metric_learning.losses",
    "embed": f"{EVERY}, torch",
    "score": f"{EVERY}, faiss, pyarrow.parquet",
    "attribute": f"{EVERY}, torch",
}
AT_MOST = 1.3
# Inputs and products are hashed too, which the nodes above have next to none of.
HASHING = "hashing"
HASHED = 2**28  # bytes
SOP_EMBEDDINGS = 60_502 * 6 * 128 * 4  # bytes: one clean and five corrupted views a photo


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    folder = scratch_folder()
    write_smallest(folder)
    for words in (*BEFORE, *((node, *CELL) for node in NEEDS)):
        run(folder, "-m", "bgbias", *words)
    for node in NEEDS:
        words = ("-m", "bgbias", node, *CELL)
        yield Contender(f"{node} step", "ours", partial(run, folder, *words))
    for packages in dict.fromkeys(NEEDS.values()):
        yield Contender(f"import {packages}", "limit", partial(run, folder, "-c", f"import {packages}"))
    yield Contender(HASHING, "ours", _hashing(folder / "large", _hashed(tiny)))


def judge(measured: Measured) -> list[Figure]:
    a_byte = [seconds / _hashed(measured.tiny) for seconds in measured.seconds[HASHING]]
    starts = [
        measured.ratio(
            f"a {node} step of next to no work, by the import of {packages}",
            f"{node} step",
            f"import {packages}",
            at_most=AT_MOST,
        )
        for node, packages in NEEDS.items()
    ]
    return [
        *starts,
        Figure("hashing a GB of inputs or products", [1e9 * s for s in a_byte], unit="s"),
        Figure("hashing the embeddings of SOP's test photos", [SOP_EMBEDDINGS * s for s in a_byte], unit="s"),
    ]


def _hashed(tiny: bool) -> int:
    return 2**20 if tiny else HASHED


def _hashing(file: Path, size: int) -> Callable[[], str]:
    from bgbias.files.checksums import sha256

    file.write_bytes(bytes(size))

    def hashed() -> str:
        os.utime(file)  # one that was touched is read again
        return sha256(file)

    return hashed
