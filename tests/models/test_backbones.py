"""What every backbone must do, one test a property; its padding, its norms and its grouped convolutions."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from backbone_models import BACKBONES, FILES, fold, make, params, photos, unsettle
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bgbias import plugins, seeds
from bgbias.errors import UserError
from bgbias.models import backbones
from bgbias.models import model as models
from bgbias.models.backbones._layers import SamePaddedConv2d
from bgbias.models.derivatives import _convolve, differentiable_twice
from bgbias.models.inference import for_inference
from bgbias.models.model import EmbeddingModel
from bgbias.models.norms import AuxiliaryNorms, batch_norms, is_folded, known_to_lack, unfold

pytestmark = pytest.mark.usefixtures("small_plugins")
every_backbone = pytest.mark.parametrize("name", BACKBONES)


@cache
def trained(name: str) -> EmbeddingModel:
    """A model in evaluation mode, as if it had been trained; it is not to be changed."""
    model = make(name)
    unsettle(model)
    return model.eval()


# Millions of parameters as published (with the classifier of 1,000 classes), and the map's channels.
PUBLISHED = {
    "bn_inception": (11.295240, 1024),
    "resnet18": (11.69, 512),
    "resnet50": (25.56, 2048),
    "resnet152": (60.19, 2048),
    "mobilenet_v2": (3.50, 1280),
    "mobilenet_v2_tf": (3.50, 1280),
}


@pytest.mark.parametrize("name", FILES)
def test_facts_are_those_of_the_network(name: str) -> None:
    facts = backbones.facts(name, params(name))
    assert facts.resize >= facts.input_size
    with torch.device("meta"):
        trunk = backbones.build(name, params(name)).eval()
        shape = trunk(torch.zeros(2, 3, facts.input_size, facts.input_size)).shape
    assert shape[:2] == (2, facts.channels)
    if name in PUBLISHED:
        millions, channels = PUBLISHED[name]
        count = sum(p.numel() for p in trunk.parameters()) + 1000 * (channels + 1)
        assert (count / 1e6, facts.channels) == (pytest.approx(millions, abs=0.01), channels)


@every_backbone
def test_photos_become_maps_and_unit_vectors_of_their_own_and_gradients_pass_both(name: str) -> None:
    """Attribution wants the gradient at the photo, activation maps that at the feature map."""
    model, x = trained(name), photos(name, 3).requires_grad_()
    channels = backbones.facts(name, params(name)).channels
    features = model.features(x)
    assert features.shape[:2] == (3, channels)
    assert features.ndim == 4
    assert min(features.shape[2:]) > 1
    pooled, embeddings = model.pooled(x), model(x)
    assert (pooled.shape, embeddings.shape) == ((3, channels), (3, 8))
    for vectors in (pooled, embeddings):
        torch.testing.assert_close(vectors.norm(dim=1), torch.ones(3))
    torch.testing.assert_close(embeddings[1:2], model(x[1:2]), rtol=1e-4, atol=1e-5)
    by_hand = F.normalize(model.embedder(features.mean(dim=(2, 3))), dim=1)
    torch.testing.assert_close(by_hand, embeddings)
    for gradient in torch.autograd.grad(by_hand[:, 0].sum(), (x, features)):
        assert gradient.isfinite().all()
        assert (gradient.flatten(1).abs().sum(dim=1) > 0).all()


@every_backbone
def test_inference_copy_gives_the_same_embeddings_without_batch_norm(name: str) -> None:
    model, x = trained(name), photos(name).requires_grad_()
    fast = for_inference(model)
    assert not any(isinstance(m, _BatchNorm) for m in fast.modules())
    assert not any(p.requires_grad for p in fast.parameters())
    plain = model(x)
    torch.testing.assert_close(fast(x), plain, rtol=0, atol=1e-4)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = fast(x)
    assert rounded.dtype == torch.float32
    assert torch.cosine_similarity(rounded, plain).min() > 0.99
    assert torch.autograd.grad(rounded[:, 0].sum(), x)[0].isfinite().all()


# One network of our own, of torchvision and of timm: what the model does around any of them.
of_each_kind = pytest.mark.parametrize("name", ["tiny", "mobilenet_v2", "timm:mobilenetv3_small_050"])


@of_each_kind
def test_model_comes_from_the_generator_alone(name: str) -> None:
    before = torch.get_rng_state()
    first, second, other = (make(name, seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(first[k], second[k]) for k in first)
    kernels = [k for k in first if first[k].ndim in (2, 4)]
    assert not any(torch.equal(first[k], other[k]) for k in kernels)


@of_each_kind
def test_saved_model_describes_itself_and_needs_no_weights_file(name: str, tmp_path: Path) -> None:
    model = make(name, dim=5, freeze_batch_norm=False).eval()
    if name != "tiny":
        model.params = params(name, weights=str(tmp_path / "published.safetensors"))
    unsettle(model)
    models.save(model, tmp_path / "model.safetensors", {"epoch": 3})
    loaded = models.load(tmp_path / "model.safetensors")
    assert (loaded.backbone, loaded.params, loaded.dim) == (name, model.params, 5)
    assert not loaded.freeze_batch_norm
    assert not loaded.training
    assert models.metadata(tmp_path / "model.safetensors") == {"epoch": 3}
    with torch.no_grad():
        assert torch.equal(loaded(photos(name)), model(photos(name)))


def test_a_norm_that_is_not_next_to_its_convolution_is_not_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Siblings in another order than they are computed in: folding would change the embedding."""

    class Crossed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.second, self.norm_of_first = nn.Conv2d(192, 192, 1), nn.BatchNorm2d(192)
            self.first = nn.Conv2d(3, 192, 8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.norm_of_first(self.first(x)).relu())

    monkeypatch.setattr(plugins.load("backbones", "tiny"), "build", lambda params: Crossed())
    model = make("tiny").eval()
    unsettle(model)
    fast = for_inference(model)
    assert any(isinstance(m, _BatchNorm) for m in fast.modules())
    with torch.no_grad():
        torch.testing.assert_close(fast(photos("tiny")), model(photos("tiny")), rtol=0, atol=1e-5)


def test_head_norm_is_not_frozen_where_the_trunks_are_and_is_saved_with_the_model(tmp_path: Path) -> None:
    model = make("tiny_batch_norm", dim=6)
    norm = model.add_head_norm()
    model.train()
    assert not any(m.training for m in model.trunk.modules() if isinstance(m, nn.BatchNorm2d))
    maps = torch.rand(12, norm.num_features, 7, 7, generator=seeds.torch_generator("maps"))
    pooled = maps.mean((2, 3))
    of_the_batch = pooled.mean(0), pooled.var(0, unbiased=False)
    trained = model.embed_features(maps)
    model.eval()
    for found, (mean, var) in (
        (trained, of_the_batch),
        (model.embed_features(maps), (norm.running_mean, norm.running_var)),
    ):
        normalised = (pooled - mean) / (var + 1e-5).sqrt()
        expected = F.normalize(normalised @ model.embedder.weight.T + model.embedder.bias, dim=1)
        torch.testing.assert_close(found, expected)
    models.save(model, tmp_path / "model.safetensors")
    loaded, x = models.load(tmp_path / "model.safetensors"), photos("tiny_batch_norm")
    assert torch.equal(loaded(x), model(x))
    torch.testing.assert_close(for_inference(loaded)(x), model(x), rtol=0, atol=1e-5)


def test_strided_convolutions_are_padded_right_and_below_as_tensorflow_does() -> None:
    conv = SamePaddedConv2d(1, 1, 3, stride=2, bias=False)
    conv.weight.data.fill_(0)
    conv.weight.data[0, 0, 2, 2] = 1  # looks at the lower right of its window
    picture = torch.arange(16.0).view(1, 1, 4, 4)
    # Windows start at 0 and 2; the last ones reach one row and one column beyond the picture, into zeros.
    assert conv(picture)[0, 0].tolist() == [[10.0, 0.0], [0.0, 0.0]]
    trunk = backbones.build("mobilenet_v2_tf", params("mobilenet_v2_tf"))
    convolutions = [m for m in trunk.modules() if isinstance(m, nn.Conv2d)]
    strided = [m for m in convolutions if m.stride == (2, 2)]
    assert len(strided) == 5  # 224 to 7
    assert [m for m in convolutions if isinstance(m, SamePaddedConv2d)] == strided
    assert all(m.padding == (0, 0) for m in strided)


# Several batch norms: copies that learn from their own photos alone, and a model file that has but the first.

NAMES = ("stax", "mtax:2")
WITH = ("mobilenet_v2_tf", "bn_inception", "timm:mobilenetv3_small_050")


def network(name: str = "pixels") -> EmbeddingModel:
    net = make(name, freeze_batch_norm=False)
    unsettle(net)
    return net.train()


@pytest.mark.parametrize("name", WITH)
def test_no_norm_of_the_clean_photos_is_passed_by_others(name: str) -> None:
    """Each set begins as a copy of theirs, with their statistics."""
    net, shown = network(name), photos(name)
    own = [m for m in net.modules() if isinstance(m, _BatchNorm)]
    norms = AuxiliaryNorms(net, NAMES).eval()
    expected = net.eval()(shown)
    for one in NAMES:
        with norms.using(one):
            assert torch.equal(net(shown), expected)
    net.train(), norms.train()
    calls: list[nn.Module] = []
    for module in (*own, *norms.sets[0], *norms.sets[1]):
        module.register_forward_hook(lambda one, *_: calls.append(one))
    for kind, wanted in (("mtax:2", norms.sets[1]), ("stax", norms.sets[0]), ("", own)):
        calls.clear()
        with norms.using(kind) if kind else nullcontext():
            net(shown)
        assert {*map(id, calls)} == {*map(id, wanted)}


def test_the_file_holds_the_first_and_says_so(tmp_path: Path) -> None:
    net, path, shown = network(), tmp_path / "model.safetensors", photos("pixels", 4)
    models.save(net, path)
    assert models.load(path).auxiliary_norms == ()
    with AuxiliaryNorms(net, NAMES).train().using("mtax:2"):
        net(shown)
    models.save(net, path)
    assert load_file(path).keys() == net.state_dict().keys()
    loaded = models.load(path)
    assert loaded.auxiliary_norms == NAMES
    assert torch.equal(loaded(shown), net.eval()(shown))


@pytest.mark.parametrize("name", BACKBONES)
def test_what_a_network_lacks_is_known_without_its_weights(name: str) -> None:
    net = make(name)
    lacks = not any(isinstance(m, _BatchNorm) for m in net.modules())
    assert known_to_lack(name, params(name)) == lacks
    with pytest.raises(UserError, match=f"{name} has no batch norm") if lacks else nullcontext():
        AuxiliaryNorms(net, NAMES)


def test_folded_norms_get_statistics_and_compute_what_they_did() -> None:
    net = network("mobilenet_v2_tf").eval()
    shown = torch.cat([share * photos("mobilenet_v2_tf") for share in (0.5, 1, 1.5)])
    before = net.features(shown)
    assert not is_folded(net)
    fold(net)
    assert is_folded(net)
    unfold(net, shown.split(2))
    assert not is_folded(net)
    torch.testing.assert_close(net.features(shown), before, atol=1e-4, rtol=1e-4)
    # By the statistics of the same photos as one batch it computes the same, which it did not before.
    for norm in batch_norms(net):
        norm.train()
        norm.momentum = 0.0
    torch.testing.assert_close(net.features(shown), before, atol=1e-3, rtol=1e-3)


# Grouped convolutions.

SHAPES: list[dict[str, Any]] = [
    {"groups": 6, "padding": 1},
    {"groups": 6, "stride": 2},  # does not reach the edge
    {"groups": 3, "padding": (2, 1), "dilation": (2, 1)},
    {"groups": 2},
    {"groups": 6, "padding": "same"},
]


def derivatives(convolution: Callable[..., Tensor], how: dict[str, Any], bias: bool) -> list[Tensor]:
    """The output, its curved sum's gradient by the input, and the gradients of that one's size by everything."""
    generator = seeds.torch_generator("convolution")
    shapes = [(2, 6, 8, 7), (6, 6 // how["groups"], 3, 3), *([(6,)] if bias else [])]
    given = [torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes]
    made = convolution(*given, **how)
    (slope,) = torch.autograd.grad(made.sin().sum(), given[0], create_graph=True)
    return [made, slope, *torch.autograd.grad(slope.square().sum(), given)]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("how", SHAPES)
def test_derivatives_agree_with_pytorchs(how: dict[str, Any], bias: bool) -> None:
    both = (derivatives(convolution, how, bias) for convolution in (_convolve, F.conv2d))
    for found, expected in zip(*both, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_a_networks_grouped_convolutions_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what the network gives stays the same."""
    model, x, seen = trained("mobilenet_v2"), photos("mobilenet_v2"), list[int]()

    def watched(*args: Any) -> Tensor:
        seen.append(args[6])
        return _convolve(*args)

    monkeypatch.setattr("bgbias.models.derivatives._convolve", watched)
    with differentiable_twice(model):
        found = model(x)
    assert sum(groups > 1 for groups in seen) == 17
    torch.testing.assert_close(found, model(x))
