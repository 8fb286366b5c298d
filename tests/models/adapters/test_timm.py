"""Networks of timm embed as timm itself prepares photos and pools features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import timm
from brought_models import assert_equal, assert_gradients_reach_the_picture, ours, randomised, saved, theirs
from safetensors.torch import save_file

from bgbias.errors import UserError
from bgbias.models.adapters import Options, load

# Centre crop and squash (with a crop behind it), bilinear and bicubic, class token and mean, ImageNet's colours and others.
NETWORKS = (
    "resnet18.a1_in1k",
    "test_vit.r160_in1k",
    "test_nfnet.r160_in1k",
    "tf_efficientnetv2_b3.in21k_ft_in1k",
    "mobilenetv3_small_050",
)


@pytest.mark.parametrize("name", NETWORKS)
def test_vectors_are_those_of_timm(name: str, tmp_path: Path) -> None:
    network = randomised(timm.create_model(name, num_classes=0))
    found = load(f"timm:{name}", Options(weights=saved(network, tmp_path / "w.pth"), device="cpu"))
    config = timm.data.resolve_model_data_config(network)
    assert_equal(ours(found), theirs(timm.data.create_transform(**config), network))
    assert found.dim == network.num_features or name.startswith("mobilenet")
    assert not found.guesses, "timm specifies everything"


def test_a_chosen_size_goes_with_the_configurations_crop(tmp_path: Path) -> None:
    """Of another network with the same weights, whose positions timm resamples."""
    whole = randomised(timm.create_model("test_vit.r160_in1k"))
    save_file(whole.state_dict(), tmp_path / "w.safetensors")
    found = load(
        "timm:test_vit.r160_in1k", Options(weights=tmp_path / "w.safetensors", size=96, device="cpu")
    )
    whole.set_input_size((96, 96))
    whole.reset_classifier(0)
    config = timm.data.resolve_data_config({"img_size": 96}, model=whole)
    assert_equal(ours(found), theirs(timm.data.create_transform(**config), whole))
    assert found.look.size == 96


def test_pooling_can_be_chosen(tmp_path: Path) -> None:
    network = randomised(timm.create_model("test_vit.r160_in1k", num_classes=0, global_pool="avg"))
    weights = saved(network, tmp_path / "w.pth")
    found = load("timm:test_vit.r160_in1k", Options(weights=weights, pooling="mean", device="cpu"))
    config = timm.data.resolve_model_data_config(network)
    assert_equal(ours(found), theirs(timm.data.create_transform(**config), network))
    assert any("avg pooling" in line for line in found.told)


def test_a_clip_without_its_projection_is_reported(tmp_path: Path) -> None:
    network = randomised(timm.create_model("vit_xsmall_patch16_clip_224", num_classes=512))
    weights = saved(network, tmp_path / "w.pth")
    found = load("timm:vit_xsmall_patch16_clip_224.tinyclip_yfcc15m", Options(weights=weights, device="cpu"))
    assert found.dim == network.num_features
    assert any("projection: left out; " in line and "open_clip:<model>/<tag>" in line for line in found.told)
    assert {"activation: GELU"} <= set(found.told)


def test_published_weights_are_not_computed_with_another_activation() -> None:
    """timm's own page of them says: natively QuickGELU."""
    with pytest.raises(UserError, match=r"name timm:vit_base_patch32_clip_quickgelu_224.openai"):
        load("timm:vit_base_patch32_clip_224.openai")


def test_an_object_of_timm_is_prepared_as_its_configuration_says(tmp_path: Path) -> None:
    network = randomised(timm.create_model("test_vit.r160_in1k"))
    network.train()
    found = load(network, Options(device="cpu"))
    by_name = load(
        "timm:test_vit.r160_in1k", Options(weights=saved(network, tmp_path / "w.pth"), device="cpu")
    )
    assert_equal(ours(found), ours(by_name))
    assert found.look == by_name.look
    assert network.training, "the network that was handed over is as it was"
    assert network.get_classifier().out_features == 1000


@pytest.mark.parametrize(
    ("name", "option", "typed"),
    [
        ("levit_128s", {"size": 256}, "--size 256"),
        ("mixer_s32_224", {"size": 256}, "--size 256"),
        ("test_vit.r160_in1k", {"size": 4}, "--size 4"),
        ("test_resnet.r160_in1k", {"pooling": "cls"}, "--pooling cls"),
        ("test_resnet.r160_in1k", {"pooling": "cls", "size": 96}, "--pooling cls"),
    ],
)
def test_an_option_that_a_network_cannot_follow_is_blamed_and_not_its_weights(
    name: str, option: dict[str, Any], typed: str, tmp_path: Path
) -> None:
    weights = saved(randomised(timm.create_model(name)), tmp_path / "w.pth")
    with pytest.raises(UserError, match=f"^timm:{name} works without {typed}, and not with it") as told:
        load(f"timm:{name}", Options(**option, weights=weights, device="cpu"))
    assert "Name the right file" not in str(told.value)


def test_wrong_weights_are_blamed_whatever_the_options(tmp_path: Path) -> None:
    weights = saved(timm.create_model("test_resnet.r160_in1k"), tmp_path / "w.pth")
    with pytest.raises(UserError, match=r"does not hold weights of timm:test_vit.r160_in1k"):
        load("timm:test_vit.r160_in1k", Options(weights=weights, size=96))


def test_gradients_reach_the_picture(tmp_path: Path) -> None:
    weights = saved(randomised(timm.create_model("test_vit.r160_in1k")), tmp_path / "w.pth")
    assert_gradients_reach_the_picture(
        load("timm:test_vit.r160_in1k", Options(weights=weights, device="cpu"))
    )


def test_published_weights_that_cannot_be_fetched_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        UserError, match=r"could not be fetched from https://huggingface.co/timm/resnet18.a1_in1k.*--weights"
    ):
        load("timm:resnet18.a1_in1k")
    with pytest.raises(
        UserError, match=r"could not be fetched from https://huggingface.co/someone/hers.*--weights"
    ):
        load("timm:hf-hub:someone/hers")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("resnet5", "no model of timm 'resnet5'. Did you mean resnet50"),
        ("resnet50.a9_in1k", "no tag of resnet50 'a9_in1k'. Did you mean .*a1_in1k"),
        ("mixer_s16_224", "no weights of mixer_s16_224; name a file of them: --weights"),
    ],
)
def test_what_cannot_be_is_told(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        load(f"timm:{name}")
