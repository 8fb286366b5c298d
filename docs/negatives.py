"""Show what methods with negatives of no class keep photos away from: `make docs-negatives`.

``python docs/negatives.py SHARED`` takes photos of groceries (Klasson et al. 2019, MIT) and U²-Net-p's weights from the folder
SHARED, and writes ``docs/negatives.png``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from bgbias import plugins, seeds
from bgbias.files.archives import members
from bgbias.images import pixels
from bgbias.images.contact_sheet import contact_sheet
from bgbias.images.quilting import texture
from bgbias.training import patch_negatives

OUT = Path("docs/negatives.png")
CLASSES = ("23.Pineapple", "28.Bravo-Apple-Juice", "44.Oatly-Natural-Oatghurt")
SHOWN = 3  # of a class's photos by name


def batch(shared: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Photos, float [B, 3, 224, 224] in 0..255, and their masks, [B, 1, 224, 224] in 0..1."""
    inside = sorted(members(shared / "grocery_store.zip", lambda name: name.split("/")[1] in CLASSES))
    ours = [[found for found in inside if found[0].split("/")[1] == wanted][SHOWN] for wanted in CLASSES]
    photos = [
        pixels.centre_crop(pixels.resize_short(pixels.decode(data, name), 224), 224) for name, data in ours
    ]
    masker = plugins.load("maskers", "u2netp")
    masks = masker.build(masker.Params(weights=str(shared / "weights" / "u2netp.safetensors")), "cpu")(photos)
    shares = torch.from_numpy(np.stack([mask.alpha for mask in masks]) / np.float32(255))[:, None]
    return tensor(photos), shares


def tensor(pictures: list[np.ndarray]) -> torch.Tensor:
    """Of pictures uint8 [H, W, 3], float [B, 3, H, W]."""
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).float()


def main(shared: Path) -> None:
    """Write the picture."""
    photos, masks = batch(shared)
    sides, drawn = patch_negatives.Sides(), seeds.torch_generator("negatives shown")
    around = (patch_negatives.SMALLEST, patch_negatives.LARGEST)
    columns = {
        "photo": photos,
        "mask": 255 * masks.expand_as(photos),
        "patch_ns": patch_negatives.patches(photos, sides.smallest, sides.largest, drawn),
        "texture_ns": tensor([texture(p.permute(1, 2, 0).byte().numpy()) for p in photos]),
        "bgneg": patch_negatives.cover_objects(photos, masks, *around, False, drawn)[0],
        "bgneg_rect": patch_negatives.cover_objects(photos, masks, *around, True, drawn)[0],
    }
    pictures = [
        made[i].permute(1, 2, 0).round().byte().numpy()
        for i in range(len(photos))
        for made in columns.values()
    ]
    contact_sheet(pictures, len(columns), list(columns) * len(photos), 176).save(OUT, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
