"""A small random model of each kind that somebody can bring, beside what its own library makes of the same photos."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from brought_models import photos, randomised, saved, theirs
from onnx import TensorProto, helper, numpy_helper
from PIL.Image import Image as Picture
from PIL.Image import fromarray
from small_transformers import KINDS, clip_folder, saved_folder
from torch import nn
from torchvision.transforms import CenterCrop, Compose, Normalize, Resize, ToTensor

from bgbias import seeds
from bgbias.models.adapters import Adapted, Options, load

CPU = Options(device="cpu")
SMALL = Options(size=32, device="cpu")
IMAGENET = Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
# transformers' own resize by torchvision is up to a grey level beside Pillow's.
GREY_LEVEL = 0.2


@dataclass(frozen=True)
class Case:
    """A loaded model, the photos' vectors as its library makes them, and the difference that is rounding."""

    model: Adapted
    expected: np.ndarray
    share: float = 1e-3


Made = Callable[[Path], Case]


def usual(side: int, normalise: Any = IMAGENET) -> Compose:
    """Photos as torchvision prepares them for a network that says nothing of its training."""
    return Compose([Resize(side * 256 // 224), CenterCrop(side), ToTensor(), normalise])


def small_network() -> nn.Module:
    return randomised(nn.Sequential(nn.Conv2d(3, 6, 8, 8), nn.ReLU(), nn.Flatten(), nn.Linear(96, 5)))


def given_last(network: nn.Module, last: str) -> Callable[..., torch.Tensor]:
    """What a network gives its last layer, caught on its way."""

    def run(*given: Any, **named: Any) -> torch.Tensor:
        caught: list[torch.Tensor] = []
        layer = network.get_submodule(last)
        handle = layer.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0]))
        network(*given, **named)
        handle.remove()
        return caught[0]

    return run


# Zoos.


def of_timm(name: str, options: dict[str, Any] | None = None, **create: Any) -> Made:
    """By name, from a file of weights; by ``create``, a network at hand."""

    def made(folder: Path) -> Case:
        import timm

        network = randomised(timm.create_model(name, **create))
        if create.get("pretrained_cfg_overlay"):
            model = load(network, CPU)
        else:
            weights = saved(network, folder / "w.pth")
            model = load(f"timm:{name}", Options(weights=weights, device="cpu", **options or {}))
        if size := (options or {}).get("size"):
            network.set_input_size((size, size))
        network.reset_classifier(0)
        config = timm.data.resolve_data_config({"img_size": size} if size else {}, model=network)
        return Case(model, theirs(timm.data.create_transform(**config), network))

    return made


def of_torchvision(name: str, last: str) -> Made:
    def made(folder: Path) -> Case:
        from torchvision import models

        network = randomised(models.get_model(name))
        weights = saved(network, folder / "w.pth")
        model = load(f"torchvision:{name}", Options(weights=weights, device="cpu"))
        transforms = models.get_model_weights(name).DEFAULT.transforms()
        return Case(model, theirs(transforms, given_last(network, last)))

    return made


TOWER = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {"context_length": 8, "vocab_size": 50, "width": 32, "heads": 2, "layers": 1},
}


def encode_by_open_clip(network: Any, **config: Any) -> np.ndarray:
    """Through OpenCLIP's own transform and ``encode_image``."""
    from open_clip.transform import PreprocessCfg, image_transform_v2

    prepare = image_transform_v2(PreprocessCfg(**network.visual.preprocess_cfg | config), is_train=False)
    return theirs(prepare, network.encode_image)


def of_open_clip(folder: Path) -> Case:
    """A folder of the hub's form."""
    import open_clip

    colours = {"mean": [0.5, 0.4, 0.3], "std": [0.3, 0.2, 0.1]}
    described = {"model_cfg": TOWER, "preprocess_cfg": colours}
    (folder / "open_clip_config.json").write_text(json.dumps(described))
    network = randomised(open_clip.CLIP(**TOWER))
    torch.save(network.state_dict(), folder / "open_clip_pytorch_model.bin")
    model = load(f"open_clip:local-dir:{folder}", CPU)
    network = open_clip.create_model(f"local-dir:{folder}").eval()
    return Case(model, encode_by_open_clip(network))


# The hub's libraries.


def pictures() -> list[Picture]:
    return [fromarray(photo) for photo in photos()]


def of_transformers(kind: str) -> Made:
    """A folder as people save it; the features are what the model's own page calls its embedding, and of classifiers what their
    last layer is given.
    """

    def features(network: Any, x: torch.Tensor) -> torch.Tensor:
        if kind in ("clip", "siglip"):
            return network.get_image_features(pixel_values=x).pooler_output
        if kind in ("clip_vision", "dinov2"):
            output = network(pixel_values=x)
            return output.image_embeds if kind == "clip_vision" else output.pooler_output
        return given_last(network, "classifier")(pixel_values=x)

    def made(folder: Path) -> Case:
        from transformers import AutoImageProcessor

        network = saved_folder(kind, folder)
        processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
        with torch.no_grad():
            expected = features(network, processor(images=pictures(), return_tensors="pt")["pixel_values"])
        return Case(load(f"transformers:{folder}", CPU), expected.numpy())

    return made


def of_sentence_transformers(folder: Path) -> Case:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(clip_folder(folder)), device="cpu")
    expected = model.encode(pictures())
    return Case(load(f"sentence-transformers:{folder}", CPU), expected, GREY_LEVEL)


def of_mteb(folder: Path) -> Case:
    """As a task of MTEB asks for embeddings."""
    import mteb
    from datasets import Dataset, Image
    from mteb._create_dataloaders import create_dataloader
    from mteb.models.model_implementations.clip_models import CLIPModel

    model = CLIPModel(str(clip_folder(folder)), revision=None, device="cpu")
    task = mteb.get_task("CIFAR10Clustering").metadata
    images = Dataset.from_dict({"image": pictures()}).cast_column("image", Image())
    batches = create_dataloader(images, task_metadata=task, input_column="image", batch_size=2)
    expected = model.encode(batches, task_metadata=task, hf_split="test", hf_subset="default")
    return Case(load(model), np.asarray(expected, np.float32), GREY_LEVEL)


# Files of whole networks.

KERNEL = seeds.generator("onnx").normal(size=(6, 3, 8, 8)).astype(np.float32)


def graph(
    path: Path,
    shape: tuple[int | str, ...] = ("batch", 3, 32, 32),
    kind: str = "FLOAT",
    outputs: tuple[str, ...] = ("vectors",),
    inputs: tuple[str, ...] = ("pixels",),
) -> str:
    """A convolution and the mean of its map, written as ONNX; ``kind``: of the input's numbers."""
    order = [0, 3, 1, 2] if shape[-1] == 3 else [0, 1, 2, 3]
    nodes = [
        helper.make_node("Cast", [inputs[0]], ["as_float"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["as_float"], ["channels_first"], perm=order),
        helper.make_node("Conv", ["channels_first", "kernel"], ["map"], strides=[8, 8]),
        helper.make_node("GlobalAveragePool", ["map"], ["pooled"]),
        *(helper.make_node("Flatten", ["pooled"], [name]) for name in outputs if name != "map"),
    ]
    made = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info(name, TensorProto.DataType.Value(kind), shape) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(KERNEL, "kernel")],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return str(path)


def pooled_kernel(x: torch.Tensor) -> torch.Tensor:
    """What ``graph`` computes."""
    return nn.functional.conv2d(x, torch.from_numpy(KERNEL), stride=8).mean((2, 3))


def of_onnx(
    shape: tuple[int | str, ...] = ("batch", 3, 32, 32),
    normalise: Any = IMAGENET,
    options: Options = CPU,
    side: int = 32,
    **facts: Any,
) -> Made:
    def made(folder: Path) -> Case:
        model = load(graph(folder / "model.onnx", shape, **facts), options)
        return Case(model, theirs(usual(side, normalise), pooled_kernel))

    return made


def scripted(folder: Path) -> str:
    torch.jit.save(torch.jit.trace(small_network(), torch.zeros(2, 3, 32, 32)), folder / "model.pt")
    return f"torchscript:{folder / 'model.pt'}"


def exported(folder: Path, pictures: int = 1, any_number: bool = False) -> Path:
    dims = ({0: torch.export.Dim("batch")},) if any_number else None
    made = torch.export.export(small_network(), (torch.zeros(pictures, 3, 32, 32),), dynamic_shapes=dims)
    torch.export.save(made, folder / "model.pt2")
    return folder / "model.pt2"


def in_mlflow(folder: Path, form: Any) -> str:
    import mlflow

    mlflow.pytorch.save_model(
        small_network(),
        str(folder / "model"),
        serialization_format=form,
        input_example=np.zeros((1, 3, 32, 32), np.float32),
        pip_requirements=[],
    )
    return f"mlflow:{folder / 'model'}"


def of_small_network(save: Callable[[Path], object], options: Options = SMALL) -> Made:
    """As ``save`` leaves it in a folder, or at hand."""
    return lambda folder: Case(load(save(folder), options), theirs(usual(32), small_network()))


# Ours, and somebody's own.


def run_file(folder: Path) -> Path:
    from bgbias.models.backbones.tiny import Params
    from bgbias.models.model import build_model, save

    model = build_model("tiny", Params(), 16, seeds.torch_generator("golden"))
    save(randomised(model), folder / "model.safetensors")
    return folder / "model.safetensors"


def of_run(folder: Path) -> Case:
    """As the workflow's own evaluation embeds photos, bit for bit."""
    from bgbias.evaluation.embedder import Embedder

    file = run_file(folder)
    return Case(load(file, CPU), Embedder(file, "cpu").embed(photos()), 1e-12)


def of_function(folder: Path) -> Case:
    def means(batch: list[np.ndarray]) -> list[np.ndarray]:
        return [picture.mean((0, 1)) for picture in batch]

    model = load(means, Options(size=32))
    return Case(model, np.float32(means([model.look(photo) for photo in photos()])))


SQUASHED = {"crop_mode": "squash", "crop_pct": 0.9, "interpolation": "bilinear", "mean": (0.4, 0.5, 0.6)}
# By its library and what it is, how a model is made.
BY_LIBRARY: dict[str, dict[str, Made]] = {
    # Centre crop and squash with a crop behind it, bilinear and bicubic, class token and mean, ImageNet's colours and others.
    "timm": {
        "timm": of_timm("test_vit.r160_in1k"),
        "timm, another size": of_timm("test_vit.r160_in1k", {"size": 96}),
        "timm, mean": of_timm("test_vit.r160_in1k", {"pooling": "mean"}, global_pool="avg"),
        "timm, bilinear": of_timm("test_resnet.r160_in1k"),
        "timm, squashed": of_timm("test_nfnet.r160_in1k", pretrained_cfg_overlay=SQUASHED),
    },
    "torchvision": {
        "torchvision": of_torchvision("mobilenet_v3_small", "classifier.3"),
        "torchvision, fc": of_torchvision("shufflenet_v2_x0_5", "fc"),
        "torchvision, bicubic": of_torchvision("efficientnet_b0", "classifier.1"),
    },
    "open_clip": {"open_clip": of_open_clip},
    "transformers": {kind: of_transformers(kind) for kind in KINDS},
    "sentence_transformers": {"sentence_transformers": of_sentence_transformers},
    "mteb": {"mteb": of_mteb},
    "onnxruntime": {
        "onnx": of_onnx(),
        "onnx, alone": of_onnx((1, 3, 32, 32)),
        "onnx, channels last": of_onnx(("batch", 32, 32, 3)),
        "onnx, any size": of_onnx(("batch", 3, "height", "width"), options=Options(size=40), side=40),
        "onnx, grey levels": of_onnx(normalise=lambda x: 255 * x, kind="UINT8"),
    },
    "mlflow": {
        "mlflow": of_small_network(lambda folder: in_mlflow(folder, "pickle")),
        "mlflow, exported": of_small_network(lambda folder: in_mlflow(folder, "pt2")),
    },
    "torch": {
        "torchscript": of_small_network(scripted),
        "exported": of_small_network(exported, CPU),
        "exported, any number": of_small_network(lambda folder: exported(folder, 2, any_number=True), CPU),
        "run": of_run,
        "network": of_small_network(lambda _: small_network()),
        "function": of_function,
    },
}
CASES = {name: (library, make) for library, rows in BY_LIBRARY.items() for name, make in rows.items()}
WITHOUT_GRADIENTS = ("sentence_transformers", "mteb", "onnx", "function")
