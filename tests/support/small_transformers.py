"""Vision models of transformers, small and random, with the image processors that go with them."""

import json
from pathlib import Path
from typing import Any

from brought_models import randomised

LAYERS = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
VISION = {**LAYERS, "image_size": 32, "patch_size": 8}
TOKENS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
TEXT = {**LAYERS, **TOKENS, "vocab_size": 50, "max_position_embeddings": 8}
BOTH = {"vision_config": VISION, "text_config": TEXT}
PROJECTED = {"projection_dim": 16}
STAGES = {"hidden_sizes": [8, 8, 16, 32], "depths": [1, 1, 1, 1]}
NECKS = {
    "hidden_sizes": [8] * 3,
    "neck_hidden_sizes": [*[8] * 6, 16],
    "num_attention_heads": 2,
    "image_size": 32,
}
CROP = {"size": {"shortest_edge": 36}, "crop_size": {"height": 32, "width": 32}}
EDGE = {"size": {"shortest_edge": 32}}
SQUARE = {"size": {"height": 32, "width": 32}}
# The network and its configuration, and the image processor and its own.
KINDS: dict[str, tuple[str, dict[str, Any], str, dict[str, Any]]] = {
    "clip": ("CLIPModel", BOTH | PROJECTED, "CLIPImageProcessor", CROP),
    "siglip": ("SiglipModel", BOTH, "SiglipImageProcessor", SQUARE),
    "clip_vision": ("CLIPVisionModelWithProjection", VISION | PROJECTED, "CLIPImageProcessor", CROP),
    "dinov2": ("Dinov2Model", VISION, "BitImageProcessor", CROP),
    "vit": ("ViTForImageClassification", VISION, "ViTImageProcessor", SQUARE),
    "convnext": ("ConvNextForImageClassification", STAGES, "ConvNextImageProcessor", EDGE),
    # It looks at colours in the order B, G, R.
    "mobilevit": ("MobileViTForImageClassification", NECKS, "MobileViTImageProcessor", CROP),
    # Its tokens, none of which stands for the class, are averaged.
    "ijepa": ("IJepaForImageClassification", VISION, "ViTImageProcessor", SQUARE),
}


def built(kind: str) -> tuple[Any, Any]:
    """A small network and the image processor that goes with its kind."""
    import transformers

    name, config, processor, sizes = KINDS[kind]
    network = getattr(transformers, name)
    return network(network.config_class(**config)), getattr(transformers, processor)(**sizes)


def saved_folder(kind: str, folder: Path, which: int = 0) -> Any:
    """Both as people save them; the network. ``which``: of the weights."""
    network, processor = built(kind)
    randomised(network, which).save_pretrained(folder)
    processor.save_pretrained(folder)
    return network


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
