"""U²-Net: the published architecture and names, masks by the published recipe, and errors that help."""

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from brought_models import randomised
from PIL import Image
from safetensors.torch import save_file

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.masks import quality, saliency
from bgbias.masks.u2net import FULL, U2Net, u2net, u2netp

SIZE = 48
SMALL = dict.fromkeys(FULL, ((1, 2), 2, 4))  # of this kind, with few levels and channels


@pytest.fixture(scope="module")
def net() -> U2Net:
    return randomised(u2netp())


@pytest.fixture(scope="module")
def weights(net: U2Net, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "u2netp.safetensors"
    save_file(net.state_dict(), path)
    return path


def photo(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def masker(weights: Path, device: str = "cpu", **options: object) -> saliency.SaliencyMasker:
    module = plugins.load("maskers", "u2netp")
    return module.build(module.Params(weights=str(weights), input_size=SIZE, **options), device)


def test_nets_have_the_published_numbers_names_and_shapes() -> None:
    with torch.device("meta"):
        nets = [u2net(), u2netp()]
    # Of the official release's two classes.
    assert [sum(p.numel() for p in made.parameters()) for made in nets] == [44_009_869, 1_131_181]
    state = nets[0].state_dict()
    # 112 convolutions with batch norm of seven tensors each, six sides and the fusion of two.
    assert len(state) == 112 * 7 + 7 * 2
    assert state["stage4.rebnconv1d.conv_s1.weight"].shape == (512, 256, 3, 3)
    assert state["stage5d.rebnconvin.conv_s1.weight"].shape == (512, 1024, 3, 3)
    assert state["side6.weight"].shape == (1, 512, 3, 3)


@pytest.mark.parametrize("coarse", [False, True])
def test_outputs_are_the_same_whether_gradients_are_recorded_or_not(net: U2Net, coarse: bool) -> None:
    """Without them, sums are written over a term."""
    made = copy.deepcopy(net).fold()
    made = made.to_bfloat16() if coarse else made
    x = torch.rand(2, 3, 43, 57)
    recorded = made(x)
    torch.stack(recorded).mean().backward()  # deep supervision reaches every parameter
    assert [name for name, p in made.named_parameters() if p.grad is None] == []
    with torch.inference_mode():
        found = made(x)
    assert [tuple(o.shape) for o in found] == [(2, 1, 43, 57)] * 7
    assert all(torch.equal(a, b) for a, b in zip(found, recorded, strict=True))


def test_a_mask_is_the_stretched_fused_output_and_confidence_its_maximum(net: U2Net, weights: Path) -> None:
    """Of the net as it was before its batch norms were folded."""
    picture = photo(SIZE, SIZE)  # the net's own size: no resampling on either side
    x = (picture / picture.max() - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    with torch.inference_mode():
        p = net(torch.from_numpy(x.transpose(2, 0, 1)[None]).float())[0][0, 0].sigmoid().numpy()
    (mask,) = masker(weights)([picture])
    expected = (p - p.min()) / (p.max() - p.min()) * 255
    assert np.abs(mask.alpha - np.floor(expected)).max() <= 1
    assert (mask.alpha.min(), mask.alpha.max()) == (0, 255)
    assert mask.confidence == pytest.approx(p.max(), abs=1e-5)


def test_masks_have_their_photos_sizes_and_do_not_depend_on_the_batch(weights: Path) -> None:
    photos = [photo(40, 90, 1), photo(120, 50, 2), np.zeros((20, 30, 3), np.uint8), photo(1, 7, 5)]
    make = masker(weights, batch_size=3)
    together = make(photos)
    assert [m.alpha.shape for m in together] == [p.shape[:2] for p in photos]
    # As with a GPU: Pillow in threads, batches ahead of the network.
    make._overlapped = True
    assert make([]) == []
    for others in ([make([p])[0] for p in photos], make(photos)):
        for a, b in zip(together, others, strict=True):
            assert a.confidence == b.confidence
            np.testing.assert_array_equal(a.alpha, b.alpha)
    constant = saliency.mask_from(np.full((32, 32), 0.25, np.float32), 20, 30)
    assert not constant.alpha.any()
    assert constant.confidence == 0.25


@pytest.mark.gpu
def test_a_gpu_makes_the_same_masks(weights: Path) -> None:
    photos = [photo(40 + 9 * n, 90, n) for n in range(7)]
    expected, found = masker(weights)(photos), masker(weights, "cuda", batch_size=3)(photos)
    for a, b in zip(found, expected, strict=True):
        assert a.confidence == pytest.approx(b.confidence, abs=1e-4)
        assert np.abs(a.alpha.astype(int) - b.alpha).max() <= 1


@pytest.mark.parametrize("kept", [False, True], ids=["folded", "batch norm kept"])
@pytest.mark.filterwarnings("ignore")
def test_onnx_files_of_the_official_exporter_load_into_their_net(tmp_path: Path, kept: bool) -> None:
    path, net, loaded = tmp_path / "u2netp.onnx", randomised(U2Net(SMALL)), U2Net(SMALL).eval()
    training = torch.onnx.TrainingMode.PRESERVE if kept else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(
        net, (torch.rand(1, 3, 32, 32),), path, dynamo=False, training=training, do_constant_folding=not kept
    )
    operations = {node.op_type for node in onnx.load(path).graph.node}
    assert ("BatchNormalization" in operations) == kept
    saliency.load_weights(loaded, path, "u2netp")
    x = torch.rand(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        for expected, found in zip(net(x), loaded(x), strict=True):
            torch.testing.assert_close(found, expected, atol=2e-3, rtol=1e-3)
    words = r"u2netp\.onnx does not hold weights of masker 'u2netp'.* \d+ convolutions where 119"
    with pytest.raises(UserError, match=words):
        saliency.load_weights(u2netp(), path, "u2netp")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("absent.pth", None, r"params\.yaml"),
        ("u2netp_toy.safetensors", None, "make toy-masker"),
        ("broken.onnx", b"<html>not found</html>", "cannot be read as weights of masker 'u2netp'"),
        ("more.pth", {"extra": torch.zeros(1)}, "'extra' is not a name"),
        ("less.pth", {"side1.weight": None}, r"'side1\.weight' is missing"),
        ("other.pth", {"side1.weight": torch.zeros(1, 512, 3, 3)}, "other net"),
    ],
)
def test_weights_that_cannot_be_used_are_named(
    net: U2Net, tmp_path: Path, name: str, content: Any, words: str
) -> None:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        changed = net.state_dict() | content
        torch.save({k: v for k, v in changed.items() if v is not None}, path)
    with pytest.raises(UserError, match=rf"(?s)(?=.*{re.escape(str(path))}).*{words}"):
        saliency.load_weights(u2netp(), saliency.weights_file("u2netp", str(path)), "u2netp")


# IoU and coverage of an independent run of the same weights in ONNX, threshold 128, mean of ten photos each.
PUBLISHED = {"cars196": (0.965, 0.979), "cub200": (0.835, 0.940), "sop": (0.695, 0.785)}


@pytest.mark.shared
def test_real_photos_agree_with_hand_drawn_masks_as_published(shared_data: Path) -> None:
    module = plugins.load("maskers", "u2netp")
    weights = str(shared_data / "weights" / "u2netp.safetensors")
    exact = module.build(module.Params(weights=weights), "cpu")
    rounded = module.build(module.Params(weights=weights, precision="bf16"), "cpu")
    agreement = []
    for dataset in PUBLISHED:
        files = sorted((shared_data / "hand_masks" / dataset).glob("*_image.jpeg"))
        drawn = [f.with_name(f.name.replace("_image.jpeg", "_mask.png")) for f in files]
        photos = [np.array(Image.open(f).convert("RGB")) for f in files]
        truths = [np.array(Image.open(f).convert("L")) for f in drawn]
        masks = exact(photos)
        iou = np.mean([quality.iou(m.alpha, t) for m, t in zip(masks, truths, strict=True)])
        covered = np.mean([quality.overlap(m.alpha, t) for m, t in zip(masks, truths, strict=True)])
        assert (iou, covered) == pytest.approx(PUBLISHED[dataset], abs=0.01), dataset
        agreement += [quality.iou(r.alpha, m.alpha) for r, m in zip(rounded(photos), masks, strict=True)]
    assert np.mean(agreement) >= 0.99
