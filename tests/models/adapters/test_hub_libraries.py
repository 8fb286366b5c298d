"""Models of transformers, sentence-transformers and MTEB: what beside photos (test_contract.py) decides their vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from adapter_cases import CPU
from brought_models import assert_equal, ours, photos, saved
from PIL import Image
from small_transformers import clip_folder, saved_folder

from bgbias.errors import UserError
from bgbias.models.adapters import Adapted, Options, load


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


# With and without a projection.
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
    filled = load(f"transformers:{tmp_path / 'other'}", Options(weights=weights, device="cpu"))
    assert_equal(ours(filled), ours(by_name), 1e-2)
    if kind == "clip":
        unprojected = load(f"transformers:{tmp_path / 'hers'}", Options(pooling="cls", device="cpu"))
        assert "without CLIP's projection" in unprojected.notes[1]


@pytest.fixture
def vit(tmp_path: Path) -> Path:
    saved_folder("vit", tmp_path)
    return tmp_path


def tokens(model: Adapted, folder: Path, **more: bool) -> torch.Tensor:
    from transformers import ViTModel

    network = ViTModel.from_pretrained(folder, add_pooling_layer=False).eval()
    x = torch.from_numpy(np.stack([model.look(p) for p in photos()])).permute(0, 3, 1, 2) / 127.5 - 1
    with torch.no_grad():
        return network(pixel_values=x, **more).last_hidden_state


def test_pooling_and_size_can_be_chosen(vit: Path) -> None:
    mean = load(f"transformers:{vit}", Options(pooling="mean", device="cpu"))
    assert_equal(ours(mean), tokens(mean, vit).mean(1).numpy())
    larger = load(f"transformers:{vit}", Options(size=48, device="cpu"))
    assert larger.look.size == 48
    assert_equal(ours(larger), tokens(larger, vit, interpolate_pos_encoding=True)[:, 0].numpy())


def test_a_folder_that_lacks_its_processor_or_a_layer_or_does_more_than_crop_says_so(vit: Path) -> None:
    from transformers import EfficientNetImageProcessor, ViltImageProcessor

    for processor, words in (
        (
            EfficientNetImageProcessor(size={"height": 32, "width": 32}),
            "does more to photos than both sides 32",
        ),
        (ViltImageProcessor(size={"shortest_edge": 32}), "photos of any shape"),
    ):
        processor.save_pretrained(vit)
        with pytest.raises(UserError, match=words):
            load(f"transformers:{vit}", CPU)
    (vit / "preprocessor_config.json").unlink()
    found = load(f"transformers:{vit}", CPU)
    assert found.look.size == 32
    assert "ImageNet defaults, because the model specifies none" in found.notes[0]
    assert "give --mean, --std of its training" in found.guesses[0]
    config = (vit / "config.json").read_text()
    (vit / "config.json").write_text(config.replace('"num_hidden_layers": 2', '"num_hidden_layers": 3'))
    with pytest.raises(UserError, match=r"lacks 16 of its network's tensors .*, which would be random"):
        load(f"transformers:{vit}", CPU)


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
    with pytest.raises(UserError, match="embeds text, no images; choose another one"):
        load(SentenceTransformer(modules=[BoW(["mug", "house"])]), CPU)


class Colours:
    """An encoder of somebody's own, by MTEB's protocol alone."""

    def encode(
        self, inputs: Any, *, task_metadata: Any, hf_split: str, hf_subset: str, **more: Any
    ) -> np.ndarray:
        assert task_metadata.modalities == ["image"]
        assert "image" in inputs.dataset.features
        return np.array([np.asarray(p).mean((0, 1)) for batch in inputs for p in batch["image"]])


def test_an_encoder_by_the_protocol_is_taken_at_hand_and_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mteb.get_model", lambda name, device: Colours())
    for encoder in (Colours(), "mteb:openai/clip-vit-base-patch32"):
        found = load(encoder, Options(size=32, resize=40))
        expected = [found.look(photo).mean((0, 1)) for photo in photos()]
        assert_equal(ours(found), np.array(expected, np.float32))
