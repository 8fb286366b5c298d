"""What a user brings: code of her own, and networks in files; what beside photos (test_contract.py) decides vectors."""

import os
import signal
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch
from adapter_cases import CPU, IMAGENET, SMALL, exported, graph, run_file, scripted, small_network, usual
from brought_models import assert_equal, assert_gradients_reach_the_picture, ours, photos, saved, theirs
from miniatures import as_folder
from PIL import Image
from torch import nn
from torchvision.transforms import Compose, Normalize, Resize, ToTensor

from bgbias.errors import UserError
from bgbias.evaluation.embedder import Embedder
from bgbias.models.adapters import Options, load
from bgbias.models.look import Look

CODE = """
    import torch
    from torch import nn
    from beside import WIDTH

    with open(__file__ + ".log", "a") as log:
        log.write("executed ")

    def network():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, WIDTH, 7, 7), nn.ReLU())

    def colours(pictures):
        from late import scale
        return [scale * picture.mean((0, 1)) for picture in pictures]

    class Encoder:
        def encode(self, pictures, batch_size=32):
            small = [list(p.resize((2, 2)).tobytes()) for p in pictures]
            return [torch.tensor(numbers).float() for numbers in small]

    made = Encoder()
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {"mine.py": dedent(CODE).encode(), "beside.py": b"WIDTH = 8", "late.py": b"scale = 2.0"}
    monkeypatch.chdir(tmp_path)
    yield as_folder(tmp_path / "hers", files) / "mine.py"  # type: ignore[misc]
    for name in ("beside", "late", "mine", "hers.mine"):
        sys.modules.pop(name, None)


def convolution() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 7, 7), nn.ReLU())


HALF = (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("options", "look", "prepare", "said", "guessed"),
    [
        # The middle of a photo is that of the study (test_contract.py).
        ({}, Look(224, 256), usual(224), "ImageNet defaults, because the model specifies none", "--size, --mean, --std"),
        ({"size": 32, "mean": HALF}, Look(32, 36), usual(32, Normalize(HALF, IMAGENET.std)), "given: --size, --mean", "--std"),
        ({"size": 35, "squash": True, "interpolation": "bicubic", "mean": HALF, "std": HALF}, Look(35, 35, True, "bicubic"),
         Compose([Resize((35, 35), 3), ToTensor(), Normalize(HALF, HALF)]),
         "given: --size, --squash, --interpolation, --mean, --std", ""),
    ],
)  # fmt: skip
def test_a_network_sees_what_options_say_else_a_guess_and_its_map_is_averaged(
    code: Path, options: dict[str, Any], look: Look, prepare: Compose, said: str, guessed: str
) -> None:
    found = load(f"{code}:network", Options(**options, device="cpu"))
    assert_equal(ours(found), theirs(prepare, lambda x: convolution()(x).mean((2, 3))))
    assert found.look == look
    assert said in found.notes[0]
    assert [f"give {guessed} of its training" in guess for guess in found.guesses] == [True] * bool(guessed)
    assert len(found.alternatives) == (0 if options else 3), "of mean and std, where neither is known"
    with pytest.deprecated_call(match="is called `notes`"):
        assert found.told == found.notes


def test_networks_at_hand_are_left_as_they_are_and_those_of_code_filled(code: Path, tmp_path: Path) -> None:
    network = nn.Sequential(convolution(), nn.Dropout(0.5)).train()
    found = load(network, Options(size=35, device="cpu"))
    assert found.name == "Sequential"
    assert network.training
    assert_gradients_reach_the_picture(found)
    other = nn.Sequential(nn.Conv2d(3, 8, 7, 7), nn.ReLU())
    weights = saved(other, tmp_path / "w.ckpt", "model.", ("state_dict",))
    found = load(f"{code}:network", Options(weights=weights, size=42, device="cpu"))
    assert_equal(ours(found), theirs(usual(42), lambda x: other(x).mean((2, 3))))


def test_a_function_and_encode_are_given_what_is_seen_and_prepare_it_but_for_its_size(code: Path) -> None:
    assert "give --size of its training" in load(f"{code}:colours").guesses[0]
    found = load(f"{code}:colours", Options(size=32, resize=40))
    assert not found.guesses
    views = [found.look(photo) for photo in photos()]
    assert_equal(ours(found), np.array([2 * view.mean((0, 1)) for view in views], np.float32))
    with pytest.raises(UserError, match=r"--weights means nothing to .*colours"):
        load(f"{code}:colours", Options(weights=code))
    # Encoders are given pictures of Pillow.
    small = [list(Image.fromarray(view).resize((2, 2)).tobytes()) for view in views]
    for name in ("Encoder", "made"):
        found = load(f"{code}:{name}", Options(size=32, resize=40))
        assert_equal(ours(found), np.array(small, np.float32))
    # A command that is told to end while the network is at work ends.
    with pytest.raises(SystemExit):
        load(lambda batch: sys.exit(128 + signal.SIGTERM), Options(size=32))


def test_a_file_is_executed_once_until_it_is_edited(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a folder on the path nor compiled files beside it, by whose time an edit of the same second would be missed."""
    before = list(sys.path)
    load("hers/mine.py:network", Options(size=32, device="cpu"))
    for text in (code.read_text(), code.read_text().replace(".mean((0, 1))", ".mean((0, 1)) + 1")):
        code.write_text(text)
        os.utime(code, (1e9, 1e9))
        found = load(f"{code}:colours", Options(size=32))
    assert_equal(ours(found), np.array([2 * found.look(p).mean((0, 1)) + 1 for p in photos()], np.float32))
    assert Path(f"{code}.log").read_text() == "executed executed "
    assert sys.path == before
    assert not [*code.parent.rglob("mine*.pyc"), *code.parent.rglob("beside*.pyc")]
    # A module in the folder that we are in.
    monkeypatch.chdir(code.parent)
    assert load("mine:colours").dim == 3


def test_tokens_are_pooled_as_is_said() -> None:
    class Tokens(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, :, ::16, ::16].flatten(2).transpose(1, 2)

    with pytest.raises(UserError, match=r"tokens \[1, 4, 3\]. Say --pooling cls"):
        load(Tokens(), Options(size=32, device="cpu"))
    first, mean = (load(Tokens(), Options(size=32, pooling=p, device="cpu")) for p in ("cls", "mean"))
    assert_equal(ours(first), theirs(usual(32), lambda x: Tokens()(x)[:, 0]))
    assert_equal(ours(mean), theirs(usual(32), lambda x: Tokens()(x).mean(1)))


FAULTY = """
import sys
import numpy as np
from torch import nn

class Network(nn.Module):
    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, x):
        return self.answer(x)
"""
ON = "fails on a picture of 32 x 32 pixels: "
NARROW = "def model(pictures):\n    return np.stack(\n        [p.reshape(7, -1) for p in pictures]\n    )"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def model(): return Network(lambda x: (x, x))", r"several things \(0, 1\), where one tensor is expected"),
        ("def model(): return Network(lambda x: x.mean((2, 3)) / 0)", "not finite"),
        ("def model(): return Network(lambda x: x.new_ones(len(x), 4))", "the same vector for different pictures"),
        ("def model(): return Network(lambda x: x[..., None])", r"\[1, 3, 32, 32, 1\], where vectors"),
        ("def model(): return Network(lambda x: 'vectors')", "a str, where one tensor"),
        # By the line of her own file, and not of torch's, in which it was noticed.
        ("def model(): return Network(nn.Linear(5, 2))",
         f"{ON}RuntimeError: mat1 and mat2 .*, at faults.py:12 `return self.answer.x.`. If it was made for another size"),
        (NARROW, r"ValueError: cannot reshape .*, at faults.py:15 `\[p.reshape\(7, -1\) for "),
        ("def model(): return nn.Sequential(nn.Flatten(), nn.Linear(5, 2))",
         r"RuntimeError: mat1 and mat2 [^`]*5x2\)\. If it was made for another size, give --size"),
        ("def model(pictures, labels): return pictures", "model wants pictures, labels. Write a function"),
        ("def model(): pass", "returns nothing; it must return the model"),
        ("def model(): raise KeyError('weights')", r"KeyError: 'weights', at faults.py:13 `def model\(\): raise"),
        ("def model(): return 'timm:resnet18'", "a str; a model is a network"),
        ("def modell(): pass", "no function in faults.py: 'model'. Did you mean modell"),
        ("def model(:", r"SyntaxError.*\(faults.py, line 13\)\.$"),
        # A script would end the command, as if all were well.
        ("sys.exit(0)", r"cannot be used: SystemExit: 0, at faults.py:13 `sys.exit\(0\)`"),
    ],
)  # fmt: skip
def test_faults_are_reported(code: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("faults.py").write_text(FAULTY + code)
    with pytest.raises(UserError, match=said):
        load("faults.py:model", Options(size=32))


# Networks in files.


@pytest.mark.parametrize(
    ("made", "options", "said"),
    [
        ({"outputs": ("map", "other")}, {}, "outputs map, other, none of which is called as vectors"),
        ({"inputs": ("pixels", "words")}, {}, r"2 inputs \(pixels, words\); export the part that embeds"),
        ({"kind": "INT64"}, {}, r"takes tensor\(int64\) .*, not pictures"),
        ({"shape": ("batch", 3, "height", "width")}, {}, "any size; say which one .*: --size 224"),
        ({"kind": "UINT8"}, {"mean": (0.5, 0.5, 0.5)}, "--mean means nothing to .* takes grey levels"),
        ({}, {"size": 48}, "pictures of 32 pixels and no others; leave --size 48 out"),
        ({}, {"device": "cuda"}, "cannot use a GPU here: --device cuda cannot be"),
    ],
)
def test_graphs_that_are_no_image_encoders_are_reported(
    tmp_path: Path, made: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        load(graph(tmp_path / "model.onnx", **made), Options(**options))
    several = load(graph(tmp_path / "model.onnx", outputs=("map", "image_embeds")))
    assert "output: 'image_embeds' of map, image_embeds" in several.notes


@pytest.mark.parametrize("kind", ["onnx", "tflite", "exported", "torchscript", "run"])
def test_a_file_that_is_missing_or_none_of_its_kind_is_named(kind: str, tmp_path: Path) -> None:
    if kind == "tflite":
        pytest.importorskip("ai_edge_litert")
    with pytest.raises(UserError, match=r"none.bin is missing[;.]"):
        load(f"{kind}:none.bin")
    (tmp_path / "half.bin").write_text("half a file")
    with pytest.raises(UserError, match=r"half.bin (could not be loaded: |is of an unknown kind|is damaged)"):
        load(f"{kind}:{tmp_path / 'half.bin'}")
    weights = saved(small_network(), tmp_path / "weights.bin")
    with pytest.raises(UserError, match=r"weights.bin (could not be loaded: |is a state dict)"):
        load(f"{kind}:{weights}")


def test_a_network_that_was_saved_for_other_pictures_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is a state dict.*--model timm:resnet50 --weights .*weights.pt"):
        load(f"torchscript:{saved(small_network(), tmp_path / 'weights.pt')}")
    with pytest.raises(UserError, match=r"fails on a picture of 224 x 224 pixels.*give --size"):
        load(scripted(tmp_path), CPU)
    with pytest.raises(UserError, match="takes 2 pictures at once and no other number"):
        load(exported(tmp_path, pictures=2), CPU)
    with pytest.raises(UserError, match="32 pixels and no others; leave --size 64 out"):
        load(exported(tmp_path), Options(size=64))


def test_what_bgbias_loads_is_taken_as_it_is(tmp_path: Path) -> None:
    embedder = Embedder(run_file(tmp_path), "cpu")
    expected = embedder.embed(photos())
    for given in (embedder, embedder.model):
        assert np.array_equal(ours(load(given, CPU)), expected)
        with pytest.raises(UserError, match="lies on cpu, and --device says cuda: move it, or leave"):
            load(given, Options(device="cuda"))
    with pytest.raises(UserError, match="lies on cuda:10, and --device says cuda:1:"):
        Options(device="cuda:1").at_home("cuda:10", "It")
    for photo in photos():
        assert np.array_equal(load(embedder, CPU).look(photo), embedder.view(photo))
    with pytest.raises(UserError, match=r"--size means nothing to .*model.safetensors"):
        load(f"run:{tmp_path / 'model.safetensors'}", Options(size=96))


def test_what_mlflow_holds_is_ours_or_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    # What another test of this process named goes before the environment.
    monkeypatch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
    monkeypatch.setattr("mlflow.tracking._model_registry.utils._registry_uri", None)
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    file, place, other = run_file(tmp_path), tmp_path / "model", tmp_path / "other"
    ours_alone = {"loader_module": "bgbias.evaluation.embedder", "data_path": str(file)}
    mlflow.pyfunc.save_model(str(place), **ours_alone, pip_requirements=[])
    mlflow.pyfunc.save_model(str(other), python_model=lambda model_input: model_input, pip_requirements=[])
    found = load(f"mlflow:{place.as_uri()}", CPU)
    assert found.name == f"mlflow:{place.as_uri()}"
    assert np.array_equal(ours(found), ours(load(file, CPU)))
    with pytest.raises(UserError, match="--size means nothing to run:"):
        load(f"mlflow:{place.as_uri()}", SMALL)
    for which, said in (
        (tmp_path, "holds no model"),
        ("models:/none@best", r"models:/none@best could not be fetched .*MLFLOW_TRACKING_URI"),
        (other, "was saved as python_function, which is not taken here"),
    ):
        with pytest.raises(UserError, match=said):
            load(f"mlflow:{which}")


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "side", "dim", "tensor"),
    [
        ("mobilenet_v1_0.25_128_quant", 128, 256, "MobilenetV1/Logits/AvgPool_1a/AvgPool"),
        ("mobilenet_v2_1.0_224_inat_bird_quant", 224, 1280, "AvgPool/AvgPool"),
        ("tf2_mobilenet_v2_1.0_224_ptq", 224, 1280, "GlobalPool/Mean"),
    ],
)
def test_pooled_features_are_embedded(name: str, side: int, dim: int, tensor: str, shared_data: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    file = shared_data / "weights" / "tflite" / f"{name}.tflite"
    found = load(file, CPU)
    assert (found.look.size, found.dim, found.network) == (side, dim, None)
    assert any(tensor in line for line in found.notes)
    vectors = ours(found)
    assert vectors.min() >= 0, "they lie behind a ReLU"
    assert np.unique(vectors.round(4)).size > 10
    if "bird" in name:
        named = load(f"tflite:{file}#prediction")
        assert named.dim == 965
        sums = ours(named).sum(1)
        assert 0.7 < sums.min() <= sums.max() < 1.1, "probabilities, rounded to 8 bits"
        for spec, options, said in (
            (f"tflite:{file}#AvgPool/AvgPol", CPU, r"no tensor in .*AvgPol'. Did you mean AvgPool/AvgPool"),
            (file, Options(size=192), "pictures of 224 pixels and no others; leave --size 192 out"),
        ):
            with pytest.raises(UserError, match=said):
                load(spec, options)
