"""How a model runs: so many pictures at once, fewer where memory is short, each by itself, in the precision that is chosen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from brought_models import ours
from torch import nn

import bgbias
from bgbias import seeds
from bgbias.auditing import embedding
from bgbias.errors import UserError
from bgbias.models.adapters import Options, load

AMONG = "another vector among the others than alone"


def views(count: int) -> np.ndarray:
    return seeds.generator("views").integers(0, 256, (count, 16, 16, 3), np.uint8)


class Small:
    """Takes few pictures at once, and remembers how many it was given."""

    def __init__(self, most: int, error: Exception) -> None:
        self.most, self.error = most, error
        self.given: list[int] = []

    def __call__(self, batch: list[np.ndarray]) -> np.ndarray:
        self.given.append(len(batch))
        if len(batch) > self.most:
            raise self.error
        return np.array([picture.mean((0, 1)) for picture in batch])


SHORT = (
    torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("Failed to allocate memory for requested buffer of size 1048576"),
    MemoryError(),
)


@pytest.mark.parametrize("error", SHORT)
def test_fewer_pictures_pass_where_memory_is_short(
    error: Exception, capfd: pytest.CaptureFixture[str]
) -> None:
    small = Small(20, error)
    found = load(small, Options(size=16, batch_size=40))
    capfd.readouterr()
    vectors = found.embed(views(100))
    np.testing.assert_allclose(vectors, views(100).mean((1, 2)), rtol=1e-6)
    assert found.batch.size == 20
    found.embed(views(100))
    said = capfd.readouterr().err.splitlines()
    assert said == ["Small: memory is short for 40 pictures at once; goes on with 20 (--batch-size 20)"]
    assert small.given.count(40) == 1, "it is not tried again"
    small.most = 0
    with pytest.raises(UserError, match=r"Small needs more memory .*--batch-size 1: give a smaller --size"):
        found.embed(views(3))


def test_a_lower_precision_moves_vectors_a_little_and_is_said_when_a_model_is_loaded() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 7, 7), nn.ReLU(), nn.Flatten(), nn.Linear(200, 8))
    exact = load(network, Options(size=35, device="cpu"))
    rounded = load(network, Options(size=35, device="cpu", precision="bfloat16"))
    assert "precision: bfloat16" in rounded.notes
    difference = np.abs(ours(exact) - ours(rounded)).max()
    assert 0 < difference < 0.02 * np.abs(ours(exact)).max()
    with pytest.raises(UserError, match="--precision float16 is for GPUs"):
        load(network, Options(size=35, device="cpu", precision="float16"))
    assert load(exact) is exact
    with pytest.raises(UserError, match="Sequential was loaded with its options before; leave others out"):
        load(exact, Options(precision="bfloat16"))


def mixing(batch: list[np.ndarray]) -> np.ndarray:
    """Right for two pictures; of more, each gets what its neighbour should have."""
    right = np.array([picture.mean((0, 1)) for picture in batch])
    return right if len(batch) < 3 else np.roll(right, 1, 0)


def test_pictures_that_are_mixed_are_refused_wherever_they_are_embedded() -> None:
    found = load(mixing, Options(size=16))
    for count in (40, 3):
        with pytest.raises(UserError, match=f"picture 1 of {count} {AMONG}"):
            found.embed(views(count))
    with pytest.raises(UserError, match=f"{AMONG}.*It was shown views of a, b, c"):
        embedding.vectors(found, iter(views(3)), "abc")
    with pytest.raises(UserError, match=f"The model gives picture 1 of 8 {AMONG}"):
        bgbias.embed(mixing, list(views(8)))


def test_a_last_shorter_batch_and_a_late_one_are_tried() -> None:
    embedded = [0]

    def drifting(batch: list[np.ndarray]) -> list[np.ndarray]:
        """Something in it changes with the sixth large batch."""
        embedded[0] += len(batch) > 4
        return [p.mean((0, 1)) + (embedded[0] > 5 and len(batch) > 4) * 50 for p in batch]

    found = load(drifting, Options(size=16))
    for _ in range(7):
        found.embed(views(8))
    with pytest.raises(UserError, match=AMONG):
        found.embed(views(8))
    short = load(lambda b: [p.mean((0, 1)) * (1 + (len(b) == 5)) for p in b], Options(size=16))
    short.embed(views(8))
    with pytest.raises(UserError, match=f"of 5 {AMONG}"):
        short.embed(views(5))


# Embedding many views takes the memory of their embeddings, and of one batch.


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
