"""Each kind of adapter embeds a fixed photo, by fixed random weights, as it did when these numbers were written.

A changed preparation, another layer or another order of channels moves them. Only a deliberate correction changes them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from brought_models import photos, randomised, saved
from small_transformers import built, clip_folder
from torch import nn

from bgbias import seeds
from bgbias.models.adapters import Adapted, Options, load

CPU = Options(device="cpu")
SMALL = Options(size=32, device="cpu")


def network() -> nn.Module:
    return randomised(nn.Sequential(nn.Conv2d(3, 6, 8, 8), nn.ReLU(), nn.Flatten(), nn.Linear(96, 5)))


def by_timm(folder: Path) -> Adapted:
    import timm

    weights = saved(randomised(timm.create_model("test_vit.r160_in1k", num_classes=0)), folder / "w.pth")
    return load("timm:test_vit.r160_in1k", Options(weights=weights, device="cpu"))


def by_torchvision(folder: Path) -> Adapted:
    from torchvision import models

    weights = saved(randomised(models.mobilenet_v3_small()), folder / "w.pth")
    return load("torchvision:mobilenet_v3_small", Options(weights=weights, device="cpu"))


def by_open_clip(folder: Path) -> Adapted:
    import json

    import open_clip

    vision = {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8}
    text = {"context_length": 8, "vocab_size": 50, "width": 32, "heads": 2, "layers": 1}
    config = {"embed_dim": 16, "vision_cfg": vision, "text_cfg": text}
    described = {"model_cfg": config, "preprocess_cfg": {"mean": [0.5, 0.4, 0.3], "std": [0.3, 0.2, 0.1]}}
    (folder / "open_clip_config.json").write_text(json.dumps(described))
    model = randomised(open_clip.CLIP(**config))
    torch.save(model.state_dict(), folder / "open_clip_pytorch_model.bin")
    return load(f"open_clip:local-dir:{folder}", CPU)


def by_transformers(kind: str) -> Callable[[Path], Adapted]:
    def made(folder: Path) -> Adapted:
        model, processor = built(kind)
        randomised(model).save_pretrained(folder)
        processor.save_pretrained(folder)
        return load(f"transformers:{folder}", CPU)

    return made


def by_sentence_transformers(folder: Path) -> Adapted:
    return load(f"sentence-transformers:{clip_folder(folder)}", CPU)


def by_mteb(folder: Path) -> Adapted:
    from mteb.models.model_implementations.clip_models import CLIPModel

    return load(CLIPModel(str(clip_folder(folder)), revision=None, device="cpu"))


def by_onnx(folder: Path) -> Adapted:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    kernel = seeds.generator("onnx").normal(size=(6, 3, 8, 8)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["pixels", "kernel"], ["map"], strides=[8, 8]),
        helper.make_node("GlobalAveragePool", ["map"], ["vectors"]),
    ]
    entry = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ("batch", 3, 32, 32))
    vectors = helper.make_tensor_value_info("vectors", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        nodes, "encoder", [entry], [vectors], [numpy_helper.from_array(kernel, "kernel")]
    )
    imports = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=9), folder / "model.onnx")
    return load(folder / "model.onnx", CPU)


def by_torchscript(folder: Path) -> Adapted:
    torch.jit.save(torch.jit.trace(network(), torch.zeros(2, 3, 32, 32)), folder / "model.pt")
    return load(f"torchscript:{folder / 'model.pt'}", SMALL)


def by_exported(folder: Path) -> Adapted:
    program = torch.export.export(network(), (torch.zeros(1, 3, 32, 32),))
    torch.export.save(program, folder / "model.pt2")
    return load(folder / "model.pt2", CPU)


def by_mlflow(folder: Path) -> Adapted:
    import mlflow

    mlflow.pytorch.save_model(
        network(), str(folder / "model"), serialization_format="pickle", pip_requirements=[]
    )
    return load(f"mlflow:{folder / 'model'}", SMALL)


def by_run(folder: Path) -> Adapted:
    from bgbias.models.backbones.tiny import Params
    from bgbias.models.model import build_model, save

    model = build_model("tiny", Params(), 16, seeds.torch_generator("golden"))
    save(randomised(model), folder / "model.safetensors")
    return load(folder / "model.safetensors", CPU)


MADE: dict[str, tuple[str, Callable[[Path], Adapted]]] = {
    "timm": ("timm", by_timm),
    "torchvision": ("torchvision", by_torchvision),
    "open_clip": ("open_clip", by_open_clip),
    "clip": ("transformers", by_transformers("clip")),
    "vit": ("transformers", by_transformers("vit")),
    "convnext": ("transformers", by_transformers("convnext")),
    "sentence_transformers": ("sentence_transformers", by_sentence_transformers),
    "mteb": ("mteb", by_mteb),
    "onnx": ("onnxruntime", by_onnx),
    "torchscript": ("torch", by_torchscript),
    "exported": ("torch", by_exported),
    "mlflow": ("mlflow", by_mlflow),
    "run": ("torch", by_run),
    "network": ("torch", lambda _: load(network(), SMALL)),
    "function": ("torch", lambda _: load(lambda batch: [p.mean((0, 1)) for p in batch], Options(size=32))),
}
# The photo's unit vector along four fixed directions.
GOLDEN = {
    "timm": [0.201179, 0.342065, -0.468943, -0.757038],
    "torchvision": [2.373399, 0.200867, 0.639947, -0.135288],
    "open_clip": [2.239553, 0.151143, 0.507192, -0.573608],
    "clip": [-0.776218, -0.922992, 0.139292, 1.244005],
    "vit": [-2.346408, 0.201025, 0.867211, 1.371825],
    "convnext": [-2.105109, 0.77729, -1.055924, 0.537127],
    "sentence_transformers": [-0.776218, -0.922991, 0.139293, 1.244005],
    "mteb": [-0.776218, -0.922991, 0.139293, 1.244005],
    "onnx": [-0.551536, -0.304632, -0.198543, -2.01371],
    "torchscript": [1.156499, -0.295738, -0.464569, -1.419679],
    "exported": [1.156499, -0.295738, -0.464569, -1.419679],
    "mlflow": [1.156499, -0.295738, -0.464569, -1.419679],
    "run": [-0.630187, 0.388067, -0.437306, -0.502416],
    "network": [1.156499, -0.295738, -0.464569, -1.419679],
    "function": [0.52075, 1.556056, 0.529493, -0.631854],
}


def fingerprint(model: Adapted, shift: int = 0) -> np.ndarray:
    """float64 [4] of a photo that is not square; ``shift``: columns by which it is moved."""
    photo = np.roll(photos()[1], shift, axis=1)
    vector = model.embed(model.look(photo)[None])[0].astype(np.float64)
    directions: Any = seeds.generator("golden directions").normal(size=(4, model.dim))
    return directions @ vector / np.linalg.norm(vector)


@pytest.mark.parametrize("kind", MADE)
def test_a_photo_is_embedded_as_ever(kind: str, tmp_path: Path) -> None:
    library, made = MADE[kind]
    pytest.importorskip(library)
    model = made(tmp_path)
    np.testing.assert_allclose(fingerprint(model), GOLDEN[kind], atol=1e-4)
    moved = np.abs(fingerprint(model, shift=1) - GOLDEN[kind]).max()
    assert moved > 1e-3 or kind == "function", "one column of pixels is noticed"
