"""Vision models of transformers, small and random, with the image processors that go with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from brought_models import randomised

TOWER = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
SEEN = {"image_size": 32, "patch_size": 8}
TEXT = {
    **TOWER,
    "vocab_size": 50,
    "max_position_embeddings": 8,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
}


def built(kind: str) -> tuple[Any, Any]:
    """A small network and the image processor that goes with its kind."""
    import transformers as t

    crop = {"size": {"shortest_edge": 36}, "crop_size": {"height": 32, "width": 32}}
    square = {"size": {"height": 32, "width": 32}}
    config: Any
    if kind == "clip":
        config = t.CLIPConfig(vision_config={**TOWER, **SEEN}, text_config=TEXT, projection_dim=16)
        return t.CLIPModel(config), t.CLIPImageProcessor(**crop)
    if kind == "siglip":
        config = t.SiglipConfig(vision_config={**TOWER, **SEEN}, text_config=TEXT)
        return t.SiglipModel(config), t.SiglipImageProcessor(**square)
    if kind == "clip_vision":
        config = t.CLIPVisionConfig(**TOWER, **SEEN, projection_dim=16)
        return t.CLIPVisionModelWithProjection(config), t.CLIPImageProcessor(**crop)
    if kind == "dinov2":
        return t.Dinov2Model(t.Dinov2Config(**TOWER, **SEEN)), t.BitImageProcessor(**crop)
    if kind == "vit":
        return t.ViTForImageClassification(t.ViTConfig(**TOWER, **SEEN)), t.ViTImageProcessor(**square)
    if kind == "mobilevit":  # it looks at colours in the order B, G, R
        config = t.MobileViTConfig(
            image_size=32,
            hidden_sizes=[8, 8, 8],
            neck_hidden_sizes=[8, 8, 8, 8, 8, 8, 16],
            num_attention_heads=2,
        )
        return t.MobileViTForImageClassification(config), t.MobileViTImageProcessor(**crop)
    if kind == "ijepa":  # tokens, none of which stands for the class
        return t.IJepaForImageClassification(t.IJepaConfig(**TOWER, **SEEN)), t.ViTImageProcessor(**square)
    config = t.ConvNextConfig(hidden_sizes=[8, 8, 16, 32], depths=[1, 1, 1, 1])
    return t.ConvNextForImageClassification(config), t.ConvNextImageProcessor(size={"shortest_edge": 32})


def clip_folder(folder: Path) -> Path:
    """A CLIP with its tokenizer of two letters, as libraries that embed texts too want it."""
    from transformers import CLIPProcessor, CLIPTokenizer

    network, processor = built("clip")
    randomised(network).save_pretrained(folder)
    words = ["<|startoftext|>", "<|endoftext|>", "a</w>", "b</w>", "a", "b"]
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    tokenizer = CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    CLIPProcessor(processor, tokenizer).save_pretrained(folder)
    return folder
