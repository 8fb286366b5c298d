"""What a person types for a model, and what she says of it, is understood or told."""

from __future__ import annotations

from pathlib import Path

import pytest

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.models.adapters import Options, load


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("resnet50", "'resnet50' does not say whose model it is: timm:resnet50, torchvision:resnet50"),
        ("tim:resnet50", "no 'tim' in adapters; .*Did you mean 'timm'"),
        ("timm:", "'timm:' lacks what stands behind the colon: the name of a model of timm"),
        (
            "weights.pth",
            "does not tell what network its weights are of.*--model timm:resnet50 --weights weights.pth",
        ),
        ("none/model.safetensors", "none/model.safetensors is missing"),
    ],
)
def test_a_name_that_says_too_little_is_told_what_to_add(spec: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        load(spec)


def test_every_kind_refuses_options_that_mean_nothing_to_it() -> None:
    for kind in plugins.names("adapters"):
        adapter = plugins.load("adapters", kind)
        assert set(Options.__dataclass_fields__) - {"device"} >= adapter.OPTIONS
        if "pooling" not in adapter.OPTIONS:
            with pytest.raises(UserError, match=f"--pooling means nothing to {kind}:x"):
                load(f"{kind}:x", Options(pooling="cls"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weights": Path("none.pth")}, "weights file none.pth is missing; correct --weights"),
        ({"size": 0}, "--size is 0"),
        ({"mean": (0.5,)}, "--mean takes three numbers"),
        ({"mean": 0.5}, "--mean takes three numbers, one for each of R, G and B, not 0.5"),
        ({"mean": "0.5"}, "--mean takes three numbers"),
        ({"std": (0.5, 0.5, 0)}, "--std takes numbers above 0"),
        ({"pooling": "max"}, "--pooling 'max' is unknown"),
    ],
)
def test_options_are_checked_before_anything_is_loaded(options: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        Options(**options)  # type: ignore[arg-type]


def test_a_crop_larger_than_the_photo_is_refused() -> None:
    with pytest.raises(UserError, match="give --resize 96 or more"):
        load(lambda pictures: [p.mean((0, 1)) for p in pictures], Options(size=96, resize=90))
