"""Masks of an audit are made once for each photo's bytes, and belong to the masker as it was."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from saliency_graphs import graph

from bgbias.auditing import masker
from bgbias.errors import UserError
from bgbias.masks.mask_cache import KeptMasks
from bgbias.masks.maskers._params import SaliencyParams
from bgbias.masks.policy import Mask
from bgbias.masks.saliency import SaliencyMasker
from bgbias.masks.u2net import u2netp

PHOTO = "a" * 64
ALPHA = np.arange(48, dtype=np.uint8).reshape(6, 8)


def test_a_mask_comes_back_as_it_was_with_its_confidence(tmp_path: Path) -> None:
    kept = KeptMasks(tmp_path)
    key = PHOTO
    assert key not in kept
    kept.keep(key, Mask(ALPHA, 0.1234567890123))
    again = KeptMasks(tmp_path).read(key)
    assert np.array_equal(again.alpha, ALPHA)
    assert again.confidence == 0.1234567890123
    assert "b" * 64 not in kept


def test_a_damaged_mask_is_told_and_made_again(tmp_path: Path) -> None:
    kept = KeptMasks(tmp_path)
    key = PHOTO
    kept.keep(key, Mask(ALPHA, 0.5))
    (file,) = tmp_path.rglob("*.png")
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(UserError, match=r"damaged.*run the same command again"):
        kept.read(key)
    assert key not in kept


def test_other_weights_are_another_masker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BGBIAS_CACHE", str(tmp_path / "cache"))
    weights = tmp_path / "mine.safetensors"
    weights.write_bytes(b"first")
    first = masker.find("u2netp", weights, "cpu")
    weights.write_bytes(b"second")
    second = masker.find("u2netp", weights, "cpu")
    masker.open_cache(first, upright=True).keep(PHOTO, Mask(ALPHA, 0.5))
    assert PHOTO not in masker.open_cache(second, upright=True)
    assert masker.find("grabcut", None, "cpu").key not in {first.key, second.key}


@pytest.mark.parametrize(
    ("name", "weights", "words"),
    [
        ("u2nett", None, "Did you mean 'u2net"),
        ("ground_truth", None, "--masks FOLDER"),
        ("grabcut", "some.pth", "leave out --mask-weights"),
        ("onnx", None, "no published weights; name its file by --mask-weights"),
    ],
)
def test_a_masker_that_cannot_be_is_refused(name: str, weights: str | None, words: str) -> None:
    with pytest.raises(UserError, match=words):
        masker.find(name, Path(weights) if weights else None, "cpu")


def test_options_of_a_masker_are_read_as_they_are_written_and_change_its_masks(tmp_path: Path) -> None:
    net = graph(tmp_path / "net.onnx")
    options = masker.parse_options(["mean=0.5,0.5,0.5", "sigmoid=false", "output=output_image"])
    assert options == {"mean": [0.5, 0.5, 0.5], "sigmoid": False, "output": "output_image"}
    plain, told = masker.find("onnx", net, "cpu"), masker.find("onnx", net, "cpu", options)
    assert plain.key != told.key
    assert "mean (0.485" in plain.guesses
    assert "mean" not in told.guesses
    prepared: Any = SimpleNamespace(
        qualities=pd.DataFrame({"empty": [False] * 2, "full": False}),
        masks={i: np.full((4, 4), 200, np.uint8) for i in "ab"},
    )
    (remark,) = masker.describe_masks(prepared, frozenset("ab"), list("ab"), plain)
    assert "guessed, because no graph says it: mean (0.485" in remark
    assert "--masker isnet" in remark
    with pytest.raises(UserError, match="has no value"):
        masker.parse_options(["mean"])
    with pytest.raises(UserError, match=r"--mask-option: unknown key 'maskers\.grabcut\.mean'"):
        masker.check("grabcut", None, options)
    with pytest.raises(UserError, match=r"--mask-option: .*maskers\.onnx\.mean"):
        masker.check("onnx", net, {"mean": 0.5})


def test_weights_that_nobody_has_are_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BGBIAS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BGBIAS_SHARED_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    place = re.escape(str(tmp_path / "cache/weights/u2netp.onnx"))
    step = rf"\nName .* --mask-weights FILE \(\.onnx, \.pth or \.safetensors\); or get u2netp\.onnx .*{place}; .*--masker grabcut"
    with pytest.raises(UserError, match=step) as told:
        masker.find("u2netp", None, "cpu")
    assert "params.yaml" not in str(told.value)
    with pytest.raises(UserError, match=r"get isnet-general-use\.onnx \(178,648,008 bytes, md5 fc16"):
        masker.find("isnet", None, "cpu")


def test_a_graph_masks_from_a_file_the_cache_or_the_shared_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BGBIAS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BGBIAS_SHARED_DATA", str(tmp_path / "shared"))
    name = "isnet-general-use.onnx"
    places = [tmp_path / folder / name for folder in ("mine", "cache/weights", "shared/weights")]
    for place in places:
        place.parent.mkdir(parents=True)
    graph(places[0])
    mine = masker.find("isnet", places[0], "cpu")
    for place in places[1:]:
        place.write_bytes(places[0].read_bytes())
        found = masker.find("isnet", None, "cpu")
        assert found.key == mine.key
        (mask,) = found.build()([np.dstack([ALPHA] * 3)])
        assert mask.alpha.shape == ALPHA.shape
        place.unlink()
    assert masker.find("onnx", places[0], "cpu").key != mine.key
    graph(places[0], bias=0.1)
    assert masker.find("isnet", places[0], "cpu").key != mine.key


def test_weights_of_another_net_are_told_with_the_commands_option(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.safetensors"
    save_file({"stage1.weight": torch.zeros(3)}, wrong)
    with pytest.raises(UserError, match=r"wrong\.safetensors.* Correct --mask-weights\.$"):
        masker.load(masker.find("u2netp", wrong, "cpu"))


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_weights_come_in_either_format(tmp_path: Path, suffix: str) -> None:
    """Those of the network at random."""
    state = u2netp().state_dict()
    file = tmp_path / f"mine{suffix}"
    save_file(state, file) if suffix == ".safetensors" else torch.save(state, file)
    net = u2netp()
    net.load_state_dict(state)
    expected = SaliencyMasker(net, SaliencyParams(), torch.device("cpu"))._net.state_dict()
    found = masker.find("u2netp", file, "cpu").build()._net.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], values) for name, values in expected.items())
