"""Backgrounds that are drawn, for those who may not ship photos: plain colours, gradients, textured walls, toy scenes.

Roles share no picture, and a larger pool begins with the smaller one.
"""

import colorsys
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from bgbias import seeds
from bgbias.toy import scenes
from bgbias.toy.scenes import GOLDEN


def pictures(kind: str, count: int, role: str, size: int) -> Iterator[tuple[str, np.ndarray]]:
    """``count`` pictures of a kind (colours, gradients, textures, toy_scenes) for a role: name, uint8 RGB [size, size, 3]."""
    if kind == "toy_scenes":
        yield from scenes.pool(role, count, size)
        return
    for n in range(count):
        picture = np.clip(_KINDS[kind](role, n, size), 0, 1)
        yield f"{kind}_{role}_{n:03d}", np.rint(picture * 255).astype(np.uint8)


def _make_colours(role: str, n: int, size: int) -> np.ndarray:
    rng = seeds.generator("procedural", "colours", role, n)
    return np.broadcast_to(_choose_colour(rng, n * GOLDEN + float(rng.random())), (size, size, 3))


def _make_gradients(role: str, n: int, size: int) -> np.ndarray:
    """Along a line or from a point, between two or three colours."""
    rng = seeds.generator("procedural", "gradients", role, n)
    count = int(rng.integers(2, 4))
    stops = np.stack([_choose_colour(rng, n * GOLDEN + float(rng.uniform(0, 0.35))) for _ in range(count)])
    line = (np.arange(size) + 0.5) / size - 0.5
    x, y = np.meshgrid(line, line)
    turn, centre = rng.uniform(0, 2 * np.pi), rng.uniform(-0.5, 0.5, 2)
    along = np.cos(turn) * x + np.sin(turn) * y
    if rng.random() < 0.4:
        along = np.hypot(x - centre[0], y - centre[1])
    along = (along - along.min()) / (along.max() - along.min())
    places = np.linspace(0, 1, len(stops))
    return np.stack([np.interp(along, places, stops[:, c]) for c in range(3)], axis=-1)


def _make_textures(role: str, n: int, size: int) -> np.ndarray:
    """A wall seen straight on."""
    wall = replace(scenes.scene(f"{role} walls", n), tilt=0.0)
    return scenes.photograph(wall, scenes.glance("walls", role, n), size)


_KINDS: dict[str, Callable[[str, int, int], np.ndarray]] = {
    "colours": _make_colours,
    "gradients": _make_gradients,
    "textures": _make_textures,
}


def _choose_colour(rng: np.random.Generator, hue: float) -> np.ndarray:
    return np.array(colorsys.hsv_to_rgb(hue % 1, float(rng.uniform(0.05, 0.9)), float(rng.uniform(0.25, 1))))
