"""Embedding many views takes the memory of their embeddings, and of one batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

GROWTH = """
import sys
from pathlib import Path
import numpy as np
from bgbias import plugins, seeds
from bgbias.compute.device import pick
from bgbias.models.inference import embed_views, for_inference
from bgbias.models.model import build_model
from bgbias.models.settings import How

FIRST, LAST = 500, 1_500
held = {}

def views(size):
    picture = np.zeros((size, size, 3), np.uint8)
    for number in range(LAST + 1):
        if number in (FIRST, LAST):
            lines = Path("/proc/self/status").read_text().splitlines()
            held[number] = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
        yield picture.copy()

device = pick("cpu")  # which also sets how memory is allocated
params = plugins.load("backbones", "tiny").Params()
model = for_inference(build_model("tiny", params, 128, seeds.torch_generator("memory")))
assert embed_views(model, views(model.input_size), How(device)).shape == (LAST + 1, 128)
print(held[LAST] - held[FIRST])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="what a process holds is read from /proc")
def test_what_a_process_holds_grows_by_no_more_than_the_embeddings() -> None:
    """1,000 views are 0.5 MB of embeddings; one small array a batch, kept among large ones, made 27 MB of them."""
    done = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 8_000, done.stdout  # kB
