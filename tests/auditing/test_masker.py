"""Masks and backgrounds of an audit are made once on a computer; masks belong to the masker as it was."""

import re
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from miniatures import as_folder
from safetensors.torch import save_file
from saliency_graphs import graph
from snapshots import snapshot

from bgbias.auditing import backgrounds, masker
from bgbias.backgrounds import generated
from bgbias.backgrounds.draws import Draw
from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.masks.mask_cache import KeptMasks
from bgbias.masks.policy import Mask

ALPHA = np.arange(48, dtype=np.uint8).reshape(6, 8)


def test_a_mask_comes_back_as_it_was_and_a_damaged_one_is_made_again(tmp_path: Path) -> None:
    kept, key = KeptMasks(tmp_path), "a" * 64
    assert key not in kept
    kept.keep(key, Mask(ALPHA, 0.1234567890123))
    again = KeptMasks(tmp_path).read(key)
    assert np.array_equal(again.alpha, ALPHA)
    assert again.confidence == 0.1234567890123
    (file,) = tmp_path.rglob("*.png")
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(UserError, match=r"damaged.*run the same command again"):
        kept.read(key)
    assert key not in kept


def test_a_background_that_a_phone_turned_stands_as_a_person_sees_it(tmp_path: Path) -> None:
    turned = snapshot("turned", orientation=6)
    place = as_folder(tmp_path / "walls", {"0.jpg": turned, "1.png": pixels.upright(turned, "0.jpg")})
    pool, whole = backgrounds.find(str(place)).pool(36), pixels.RelativeBox(0, 0, 1, 1)
    one, other = (pool.picture(Draw(index, whole, flip=False), 36) for index in (0, 1))
    np.testing.assert_array_equal(one, other)


def test_backgrounds_are_generated_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BGBIAS_CACHE", str(tmp_path))
    monkeypatch.setattr(backgrounds, "DRAWN", {"gradients": 2})
    monkeypatch.setattr(generated, "pictures", draw := Mock(wraps=generated.pictures))
    first = backgrounds.find(None)
    assert backgrounds.find(None) == first
    assert draw.call_count == 1
    # A damaged file, and a place where nothing can be kept, cost the drawing, and nothing else.
    [kept] = tmp_path.rglob("*.zip")
    data = kept.read_bytes()
    for damaged in (data[:-30], data.replace(b"IDAT", b"TADI")):
        kept.write_bytes(damaged)
        assert backgrounds.find(None) == first
    (tmp_path / "wall.png").touch()
    monkeypatch.setenv("BGBIAS_CACHE", str(tmp_path / "wall.png"))
    assert backgrounds.find(None) == first
    assert draw.call_count == 4
    with pytest.raises(UserError, match=r"is one picture; name the folder that holds it"):
        backgrounds.find(str(tmp_path / "wall.png"))


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
    assert ("mean (0.485" in plain.guesses, "mean" in told.guesses) == (True, False)
    with pytest.raises(UserError, match="has no value"):
        masker.parse_options(["mean"])
    with pytest.raises(UserError, match=r"--mask-option: unknown key 'maskers\.grabcut\.mean'"):
        masker.check("grabcut", None, options)
    with pytest.raises(UserError, match=r"--mask-option: .*maskers\.onnx\.mean"):
        masker.check("onnx", net, {"mean": 0.5})


def test_missing_and_wrong_weights_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    wrong = tmp_path / "wrong.safetensors"
    save_file({"stage1.weight": torch.zeros(3)}, wrong)
    with pytest.raises(UserError, match=r"wrong\.safetensors.* Correct --mask-weights\.$"):
        masker.load(masker.find("u2netp", wrong, "cpu"))


def test_graphs_mask_from_file_cache_or_shared_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
