"""Published networks: those of timm by its own names, maps and weights, and BN-Inception as its prototxt describes it."""

from pathlib import Path

import pytest
import timm
import torch
import torch.nn.functional as F
from backbone_models import make, params
from safetensors.torch import save_file
from torch import Tensor, nn

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.models import backbones
from bgbias.models.backbones import timm as plugin


def build(name: str, **options: object) -> nn.Module:
    return backbones.build(f"timm:{name}", params(f"timm:{name}", **options)).eval()


def test_facts_are_those_of_the_pretrained_configuration_and_nearly_known_without_it() -> None:
    name, chosen = "vit_tiny_patch16_224", plugin.Params(weights=None, img_size=224)
    facts = plugin.facts(name, plugin.Params(weights=None))
    config = timm.data.resolve_model_data_config(timm.create_model(name))
    assert facts.input_size == config["input_size"][1] == 224
    assert facts.resize == 248  # 224 / .9, rounded down, as timm's own transform does
    assert facts.preprocess.mean == config["mean"] == (0.5, 0.5, 0.5)
    assert facts.channels == 192
    assert plugin.likely_resize(name, chosen) == pytest.approx(plugin.facts(name, chosen).resize, rel=0.12)


@pytest.mark.parametrize(
    ("name", "size"),
    [("test_vit", 112), ("vit_small_patch14_reg4_dinov2", 112), ("swin_tiny_patch4_window7_224", 128)],
)
def test_maps_are_those_that_timm_itself_arranges(name: str, size: int) -> None:
    """Of tokens behind others, and where channels lie last."""
    network = build(name, img_size=size)
    x = torch.randn(2, 3, size, size, generator=seeds.torch_generator("photos"))
    with torch.no_grad():
        (expected,) = network.net.forward_intermediates(x, 1, norm=True, intermediates_only=True)
        torch.testing.assert_close(network(x), expected)


def test_a_norm_that_follows_pooling_is_applied_to_each_token_and_no_map_is_refused() -> None:
    network = build("vit_relpos_small_patch16_224", img_size=32)
    assert isinstance(network.net.fc_norm, nn.LayerNorm)
    with torch.no_grad():
        found = network(torch.randn(1, 3, 32, 32))
    torch.testing.assert_close(found.mean(dim=1), torch.zeros(1, 2, 2), atol=1e-5, rtol=0)
    with pytest.raises(UserError, match="CoaT of timm gives no feature map"), torch.no_grad():
        build("coat_tiny")(torch.zeros(1, 3, 224, 224))


def test_published_weights_fit_another_size_of_photos(tmp_path: Path) -> None:
    """What depends on the size is resampled by timm's own rule, everything else is taken as it is."""
    torch.manual_seed(0)
    whole = timm.create_model("test_vit").state_dict()
    save_file({k: v.contiguous() for k, v in whole.items()}, tmp_path / "whole.safetensors")
    trunk = build("test_vit", img_size=64)
    backbones.load(trunk, tmp_path / "whole.safetensors", "timm:test_vit")
    loaded = trunk.net.state_dict()
    assert {k for k in loaded if not torch.equal(loaded[k], whole[k])} == {"pos_embed"}
    assert len(loaded) > 50
    # A mixer's layers are made for a number of patches, which nobody resamples.
    with torch.device("meta"):
        state = timm.create_model("mixer_s32_224").state_dict()
        mixer = build("mixer_s32_224", img_size=256)
    with pytest.raises(UserError, match="or leave img_size out, if the weights are for photos of another"):
        backbones.fit_state(mixer, state, "timm:mixer_s32_224", "given.safetensors")


def test_weights_that_are_not_published_for_this_network_are_refused() -> None:
    for name, said in (
        ("mixer_s16_224", "timm has no weights of mixer_s16_224"),
        ("vit_base_patch32_clip_224.openai", "QuickGELU, .*timm:vit_base_patch32_clip_quickgelu_224.openai"),
    ):
        with pytest.raises(UserError, match=said):
            plugin.published(name, plugin.Params(weights="published"))


# BN-Inception.


def written_out(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """The published prototxt as a chain of function calls, by the names of its layers."""

    def convolve(name: str, x: Tensor, stride: int = 1) -> Tensor:
        weight, norm = state[f"{name}.weight"], f"{name}_bn"
        x = F.conv2d(x, weight, state[f"{name}.bias"], stride, padding=weight.shape[-1] // 2)
        mean, var = state[f"{norm}.running_mean"], state[f"{norm}.running_var"]
        return F.batch_norm(x, mean, var, state[f"{norm}.weight"], state[f"{norm}.bias"]).clamp(min=0)

    def halve(x: Tensor) -> Tensor:
        return F.max_pool2d(x, 3, 2, ceil_mode=True)

    x = halve(convolve("conv1_7x7_s2", x, 2))
    x = halve(convolve("conv2_3x3", convolve("conv2_3x3_reduce", x)))
    for block in ("3a", "3b", "3c", "4a", "4b", "4c", "4d", "4e", "5a", "5b"):
        name, stride = f"inception_{block}", 2 if block in ("3c", "4e") else 1
        triple = convolve(f"{name}_3x3", convolve(f"{name}_3x3_reduce", x), stride)
        double = convolve(f"{name}_double_3x3_1", convolve(f"{name}_double_3x3_reduce", x))
        double = convolve(f"{name}_double_3x3_2", double, stride)
        if stride == 2:
            x = torch.cat([triple, double, halve(x)], dim=1)
            continue
        pooled = F.max_pool2d(x, 3, 1, padding=1) if block == "5b" else F.avg_pool2d(x, 3, 1, padding=1)
        x = torch.cat([convolve(f"{name}_1x1", x), triple, double, convolve(f"{name}_pool_proj", pooled)], 1)
    return x


def test_photos_arrive_as_caffe_wants_them() -> None:
    """Blue first, 0 to 255, each channel's mean taken away."""
    facts = backbones.facts("bn_inception", params("bn_inception"))
    assert (facts.input_size, facts.resize) == (227, 256)
    red_green_blue = torch.tensor([10.0, 20.0, 30.0]).view(1, 3, 1, 1)
    assert facts.preprocess(red_green_blue).flatten().tolist() == [30 - 104, 20 - 117, 10 - 128]


def test_a_file_of_the_published_form_becomes_the_published_network(tmp_path: Path) -> None:
    """Caffe's converted vectors are rows [1, C]; the classifier is left out."""
    generator = seeds.torch_generator("published")
    state = {}
    for name, tensor in make("bn_inception").trunk.state_dict().items():
        if "num_batches" not in name:
            values = torch.rand(tensor.shape, generator=generator)
            state[name] = values - 0.5 if tensor.ndim == 4 else values + 0.5
    rows = {name: tensor[None] if "_bn." in name else tensor for name, tensor in state.items()}
    rows |= {"last_linear.weight": torch.zeros(1000, 1024), "last_linear.bias": torch.zeros(1000)}
    torch.save(rows, tmp_path / "bn_inception-52deb4733.pth")
    network = make("bn_inception", weights=tmp_path / "bn_inception-52deb4733.pth").trunk.eval()
    x = 50 * torch.randn(2, 3, 99, 99, generator=seeds.torch_generator("x"))  # a size at which pools round
    with torch.no_grad():
        torch.testing.assert_close(network(x), written_out(state, x))
        for usual in (224, 227):
            assert network(torch.zeros(1, 3, usual, usual)).shape == (1, 1024, 7, 7)
