"""Encoders of MTEB embed as its own image tasks ask them to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from brought_models import assert_equal, ours, photos
from PIL import Image as Pillow
from small_transformers import clip_folder

from bgbias.errors import UserError
from bgbias.models.adapters import Options, load

CPU = Options(device="cpu")


def asked(model: Any) -> np.ndarray:
    """The photos' vectors, as a task of MTEB gets them."""
    import mteb
    from datasets import Dataset, Image
    from mteb._create_dataloaders import create_dataloader

    task = mteb.get_task("CIFAR10Clustering").metadata
    pictures = Dataset.from_dict({"image": [Pillow.fromarray(p) for p in photos()]}).cast_column(
        "image", Image()
    )
    batches = create_dataloader(pictures, task_metadata=task, input_column="image", batch_size=2)
    found = model.encode(batches, task_metadata=task, hf_split="test", hf_subset="default")
    return np.asarray(found, np.float32)


def test_vectors_are_those_that_a_task_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mteb.models.model_implementations.clip_models import CLIPModel

    model = CLIPModel(str(clip_folder(tmp_path)), revision=None, device="cpu")
    monkeypatch.setattr("mteb.get_model", lambda name, device: model)
    # Its processor's resize by torchvision is up to a grey level beside Pillow's.
    for found in (load("mteb:openai/clip-vit-base-patch32", CPU), load(model)):
        assert_equal(ours(found), asked(model), 0.2)
        assert (found.look.size, found.look.resize) == (32, 36)


class Colours:
    """An encoder of somebody's own, by the protocol alone."""

    def encode(
        self, inputs: Any, *, task_metadata: Any, hf_split: str, hf_subset: str, **more: Any
    ) -> np.ndarray:
        assert task_metadata.modalities == ["image"]
        assert "image" in inputs.dataset.features
        return np.array([np.asarray(p).mean((0, 1)) for batch in inputs for p in batch["image"]])


def test_an_encoder_by_the_protocol_is_taken_at_hand() -> None:
    found = load(Colours(), Options(size=32, resize=40))
    expected = [found.look(photo).mean((0, 1)) for photo in photos()]
    assert_equal(ours(found), np.array(expected, np.float32))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("mteb:openai/clip-vit-base-patch23", "no model of MTEB .*Did you mean openai/clip-vit-base-patch32"),
        ("mteb:intfloat/e5-small", "embeds text, no images. Those that do: python -c"),
        (
            "mteb:facebook/dinov2-small",
            r"could not be fetched from https://huggingface.co/facebook/dinov2-small",
        ),
    ],
)
def test_models_that_cannot_be_are_told(spec: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=said):
        load(spec, CPU)
