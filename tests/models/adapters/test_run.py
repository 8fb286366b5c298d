"""A model that bgbias trained embeds here as in its own evaluation, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from brought_models import assert_gradients_reach_the_picture, ours, photos

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.evaluation.embedder import Embedder
from bgbias.models.adapters import Options, load
from bgbias.models.backbones.tiny import Params
from bgbias.models.model import build_model, save


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    save(build_model("tiny", Params(), 16, seeds.torch_generator("run")), tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("spec", ["run:{}", "{}"])
def test_numbers_are_those_of_the_workflow(spec: str, weights: Path) -> None:
    found = load(spec.format(weights), Options(device="cpu"))
    embedder = Embedder(weights, "cpu")
    for photo in photos():
        assert np.array_equal(found.look(photo), embedder.view(photo))
    assert np.array_equal(ours(found), embedder.embed(photos()))
    assert found.dim == 16


def test_what_load_gives_is_taken_as_it_is(weights: Path) -> None:
    embedder = Embedder(weights, "cpu")
    for given in (embedder, embedder.model):
        assert np.array_equal(ours(load(given, Options(device="cpu"))), embedder.embed(photos()))
        with pytest.raises(
            UserError, match="lies on cpu, and --device says cuda: move it, or leave --device out"
        ):
            load(given, Options(device="cuda"))


def test_gradients_reach_the_picture(weights: Path) -> None:
    assert_gradients_reach_the_picture(load(weights, Options(device="cpu")))


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none.safetensors is missing"):
        load(tmp_path / "none.safetensors")
    torch.save({"a": torch.zeros(2)}, tmp_path / "a.safetensors")
    with pytest.raises(UserError, match=r"a.safetensors is a state dict"):
        load(tmp_path / "a.safetensors")


def test_its_preparation_is_its_own(weights: Path) -> None:
    with pytest.raises(UserError, match=r"--size means nothing to .*model.safetensors"):
        load(weights, Options(size=96))
