"""Pools of background photos: three disjoint ones, for training, for validation and for the test alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np

from bgbias import images, paths
from bgbias.archives import members
from bgbias.errors import UserError
from bgbias.fetching import is_picture
from bgbias.params import PoolSource
from bgbias.store import ImageStore

ROLES = ("train", "val", "test")


def photos(source: PoolSource, role: str) -> Iterator[tuple[str, bytes]]:
    """(name, encoded picture) of a pool in pool order: sorted names, cut to ``part`` where it is given.

    A source is a zip or tar, a folder, or a text file that lists one picture a line; or scenes drawn by the toy renderer. A
    source that is missing or empty is an error.
    """
    if source.toy_scenes is not None:
        from bgbias.toy.pool import pool

        for name, scene in pool(role, source.toy_scenes, source.size):
            yield f"{name}.png", images.encode_png(scene)
        return
    assert source.source is not None  # PoolSource has one of the two
    found = sorted(_files(paths.source(source.source)), key=lambda pair: pair[0])
    if source.part is not None:
        found = found[source.part[0] : source.part[1]]
    if not found:
        raise UserError(
            f"The background source {source.source} gives no pictures for the {role} pool; see `backgrounds` in params.yaml."
        )
    yield from found


def decoded(path: Path, side: int) -> list[np.ndarray]:
    """A pool in pool order, short side ``side``, uint8 [H, W, 3] each."""
    store = ImageStore(path)
    return [images.resize_short(store.array(name), side) for name in store.ids]


def sizes(path: Path) -> list[tuple[int, int]]:
    """(height, width) of a pool's photos as they were delivered, in pool order."""
    store = ImageStore(path)
    return [images.size(store.read(name), name) for name in store.ids]


def _files(origin: Path) -> list[tuple[str, bytes]]:
    if not origin.exists():
        raise UserError(
            f"The background source {origin} is missing. Put it there, set BGBIAS_SHARED_DATA to the folder that has it, or name"
            " another zip, folder or list under `backgrounds` in params.yaml."
        )
    if origin.is_dir():
        return [(p.name, p.read_bytes()) for p in origin.iterdir() if is_picture(p.name)]
    if origin.suffix in (".txt", ".lst"):
        listed = [origin.parent / line.strip() for line in origin.read_text().splitlines() if line.strip()]
        absent = [p for p in listed if not p.exists()]
        if absent:
            raise UserError(f"{origin} lists {absent[0]}, which is missing.")
        return [(p.name, p.read_bytes()) for p in listed]
    return [(PurePosixPath(name).name, data) for name, data in members(origin, is_picture)]
