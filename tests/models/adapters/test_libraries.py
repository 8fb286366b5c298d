"""Models of libraries, and weights as trainings leave them: what beside photos (test_contract.py) decides vectors."""

import importlib
import json
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import timm
import torch
from adapter_cases import CPU, TOWER, encode_by_open_clip
from brought_models import assert_equal, ours, photos, randomised, saved
from miniatures import as_folder
from PIL import Image
from safetensors.torch import save_file
from small_transformers import clip_folder, saved_folder
from torch import nn
from torchvision import models

from bgbias.errors import UserError
from bgbias.models.adapters import Adapted, Options, load
from bgbias.models.adapters._network import fill


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


# timm and torchvision.


def by(weights: Path, **options: Any) -> Options:
    return Options(weights=weights, device="cpu", **options)


def test_an_object_of_timm_is_prepared_as_its_configuration_says(tmp_path: Path) -> None:
    network = randomised(timm.create_model("test_vit.r160_in1k"))
    network.train()
    found = load(network, CPU)
    by_name = load("timm:test_vit.r160_in1k", by(saved(network, tmp_path / "w.pth")))
    assert_equal(ours(found), ours(by_name))
    assert found.look == by_name.look
    assert not found.guesses, "timm specifies everything"
    assert network.training, "the network that was handed over is as it was"
    assert network.get_classifier().out_features == 1000
    # One of several weights of torchvision brings its own preparation.
    weights = saved(models.mobilenet_v2(), tmp_path / "w.pth")
    older = load("torchvision:mobilenet_v2/IMAGENET1K_V1", by(weights))
    assert older.look.resize == 256, "the default ones were trained with 232"
    # A CLIP without its projection is reported.
    network = timm.create_model("vit_xsmall_patch16_clip_224", num_classes=512)
    weights = saved(network, tmp_path / "w.pth")
    found = load("timm:vit_xsmall_patch16_clip_224.tinyclip_yfcc15m", by(weights))
    assert found.dim == network.num_features
    assert any("projection: left out; " in line and "open_clip:<model>/<tag>" in line for line in found.notes)
    assert "activation: GELU" in found.notes


def test_options_of_no_use_are_named(tmp_path: Path) -> None:
    for zoo, name, option, said in (
        (timm.create_model, "levit_128s", {"size": 256}, "has other shapes than .* leave --size out"),
        (timm.create_model, "test_vit.r160_in1k", {"size": 4}, "cannot be fitted to .*or the --size that it"),
        (timm.create_model, "test_resnet.r160_in1k", {"pooling": "cls"}, "cannot be built with global_pool"),
        (models.get_model, "squeezenet1_1", {}, "ends in no linear layer"),
    ):
        weights = saved(zoo(name), tmp_path / "w.pth")
        with pytest.raises(UserError, match=said):
            load(f"{'timm' if zoo is timm.create_model else 'torchvision'}:{name}", by(weights, **option))


# OpenCLIP.

COLOURS = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}


@pytest.fixture
def open_clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The library with a small model, which has two tags: one was trained with QuickGELU, one with other colours and squashed
    photos.
    """
    library = importlib.import_module("open_clip")
    from open_clip import factory, pretrained

    described = {"Small-8": TOWER, "Small-8-quickgelu": {**TOWER, "quick_gelu": True}}
    as_folder(tmp_path / "configs", {f"{n}.json": json.dumps(d).encode() for n, d in described.items()})
    before = list(factory._MODEL_CONFIG_PATHS)
    library.add_model_config(tmp_path / "configs")
    squashed = {"hf_hub": "someone/squashed/", "resize_mode": "squash", "interpolation": "bilinear"}
    quick = {"url": "https://example.org/quick.pt", "quick_gelu": True}
    for name in described:
        tags = {"quick": quick, "squashed": squashed | COLOURS}
        monkeypatch.setitem(pretrained._PRETRAINED, name, tags)
    yield library
    factory._MODEL_CONFIG_PATHS[:] = before
    factory._MODEL_CONFIGS.clear()
    factory._rescan_model_configs()


@pytest.fixture
def tower(open_clip: Any, tmp_path: Path) -> tuple[Any, Path]:
    """The small model, and a checkpoint of it as trainings wrap it."""
    network = randomised(open_clip.create_model("Small-8"))
    return network, saved(network, tmp_path / "w.pt", "module.", ("state_dict",))


def test_a_tag_brings_its_preparation_and_its_activation(open_clip: Any, tower: tuple[Any, Path]) -> None:
    network, weights = tower
    squashed = load("open_clip:Small-8/squashed", by(weights))
    expected = encode_by_open_clip(network, resize_mode="squash", interpolation="bilinear", **COLOURS)
    assert_equal(ours(squashed), expected)
    quick = load("open_clip:Small-8/quick", by(weights))
    other = open_clip.create_model("Small-8-quickgelu")
    other.load_state_dict(network.state_dict())
    assert_equal(ours(quick), encode_by_open_clip(other.eval()))
    assert "activation: QuickGELU, as 'quick' was trained" in quick.notes
    embedding = "encode_image(), the features that are compared with texts (tok pooling, projected)"
    assert embedding in quick.notes[1]
    assert any("tensors of the file are not used" in line for line in quick.notes), "those of the text tower"
    with pytest.raises(UserError, match="trained without QuickGELU; name open_clip:Small-8/squashed"):
        load("open_clip:Small-8-quickgelu/squashed", Options(weights=weights))


def test_an_activation_that_weights_do_not_tell_is_a_guess(open_clip: Any, tower: tuple[Any, Path]) -> None:
    network, weights = tower
    found = load("open_clip:Small-8", by(weights))
    assert_equal(ours(found), encode_by_open_clip(network))
    assert "activation: GELU" in found.notes
    prepared, guess = found.guesses
    assert "do not say how photos are prepared; assumed: what OpenCLIP's configuration says" in prepared
    assert "give --mean, --std of its training" in prepared
    assert any("--mean 0.485" in options for options in found.alternatives)
    assert "w.pt does not tell its activation" in guess
    assert "open_clip:Small-8-quickgelu computes that" in guess
    assert not load("open_clip:Small-8-quickgelu", by(weights, **COLOURS)).guesses
    # Positions of another size are resampled.
    found = load("open_clip:Small-8", by(weights, size=48))
    larger = open_clip.create_model("Small-8", str(weights), force_image_size=48).eval()
    assert_equal(ours(found), encode_by_open_clip(larger))


def test_weights_that_want_quickgelu_are_not_computed_with_gelu(open_clip: Any, tmp_path: Path) -> None:
    """By OpenAI's entries, which only their files have, by the file's name, or by timm's own page of published ones."""
    entries = ("input_resolution", "context_length", "vocab_size")
    theirs, named = tmp_path / "w.pt", tmp_path / "small-quickgelu-laion.pt"
    torch.save({name: torch.tensor(1) for name in entries}, theirs)
    torch.save({"visual.proj": torch.tensor(1)}, named)
    for weights, why in ((theirs, "one of OpenAI's files"), (named, "its name says it")):
        with pytest.raises(UserError, match=f"QuickGELU .*{why}.*name open_clip:Small-8-quickgelu"):
            load("open_clip:Small-8", Options(weights=weights))
        with pytest.raises(UserError, match="name timm:vit_base_patch32_clip_quickgelu_224"):
            load("timm:vit_base_patch32_clip_224", Options(weights=weights))
    with pytest.raises(UserError, match=r"name timm:vit_base_patch32_clip_quickgelu_224.openai"):
        load("timm:vit_base_patch32_clip_224.openai")


# transformers, sentence-transformers and MTEB.


@pytest.mark.parametrize("kind", ["clip", "vit"])
def test_an_object_and_a_files_weights_give_the_vectors_of_the_folder(kind: str, tmp_path: Path) -> None:
    network = saved_folder(kind, tmp_path / "hers")
    by_name = load(f"transformers:{tmp_path / 'hers'}", CPU)
    at_hand = load(type(network).from_pretrained(tmp_path / "hers"), CPU)
    assert at_hand.look == by_name.look
    assert_equal(ours(at_hand), ours(by_name))
    assert any(line.startswith("activation: ") for line in by_name.notes)
    assert ("projected" in by_name.notes[1]) == (kind == "clip")
    # Another network's folder, from which only what it is and its preparation are read.
    weights = saved(network, tmp_path / "w.pth", "module.", ("state_dict",))
    saved_folder(kind, tmp_path / "other", 1)
    (tmp_path / "other" / "model.safetensors").unlink()
    filled = load(f"transformers:{tmp_path / 'other'}", by(weights))
    assert_equal(ours(filled), ours(by_name), 1e-2)
    if kind == "clip":
        unprojected = load(f"transformers:{tmp_path / 'hers'}", Options(pooling="cls", device="cpu"))
        assert "without CLIP's projection" in unprojected.notes[1]


def tokens(model: Adapted, folder: Path, **more: bool) -> torch.Tensor:
    from transformers import ViTModel

    network = ViTModel.from_pretrained(folder, add_pooling_layer=False).eval()
    x = torch.from_numpy(np.stack([model.look(p) for p in photos()])).permute(0, 3, 1, 2) / 127.5 - 1
    with torch.no_grad():
        return network(pixel_values=x, **more).last_hidden_state


def test_pooling_and_size_can_be_chosen(tmp_path: Path) -> None:
    saved_folder("vit", tmp_path)
    mean = load(f"transformers:{tmp_path}", Options(pooling="mean", device="cpu"))
    assert_equal(ours(mean), tokens(mean, tmp_path).mean(1).numpy())
    larger = load(f"transformers:{tmp_path}", Options(size=48, device="cpu"))
    assert larger.look.size == 48
    assert_equal(ours(larger), tokens(larger, tmp_path, interpolate_pos_encoding=True)[:, 0].numpy())


def test_a_folder_that_lacks_its_processor_or_a_layer_or_does_more_than_crop_says_so(tmp_path: Path) -> None:
    from transformers import EfficientNetImageProcessor, ViltImageProcessor

    saved_folder("vit", tmp_path)
    for processor, words in (
        (EfficientNetImageProcessor(size={"height": 32, "width": 32}), "does more to photos than both"),
        (ViltImageProcessor(size={"shortest_edge": 32}), "photos of any shape"),
    ):
        processor.save_pretrained(tmp_path)
        with pytest.raises(UserError, match=words):
            load(f"transformers:{tmp_path}", CPU)
    (tmp_path / "preprocessor_config.json").unlink()
    found = load(f"transformers:{tmp_path}", CPU)
    assert found.look.size == 32
    assert "ImageNet defaults, because the model specifies none" in found.notes[0]
    assert "give --mean, --std of its training" in found.guesses[0]
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"num_hidden_layers": 2', '"num_hidden_layers": 3'))
    with pytest.raises(UserError, match=r"lacks 16 of its network's tensors .*, which would be random"):
        load(f"transformers:{tmp_path}", CPU)


def test_what_is_seen_is_prepared_to_the_end(tmp_path: Path) -> None:
    """The processor would enlarge and crop it once more; to its owner it is as it was."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import BoW

    model = SentenceTransformer(str(clip_folder(tmp_path)), device="cpu")
    found = load(model)
    views = [Image.fromarray(found.look(photo)) for photo in photos()]
    processor = model[0].processor.image_processor
    again = model[0].model.get_image_features(
        processor(views, do_resize=False, do_center_crop=False, return_tensors="pt")["pixel_values"]
    )
    assert_equal(ours(found), again.pooler_output.detach().numpy())
    assert processor.do_resize
    assert processor.do_center_crop
    # Not for want of --size, which its processor says.
    model.encode = Mock(side_effect=ValueError("no such layer"))
    with pytest.raises(UserError, match=r"on a picture of 32 x 32 pixels: ValueError: no such layer\.$"):
        load(model)
    with pytest.raises(UserError, match="embeds text, no images; choose another one"):
        load(SentenceTransformer(modules=[BoW(["mug", "house"])]), CPU)


class Colours:
    """An encoder of somebody's own, by MTEB's protocol alone."""

    def encode(self, inputs: Any, *, task_metadata: Any, **more: Any) -> np.ndarray:
        assert task_metadata.modalities == ["image"]
        assert "image" in inputs.dataset.features
        return np.array([np.asarray(p).mean((0, 1)) for batch in inputs for p in batch["image"]])


def test_an_encoder_by_the_protocol_is_taken_at_hand_and_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mteb.get_model", lambda name, device: Colours())
    for encoder in (Colours(), "mteb:openai/clip-vit-base-patch32"):
        found = load(encoder, Options(size=32, resize=40))
        expected = [found.look(photo).mean((0, 1)) for photo in photos()]
        assert_equal(ours(found), np.array(expected, np.float32))
    monkeypatch.setattr("bgbias.models.adapters._pictures.pick", lambda device: "cuda")
    assert load(encoder, Options(size=32)).device == "cuda"
    monkeypatch.setattr(Colours, "device", "cuda:1", raising=False)
    assert load(Colours(), Options(size=32)).device == "cuda:1"


# Weights: whatever is wrapped around them is taken off and told.


def network() -> nn.Module:
    return nn.Sequential(OrderedDict(conv=nn.Conv2d(3, 4, 3), norm=nn.BatchNorm2d(4)))


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_wrappings_come_off(tmp_path: Path) -> None:
    for prefix, nested, told in (
        ("", (), []),
        ("module.", ("state_dict",), ["'state_dict' of the checkpoint", "'module.' taken off"]),
        ("_orig_mod.", ("model",), ["'model' of the checkpoint", "'_orig_mod.' taken off"]),
        ("module.encoder_q.", ("state_dict",), ["'module.encoder_q.' taken off"]),
        ("backbone.", ("teacher",), ["'teacher' of the checkpoint", "'backbone.' taken off"]),
        ("", ("model", "state_dict"), ["'model' of", "'state_dict' of"]),
    ):
        trained, fresh = network(), network()
        said = fill(fresh, saved(trained, tmp_path / "w.pth", prefix, nested), "mine")
        assert same(trained, fresh)
        assert all(any(part in line for line in said) for part in told)
        assert len(said) == 1 + len(nested) + bool(prefix)


def test_what_is_left_over_and_which_of_several_networks_is_taken_is_told(tmp_path: Path) -> None:
    student, teacher, fresh = network(), network(), network()
    online = {f"online.{k}": v for k, v in student.state_dict().items()}
    whole = online | {"head.weight": torch.zeros(2, 4)}
    save_file(whole, tmp_path / "w.safetensors")
    said = fill(fresh, tmp_path / "w.safetensors", "mine")
    assert same(student, fresh)
    assert said[-1] == "weights: 1 tensors of the file are not used (head.weight)"
    torch.save({"student": student.state_dict(), "teacher": teacher.state_dict()}, tmp_path / "w.pth")
    said = fill(fresh, tmp_path / "w.pth", "mine")
    assert same(teacher, fresh)
    assert "weights: 'teacher' of the checkpoint (not student)" in said
    torch.save(online | {f"momentum.{k}": v for k, v in teacher.state_dict().items()}, tmp_path / "w.pth")
    said = fill(fresh, tmp_path / "w.pth", "mine")
    assert same(student, fresh)
    assert "weights: 'online.' taken off the names (not momentum.)" in said
    # Files that do not fit.
    other = saved(nn.Conv2d(3, 5, 3), tmp_path / "other.pth")
    words = r"other.pth does not hold weights of mine: 'conv.weight' is missing \(and"
    with pytest.raises(UserError, match=words):
        fill(network(), other, "mine")
    wide = nn.Sequential(OrderedDict(conv=nn.Conv2d(3, 4, 5), norm=nn.BatchNorm2d(4)))
    with pytest.raises(UserError, match=r"'conv.weight' is \[4, 3, 5, 5\] where \[4, 3, 3, 3\] is needed"):
        fill(network(), saved(wide, tmp_path / "wide.pth"), "mine")
