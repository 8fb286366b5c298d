"""Photos of two visits to a shop, with drawn masks; and two models, of which each sees what the other one does not."""

from pathlib import Path

import numpy as np
import pandas as pd
from miniatures import as_folder

from bgbias.images.pixels import encode_png

SIDE, CLASSES, EACH = 32, 8, 5
OBJECT = slice(8, 24)


def make(folder: Path) -> None:
    """A square of its class's colour, under each visit's lamp, on a wall of its class and visit: ``photos/<visit>/<class>``,
    ``masks`` and ``walls`` of other colours.
    """
    generator = np.random.default_rng(3)
    of_class = generator.uniform(60, 200, (CLASSES, 3))
    lamps, walls = np.array([[30, 0, -30], [-30, 0, 30]]), generator.uniform(30, 225, (2, CLASSES, 3))
    mask = np.zeros((SIDE, SIDE), np.uint8)
    mask[OBJECT, OBJECT] = 255
    pictures = {}
    for visit, number, photo in np.ndindex(2, CLASSES, EACH):
        # In patches, so that no photo shows another one's view.
        patches = generator.normal(0, 45, (8, 8, 3)).repeat(SIDE // 8, 0).repeat(SIDE // 8, 1)
        picture = walls[visit, number] + generator.normal(0, 18, 3) + patches
        picture[OBJECT, OBJECT] += of_class[number] + lamps[visit] - walls[visit, number]
        name = f"visit {visit}/class {number}/{photo}.png"
        pictures |= {f"photos/{name}": picture.clip(0, 255).astype(np.uint8), f"masks/{name}": mask}
    for number in range(4):
        pictures[f"walls/{number}.png"] = np.full((SIDE, SIDE, 3), generator.integers(0, 255, 3), np.uint8)
    as_folder(folder, {name: encode_png(pixels) for name, pixels in pictures.items()})


def list_photos(folder: Path, visit: str) -> pd.DataFrame:
    """A table of them with their masks; which visit each is of stands in the column ``visit``."""
    files = sorted((folder / "photos").rglob("*.png"))
    return pd.DataFrame(
        {
            "path": files,
            "class": [file.parent.name for file in files],
            visit: [file.parts[-3] for file in files],
            "mask": [folder / "masks" / file.relative_to(folder / "photos") for file in files],
        }
    )


def object_alone(batch: list[np.ndarray]) -> list[np.ndarray]:
    return [np.append(photo[OBJECT, OBJECT].mean((0, 1)) - 128, 20) for photo in batch]


def background_alone(batch: list[np.ndarray]) -> list[np.ndarray]:
    return [np.append(np.concatenate([photo[:6], photo[-6:]]).mean((0, 1)) - 128, 20) for photo in batch]
