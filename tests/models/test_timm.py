"""Networks of timm: their facts, their names, their maps and their weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import timm
import torch
from backbone_models import params
from safetensors.torch import save_file
from torch import nn

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.models import backbones
from bgbias.models.backbones import timm as plugin


def build(name: str, **options: object) -> nn.Module:
    return backbones.build(f"timm:{name}", params(f"timm:{name}", **options)).eval()


def test_facts_are_those_of_the_pretrained_configuration() -> None:
    name = "vit_tiny_patch16_224"
    facts = plugin.facts(name, plugin.Params(weights=None))
    config = timm.data.resolve_model_data_config(timm.create_model(name))
    assert facts.input_size == config["input_size"][1] == 224
    assert facts.resize == 248  # 224 / .9, rounded down, as timm's own transform does
    assert facts.preprocess.mean == config["mean"] == (0.5, 0.5, 0.5)
    assert facts.channels == 192


def test_places_of_a_map_whose_channels_lie_last_are_places_of_the_photo() -> None:
    """A change in the upper right corner changes the map most in its upper right corner."""
    network = build("swin_tiny_patch4_window7_224", img_size=128)
    photo, changed = torch.zeros(2, 1, 3, 128, 128)
    changed[..., :32, -32:] = 3
    with torch.no_grad():
        difference = (network(changed) - network(photo)).square().sum(dim=1)[0]
    assert difference.shape == (4, 4)
    assert divmod(int(difference.argmax()), 4) == (0, 3)


def test_short_side_of_a_forecast_is_near_the_networks_own() -> None:
    chosen = plugin.Params(weights=None, img_size=224)
    name = "vit_small_patch14_dinov2"
    assert plugin.likely_resize(name, chosen) == pytest.approx(plugin.facts(name, chosen).resize, rel=0.12)


@pytest.mark.parametrize("name", ["test_vit", "vit_small_patch14_reg4_dinov2"])
def test_tokens_are_those_that_timm_itself_arranges(name: str) -> None:
    network = build(name, img_size=112)
    x = torch.randn(2, 3, 112, 112, generator=seeds.torch_generator("photos"))
    with torch.no_grad():
        (expected,) = network.net.get_intermediate_layers(x, n=1, reshape=True, norm=True)
        torch.testing.assert_close(network(x), expected)


def test_norm_that_follows_pooling_is_applied_to_each_token() -> None:
    network = build("vit_relpos_small_patch16_224", img_size=32)
    assert isinstance(network.net.fc_norm, nn.LayerNorm)
    with torch.no_grad():
        found = network(torch.randn(1, 3, 32, 32))
    torch.testing.assert_close(found.mean(dim=1), torch.zeros(1, 2, 2), atol=1e-5, rtol=0)


def test_network_without_a_map_is_refused() -> None:
    network = build("coat_tiny")
    with pytest.raises(UserError, match="CoaT of timm gives no feature map"), torch.no_grad():
        network(torch.zeros(1, 3, 224, 224))


# Weights.


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


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mixer_s16_224", "timm has no weights of mixer_s16_224"),
        ("vit_base_patch32_clip_224.openai", "QuickGELU, .*timm:vit_base_patch32_clip_quickgelu_224.openai"),
    ],
)
def test_weights_that_are_not_published_for_this_network_are_refused(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        plugin.published(name, plugin.Params(weights="published"))


def test_a_size_of_photos_that_weights_are_not_for_may_be_to_blame() -> None:
    """A mixer's layers are made for a number of patches, which nobody resamples."""
    with torch.device("meta"):
        state = timm.create_model("mixer_s32_224").state_dict()
        trunk = build("mixer_s32_224", img_size=256)
    for given, words in (
        (state, "or leave img_size out, if the weights are for photos of another size"),
        ({"stem.weight": state["stem.proj.weight"]}, r"does not hold weights of timm:mixer_s32_224"),
    ):
        with pytest.raises(UserError, match=words):
            backbones.fit_state(trunk, given, "timm:mixer_s32_224", "given.safetensors")
