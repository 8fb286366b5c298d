"""What every kind of model must do: show photos as torchvision does, and embed them as its own library does."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from adapter_cases import CASES, GREY_LEVEL, WITHOUT_GRADIENTS
from brought_models import assert_equal, assert_gradients_reach_the_picture, ours, photos
from PIL import Image
from torch import nn
from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Resize

import bgbias
from bgbias import plugins, seeds
from bgbias.auditing import embedding
from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.models.adapters import Options, load
from bgbias.models.adapters.reference import list_references
from bgbias.models.look import Look


@pytest.mark.parametrize("name", CASES)
def test_embeddings_are_those_of_its_library(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And gradients reach the picture where there are any."""
    library, make = CASES[name]
    pytest.importorskip(library)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    brought = make(tmp_path)
    model = brought.model
    assert_equal(ours(model), brought.expected, brought.share)
    assert model.dim == brought.expected.shape[1]
    if brought.share == GREY_LEVEL:  # the library itself resizes otherwise than Pillow
        assert model.look == Look(32, 36, interpolation="bicubic")
    if name.partition(",")[0] in WITHOUT_GRADIENTS:
        assert model.network is None
    else:
        assert_gradients_reach_the_picture(model)


def test_every_kind_has_a_case() -> None:
    """But for histograms, and for phones' networks, which are not written here (test_own.py)."""
    alike = {"transformers": "clip", "python": "function"}
    kinds = set(plugins.names("adapters")) - {"reference", "tflite"}
    assert {alike.get(kind, kind) for kind in kinds} <= CASES.keys()


# What is seen of a photo.


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos", "nearest"])
@pytest.mark.parametrize("squash", [False, True])
def test_photos_look_as_torchvision_makes_them(squash: bool, interpolation: str) -> None:
    for size, resize in ((48, 55), (33, 64)):
        side = (resize, resize) if squash else resize
        their = Compose([Resize(side, InterpolationMode(interpolation)), CenterCrop(size)])
        look = Look(size, resize, squash, interpolation, "even")  # type: ignore[arg-type]
        for photo in photos():
            expected = np.asarray(their(Image.fromarray(photo)))
            assert np.array_equal(look(photo), expected)
            assert np.array_equal(look(photo[..., 0]), expected[..., 0])  # as masks are seen


def test_rounding_down_is_that_of_our_own_evaluation() -> None:
    look = Look(48, 55)
    for photo in photos():
        expected = pixels.centre_crop(pixels.resize_short(photo, 55), 48)
        assert np.array_equal(look(photo), expected)
    assert any(not np.array_equal(look(p), Look(48, 55, rounding="even")(p)) for p in photos())
    with pytest.raises(UserError, match="give --resize 224 or more"):
        Look(224, 200)
    with pytest.raises(UserError, match="there are bilinear, bicubic"):
        Look(224, 256, interpolation="cubic")  # type: ignore[arg-type]


# How many pictures at once.

AMONG = "another vector among the others than alone"


def views(count: int) -> np.ndarray:
    return seeds.generator("views").integers(0, 256, (count, 16, 16, 3), np.uint8)


@pytest.mark.parametrize(
    "error",
    [
        torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("Failed to allocate memory for requested buffer of size 1048576"),
        MemoryError(),
    ],
)
def test_fewer_pass_where_memory_is_short(error: Exception, capfd: pytest.CaptureFixture[str]) -> None:
    most, given = 20, list[int]()

    def small(batch: list[np.ndarray]) -> np.ndarray:
        given.append(len(batch))
        if len(batch) > most:
            raise error
        return np.array([picture.mean((0, 1)) for picture in batch])

    found = load(small, Options(size=16, batch_size=40))
    capfd.readouterr()
    vectors = found.embed(views(100))
    np.testing.assert_allclose(vectors, views(100).mean((1, 2)), rtol=1e-6)
    assert found.batch.size == 20
    found.embed(views(100))
    said = capfd.readouterr().err.splitlines()
    assert said == ["small: memory is short for 40 pictures at once; goes on with 20 (--batch-size 20)"]
    assert given.count(40) == 1, "it is not tried again"
    most = 0
    with pytest.raises(UserError, match=r"small needs more memory .*--batch-size 1: give a smaller --size"):
        found.embed(views(3))
    assert "short for 3 pictures at once; goes on with 1" in capfd.readouterr().err
    assert given[-2:] == [3, 1]


def test_a_lower_precision_moves_vectors_a_little_and_is_said_when_a_model_is_loaded(tmp_path: Path) -> None:
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
    (tmp_path / "net.py").write_text("import torch\ndef build(): return torch.nn.Conv2d(3, 8, 7)")
    options = Options(size=7, device="cpu", precision="bfloat16")
    references = list_references(f"{tmp_path}/net.py:build", rounded, options)
    colours, shuffled = (load(name, own) for name, own in references.items())
    assert (colours.precision, shuffled.notes.count("precision: bfloat16")) == ("float32", 1)
    with pytest.raises(UserError, match="reference:colours computes in its own precision"):
        load("reference:colours", options)


def test_pictures_that_are_mixed_are_refused_wherever_they_are_embedded() -> None:
    def mixing(batch: list[np.ndarray]) -> np.ndarray:
        """Right for two pictures; of more, each gets what its neighbour should have."""
        right = np.array([picture.mean((0, 1)) for picture in batch])
        return right if len(batch) < 3 else np.roll(right, 1, 0)

    found = load(mixing, Options(size=16))
    with pytest.raises(UserError, match=AMONG):  # however large a number is that all pictures share
        bgbias.embed(lambda batch: np.column_stack([mixing(batch), [500] * len(batch)]), list(views(8)))
    with pytest.raises(UserError, match="complex numbers"):
        bgbias.embed(lambda batch: np.array([p.mean((0, 1)) + 1j for p in batch]), list(views(8)))
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


GROWTH = """
import numpy as np
import psutil
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
            held[number] = psutil.Process().memory_full_info().uss
        yield picture.copy()

device = pick("cpu")  # which also sets how memory is allocated
params = plugins.load("backbones", "tiny").Params()
model = for_inference(build_model("tiny", params, 128, seeds.torch_generator("memory")))
assert embed_views(model, views(model.input_size), How(device)).shape == (LAST + 1, 128)
print(held[LAST] - held[FIRST])
"""


def test_what_a_process_holds_grows_by_no_more_than_the_embeddings() -> None:
    """1,000 views are 0.5 MB of embeddings; one small array a batch, kept among large ones, made 27 MB of them."""
    done = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 8_000_000, done.stdout
