"""What an audit puts behind objects: somebody's photos, or the pool that is drawn, so that nothing need be downloaded."""

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from bgbias.backgrounds import generated, pools
from bgbias.backgrounds.draws import Pool
from bgbias.errors import UserError
from bgbias.files import code, places
from bgbias.files.pictures import is_picture
from bgbias.files.store import ImageStore, writing
from bgbias.images import pixels

# Walls above all, since products stand before them; drawn as the study's own pools for testing are.
DRAWN = {"textures": 60, "toy_scenes": 25, "gradients": 15}
SIDE = 320
FOLDER = "backgrounds"  # of the person's cache


@dataclass(frozen=True)
class BackgroundPhotos:
    """Photos of walls, streets, tables, by name, encoded, in pool order; ``summary`` says what they are, ``photographed`` that
    they are no patterns of ours.
    """

    photos: list[tuple[str, bytes]]
    summary: str
    photographed: bool = True

    @property
    def digest(self) -> str:
        """64 hex digits of all names and bytes."""
        hasher = hashlib.sha256()
        for name, data in self.photos:
            hasher.update(f"{name}\0{hashlib.sha256(data).hexdigest()}\n".encode())
        return hasher.hexdigest()

    def pool(self, side: int) -> Pool:
        """Decoded as a person sees them, at a short side of so many pixels."""
        pictures, sizes = [], []
        for name, data in self.photos:  # one at a time: phones' photos are large
            picture = pixels.decode(pixels.upright(data, name), name)
            sizes.append(picture.shape[:2])
            pictures.append(pixels.resize_short(picture, side))
        return Pool(pictures, sizes)


def find(path: str | None) -> BackgroundPhotos:
    """The photos of a folder, a zip or tar, or a text file that lists one path a line; the drawn pool if none is named.

    Too few, and one that cannot be read, are errors that name it.
    """
    if path is None:
        pairs = _draw()
        summary = f"{len(pairs)} generated backgrounds; for a stricter test use photos: --backgrounds FOLDER"
        return BackgroundPhotos(pairs, summary, photographed=False)
    if not places.source(path).exists():
        raise UserError(
            f"There are no backgrounds at {path}; name a folder, zip, tar or list of photos by --backgrounds, or leave it out"
            " for generated ones."
        )
    if is_picture(path) and places.source(path).is_file():
        raise UserError(f"{path} is one picture; name the folder that holds it and others by --backgrounds.")
    pairs = sorted(pools.files(path))
    if len(pairs) < 2:
        raise UserError(
            f"{path} holds {len(pairs)} pictures, and two backgrounds are the least; twenty or more say something."
        )
    for name, data in pairs:
        pixels.decode(data, name)
    called = places.source(path).name  # where it lies is nobody's business who gets the page
    return BackgroundPhotos(pairs, f"{len(pairs)} photos of {called}")


def _draw() -> list[tuple[str, bytes]]:
    """Names and PNGs. Drawing takes seconds, so that they are kept, under the code that draws them and the libraries it calls."""
    by = json.dumps([code.fingerprint(__name__), code.libraries(__name__)])
    path = places.cache() / FOLDER / f"{code.hash_text(by)}.zip"
    with suppress(UserError):  # not there yet, or damaged
        there = ImageStore(path)
        return [(name, there.read(name)) for name in there.ids]
    pairs = [
        (f"{name}.png", pixels.encode_png(np.ascontiguousarray(picture)))
        for kind, count in DRAWN.items()
        for name, picture in generated.pictures(kind, count, "test", SIDE)
    ]
    with suppress(OSError), writing(path) as store:  # a cache that cannot be written to is done without
        for name, data in pairs:
            store.add(name, data)
    return pairs
