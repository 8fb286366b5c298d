"""Does the drop with perfect masks lie where two segmentation models say? ``make docs-mask-range SHARED=...``.

``python docs/results/mask_range.py SHARED`` asks it of the 30 photos of SHARED with hand-drawn masks (three sets, ten each), by
how far an object's embedding moves on another background, since one photo of a class has no MAP@R; and of toys, by the drop.
Networks are of public_models.py, and IS-Net is the one that ``make docs-maskers`` puts into ``data/downloads``.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

import bgbias
from bgbias import plugins, seeds
from bgbias.backgrounds import generated
from bgbias.datasets import toy
from bgbias.files.pictures import is_picture
from bgbias.images import drawn_masks, pixels
from bgbias.masks import pairs, quality
from bgbias.report.pages import markdown
from bgbias.results.publication import note_tables

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path("docs/results/mask_range")
PHOTOS, SHARES, TOYS = (FOLDER / f"{name}.csv" for name in ("photos", "shares", "toys"))
FIRST, DRAWN = "u2netp", "drawn"
SECONDS = {"u2net": "U²-Net", "isnet": "IS-Net", "grabcut": "GrabCut"}
SETS = {"cars196": "Cars196", "cub200": "CUB200", "sop": "SOP"}
BACKGROUNDS = 4
NETWORKS = (
    "MobileNetV1 0.25/128",
    "MobileNetV1 1.0/224",
    "MobileNetV2",
    "MobileNetV2 iNat birds",
    "MobileNetV2 (8 bit)",
)
TOY_CLASSES, EACH, TOY_SIDE, DRAWN_OF_TOYS = 16, 8, 128, 8  # of every eighth toy the mask is drawn
Masks = Mapping[str, np.ndarray]


def masks_of(shared: Path) -> Iterator[tuple[pairs.MaskPair, Masks]]:
    """Photos with the mask of each segmentation model, and the one that is drawn, uint8 [H, W]."""
    made = {}
    for kind, weights in {
        FIRST: shared / "weights/u2netp.safetensors",
        "isnet": ROOT / "data/downloads/isnet.onnx",
        "grabcut": None,
    }.items():
        module = plugins.load("maskers", kind)
        made[kind] = module.build(module.Params(**({"weights": str(weights)} if weights else {})), "cpu")
    for pair in pairs.read_pairs(shared / "hand_masks"):
        published = shared / "hand_masks" / f"{pair.name}_rembg.png"
        masks = {kind: np.asarray(masker([pair.photo])[0].alpha) for kind, masker in made.items()}
        masks["u2net"] = drawn_masks.decode_mask(published.read_bytes(), str(published))
        yield pair, masks | {DRAWN: pair.mask}


def candidates(masks: Masks) -> Masks:
    """The masks whose objects are pasted."""
    found = {name: masks[name] for name in (FIRST, DRAWN)}
    for second in SECONDS:
        found[f"either {second}"] = np.maximum(masks[FIRST], masks[second])
        found[f"both {second}"] = np.minimum(masks[FIRST], masks[second])
    return found


def pasted(photo: np.ndarray, mask: np.ndarray, wall: np.ndarray) -> np.ndarray:
    """The object on a wall uint8 [H', W', 3], which is stretched."""
    behind = np.asarray(Image.fromarray(wall).resize(photo.shape[1::-1]))
    return np.round(behind + (photo * 1.0 - behind) * (mask[..., None] / 255)).astype(np.uint8)


def embedded(model: object, pictures: Iterator[np.ndarray]) -> np.ndarray:
    """Embeddings [N, D] of unit length."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, picture in enumerate(pictures):
            files.append(Path(folder) / f"{number:06}.png")
            files[-1].write_bytes(pixels.encode_png(picture))
        return bgbias.embed(model, list(map(str, files)))


def of_photos(shared: Path) -> Iterator[Path]:
    """By how much the cosine of each photo's composites to it is below 1, with each mask; and whose what is open is."""
    from public_models import models

    masked = list(masks_of(shared))
    with zipfile.ZipFile(shared / "backgrounds_test.zip") as archive:
        names = sorted(filter(is_picture, archive.namelist()))
        walls = {name: pixels.decode(archive.read(name), name) for name in names}
    shares = []
    for pair, masks in masked:
        for second in SECONDS:
            one, other, truth = (masks[name] / 255 for name in (FIRST, second, DRAWN))
            apart = np.abs(one - other)
            agreement = quality.iou(masks[FIRST], masks[second])
            shares.append(
                (pair.group, pair.name, second, agreement, (apart * (truth >= 0.5)).mean(), apart.mean())
            )
    columns = ["group", "photo", "second", "agreement", "of_object", "open"]
    (ROOT / FOLDER).mkdir(exist_ok=True)
    pd.DataFrame(shares, columns=columns).to_csv(ROOT / SHARES, index=False, float_format="%.6f")
    yield SHARES
    chosen = {
        pair.name: seeds.generator("mask range", pair.name).choice(names, BACKGROUNDS, replace=False)
        for pair, _ in masked
    }
    kinds = list(candidates(masked[0][1]))
    lines = []
    for network, load in models(shared).items():
        if network not in NETWORKS:
            continue
        model = load()
        originals = embedded(model, (pair.photo for pair, _ in masked))
        views = (
            pasted(pair.photo, mask, walls[name])
            for pair, masks in masked
            for mask in candidates(masks).values()
            for name in chosen[pair.name]
        )
        found = embedded(model, views).reshape(len(masked), len(kinds), BACKGROUNDS, -1)
        moved = 1 - np.einsum("pkbd,pd->pk", found, originals) / BACKGROUNDS
        for (pair, _), of_photo in zip(masked, moved, strict=True):
            lines += [(network, pair.group, pair.name, *line) for line in zip(kinds, of_photo, strict=True)]
    columns = ["network", "group", "photo", "mask", "moved"]
    pd.DataFrame(lines, columns=columns).to_csv(ROOT / PHOTOS, index=False, float_format="%.6f")
    yield PHOTOS


def of_toys(shared: Path) -> Iterator[Path]:
    """The drop of each network with true masks, and what an audit with two segmentation models says of it."""
    from public_models import models

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_toys(place)
        masks = sorted((place / "masks").rglob("*.png"))
        rows = [
            {
                "image": place / "photos" / mask.relative_to(place / "masks"),
                "label": mask.parent.name,
                "mask": mask,
            }
            for mask in masks
        ]
        table = pd.DataFrame(rows)
        some = table.assign(mask=table["mask"].where(np.arange(len(table)) % DRAWN_OF_TOYS == 0, None))
        how = {"backgrounds": place / "walls", "draws": 2, "attribution": 0, "sample": None}
        networks = {name: load() for name, load in models(shared).items() if name in NETWORKS}
        lines = []
        for network, model in networks.items():
            true = bgbias.audit(table, model, **how).drop.value
            for photos, share in ((table.drop(columns="mask"), "no"), (some, "some")):
                weights = shared / "weights/u2netp.safetensors"
                found = bgbias.audit(photos, model, mask_weights=weights, second_masker="grabcut", **how)
                told = found.numbers["mask_range"]
                ends = [told[name]["value"] for name in ("either", "both", "extrapolated")]
                lines.append((network, share, true, found.drop.value, *ends, told["agreement"]))
    columns = ["network", "drawn", "true", "first", "either", "both", "extrapolated", "agreement"]
    pd.DataFrame(lines, columns=columns).to_csv(ROOT / TOYS, index=False, float_format="%.6f")
    yield TOYS


def write_toys(folder: Path) -> None:
    """``photos/<class>``, ``masks`` and ``walls``."""
    params = toy.Params(
        test_correlation=0.9,
        train_classes=1,
        val_classes=1,
        test_classes=TOY_CLASSES,
        photos_per_class=EACH,
        size=TOY_SIDE,
    )
    for item in toy.items(params):
        if item.split == "test":
            for part, data in (("photos", item.data), ("masks", item.truth)):
                file = folder / part / item.image_id.removeprefix("test/")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data or b"")
    (folder / "walls").mkdir()
    for name, wall in generated.pictures("gradients", 20, "test", TOY_SIDE):
        (folder / "walls" / f"{name}.png").write_bytes(pixels.encode_png(wall))


def extrapolated(group: str, second: str, means: pd.DataFrame, shares: pd.DataFrame) -> float:
    """Over the photos of a set, each at the share of what is open that the other photos' drawn masks say is object."""
    own = shares[(shares["group"] == group) & (shares["second"] == second)].set_index("photo")
    found = []
    for photo in own.index:
        others = own.drop(index=photo)
        share = others["of_object"].sum() / others["open"].sum()
        of = means.loc[photo]
        found.append(share * of[f"either {second}"] + (1 - share) * of[f"both {second}"])
    return float(np.mean(found))


def tables() -> dict[str, str]:
    """The tables as their page shows them."""
    photos, shares = pd.read_csv(ROOT / PHOTOS), pd.read_csv(ROOT / SHARES)
    means = photos.groupby(["group", "photo", "mask"])["moved"].mean().unstack()
    rows = []
    for group, title in SETS.items():
        own = means.loc[group]
        of_set = own.mean()
        for second, name in SECONDS.items():
            mine = shares[(shares["group"] == group) & (shares["second"] == second)]
            low, high = sorted((of_set[f"either {second}"], of_set[f"both {second}"]))
            rows.append(
                {
                    "photos": title,
                    "second model": name,
                    "IoU of the two": f"{mine['agreement'].mean():.2f}",
                    "drawn masks": f"{of_set[DRAWN]:.3f}",
                    "U²-Net-p's": f"{of_set[FIRST]:.3f}",
                    "range": f"{low:.3f} to {high:.3f}",
                    "extrapolated": f"{extrapolated(group, second, own, shares):.3f}",
                }
            )
    toys = pd.read_csv(ROOT / TOYS)
    lines = [
        {
            "network": row.network,
            "true masks": f"{100 * row.true:.0f}",
            "U²-Net-p's": f"{100 * row.first:.0f}",
            "range": f"{100 * min(row.either, row.both):.0f} to {100 * max(row.either, row.both):.0f}",
            "extrapolated": f"{100 * toys.set_index(['network', 'drawn']).loc[(row.network, 'some'), 'extrapolated']:.0f}",
        }
        for row in toys[toys["drawn"] == "no"].itertuples()
    ]
    return {"photos": markdown(pd.DataFrame(rows)), "toys": markdown(pd.DataFrame(lines))}


def measured(shared: Path) -> Iterator[Path]:
    """All files."""
    sys.path.insert(0, str(Path(__file__).parent))
    yield from of_photos(shared)
    yield from of_toys(shared)


if __name__ == "__main__":
    note_tables("mask_range", "make docs-mask-range", measured(Path(sys.argv[1])))
