"""Procedural textures: what scenes are made of. Each maps coordinates to how much of which of four colours lies there.

A texture is a pure function of plane coordinates (the picture is about one unit wide), so that a scene can be photographed from
anywhere at any resolution: another crop is other coordinates. ``Cloth.noise`` is the scene's own table of random numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bgbias.toy.paint import edge, wave

_LAST = 63  # row and column of the noise table, which repeats: a power of two, so that a bit mask says where
Texture = Callable[["Cloth", np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Cloth:
    """The scene's material: ``colours`` [4, 3], ``scale`` cells per picture, ``noise`` [64, 64] in 0..1, ``knob`` in 0..1."""

    colours: np.ndarray
    scale: float
    noise: np.ndarray
    knob: float

    def cell(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """A random number of each integer cell."""
        return self.noise[i.astype(np.int32) & _LAST, j.astype(np.int32) & _LAST]

    def smooth(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Value noise with features one unit wide, in 0..1."""
        i, j = np.floor(u), np.floor(v)
        a, b = u - i, v - j
        a, b = a * a * (3 - 2 * a), b * b * (3 - 2 * b)
        i0, j0 = i.astype(np.int32) & _LAST, j.astype(np.int32) & _LAST
        i1, j1 = (i0 + 1) & _LAST, (j0 + 1) & _LAST
        low = self.noise[i0, j0] * (1 - a) + self.noise[i1, j0] * a
        high = self.noise[i0, j1] * (1 - a) + self.noise[i1, j1] * a
        return low + (high - low) * b

    def fractal(self, u: np.ndarray, v: np.ndarray, octaves: int = 3) -> np.ndarray:
        """Noise with detail at several scales, about 0..1."""
        total, weight = np.zeros_like(u), 0.0
        for k in range(octaves):
            total += self.smooth(u * 2**k + 7.3 * k, v * 2**k + 3.1 * k) * np.float32(0.5**k)
            weight += 0.5**k
        return np.clip((total / np.float32(weight) - 0.5) * 1.5 + 0.5, 0, 1)

    def mix(self, first: int, second: int, share: np.ndarray) -> np.ndarray:
        """Between two of the colours: [3, N]."""
        return self.colours[first][:, None] + (self.colours[second] - self.colours[first])[:, None] * share

    def over(self, below: np.ndarray, colour: int, share: np.ndarray) -> np.ndarray:
        """One of the colours laid over [3, N]."""
        return below + (self.colours[colour][:, None] - below) * share


def _edge(x: np.ndarray, soft: float = 0.08) -> np.ndarray:
    return edge(x, soft)


def _gradient(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    slow = c.smooth(u * 0.8 + 3, v * 0.8)
    sky = c.mix(0, 1, np.clip(0.5 + 0.5 * v + 0.5 * (slow - 0.5), 0, 1))
    return c.over(sky, 2, 0.7 * c.smooth(u * 1.3, v * 1.3 + 9) ** 2)


def _stripes(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = u * c.scale
    return c.over(c.mix(0, 1, _edge(wave(s))), 2, _edge(0.1 - np.abs(wave(s + 0.125)), 0.06) * (c.knob > 0.4))


def _tiles(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    s, t = u * c.scale, v * c.scale
    i, j = np.floor(s), np.floor(t)
    a, b = s - i, t - j
    grout = np.minimum(np.minimum(a, 1 - a), np.minimum(b, 1 - b))
    round_ring, square_ring = np.hypot(a - 0.5, b - 0.5) - 0.28, np.abs(a - 0.5) + np.abs(b - 0.5) - 0.34
    ring = np.abs(round_ring if c.knob < 0.5 else square_ring)
    tile = c.mix(0, 1, 0.6 * c.cell(i, j))
    return c.over(c.over(tile, 2, _edge(0.08 - ring)), 3, _edge(0.06 - grout))


def _checks(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    s, t = u * c.scale * 0.6, v * c.scale * 0.6
    a, b = wave(s), wave(t)
    odd = _edge(np.where(a * b > 0, 1, -1) * np.minimum(np.abs(a), np.abs(b)))
    return c.over(c.mix(0, 1, odd), 2, 0.35 * c.fractal(u * 9, v * 9, 2))


def _plaid(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    s, t = u * c.scale * 0.6, v * c.scale * 0.6
    wide = 0.5 * (_edge(wave(s), 0.05) + _edge(wave(t), 0.05))
    thin = np.maximum(_edge(0.04 - np.abs(wave(s)), 0.03), _edge(0.04 - np.abs(wave(t)), 0.03))
    weave = 0.92 + 0.08 * np.sign(wave(u * 40 + v * 40))
    return c.over(c.mix(0, 1, wide), 2, 0.8 * thin) * weave


def _bricks(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    t = v * c.scale * 1.3
    j = np.floor(t)
    s = u * c.scale * 0.6 + 0.5 * (j % 2)
    i = np.floor(s)
    a, b = s - i, t - j
    mortar = np.minimum(np.minimum(a, 1 - a) * 2.1, np.minimum(b, 1 - b))
    brick = c.mix(0, 1, np.clip(c.cell(i, j) * 0.8 + 0.4 * c.fractal(u * 14, v * 14, 2) - 0.2, 0, 1))
    return c.over(brick, 3, _edge(0.09 - mortar))


def _wood(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = v * c.scale * 0.6
    j = np.floor(s)
    shade = c.cell(j, j * 3 + 1)
    grain = c.fractal(u * 1.5 + 9 * shade, s * 5 + 5 * shade, 3)
    rings = 0.5 + 2 * wave(grain * 5 + s)
    plank = c.mix(0, 1, 0.35 * shade + 0.55 * np.clip(rings, 0, 1))
    return c.over(plank, 3, 0.85 * _edge(0.045 - np.minimum(s - j, 1 - s + j), 0.05))


def _marble(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    warp = c.fractal(u * 2.5, v * 2.5, 4)
    vein = np.abs(wave((u + 0.4 * v) * c.scale * 0.3 + 2.4 * warp)) * 4
    return c.over(c.mix(0, 1, c.fractal(u * 2 + 20, v * 2)), 2, np.clip(1 - vein * 2.2, 0, 1) ** 2)


def _voronoi(c: Cloth, s: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distances to the nearest and second nearest random point of a jittered lattice, and the nearest one's number."""
    i, j = np.floor(s), np.floor(t)
    first, second, mine = np.full_like(s, 9), np.full_like(s, 9), np.zeros_like(s)
    for di in (-1, 0, 1):
        for dj in (-1, 0, 1):
            p, q = i + di, j + dj
            gap = np.hypot(p + 0.15 + 0.7 * c.cell(p, q) - s, q + 0.15 + 0.7 * c.cell(q + 31, p + 17) - t)
            closer = gap < first
            second = np.where(closer, first, np.minimum(second, gap))
            mine = np.where(closer, c.cell(p + 7, q + 45), mine)
            first = np.where(closer, gap, first)
    return first, second, mine


def _terrazzo(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    first, second, mine = _voronoi(c, u * c.scale, v * c.scale)
    chip = _edge(second - first - 0.25 - 0.35 * mine)
    second_kind, third_kind = (
        (mine * k % 1 > share).astype(np.float32) for k, share in ((7, 0.5), (5, 0.75))
    )
    chips = c.over(c.mix(1, 2, second_kind), 3, third_kind)
    return c.colours[0][:, None] + (chips - c.colours[0][:, None]) * chip


def _cobble(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    first, second, mine = _voronoi(c, u * c.scale * 0.8, v * c.scale * 0.8)
    stone = c.mix(0, 1, mine) * (1.1 - 0.45 * first * first)
    return c.over(stone, 3, _edge(0.12 - second + first, 0.12))


def _bokeh(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    picture = c.mix(3, 0, c.smooth(u * 1.5, v * 1.5))
    for k in (0, 1):
        first, _, mine = _voronoi(c, u * c.scale * (0.45 + 0.3 * k) + 11 * k, v * c.scale * (0.45 + 0.3 * k))
        disc = _edge(0.2 + 0.25 * mine - first, 0.07)
        picture = c.over(picture, 1 + k, disc * (0.35 + 0.4 * mine))
    return picture


def _polka(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    t = v * c.scale
    s = u * c.scale + 0.5 * (np.floor(t) % 2)
    gap = np.hypot(s % 1 - 0.5, t % 1 - 0.5)
    dot = c.mix(1, 2, (c.cell(np.floor(s), np.floor(t)) > 0.5 + 0.5 * (c.knob > 0.5)).astype(np.float32))
    return c.mix(0, 0, gap) + (dot - c.colours[0][:, None]) * _edge(0.22 + 0.14 * c.knob - gap)


def _cloth(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    fold = c.fractal(u * 2.2 + 1.5 * v, v * 0.9, 2)
    weave = np.where((np.floor(u * 30) + np.floor(v * 30)) % 2 > 0, 1.04, 0.94).astype(np.float32)
    return c.mix(0, 1, np.clip(fold * 1.6 - 0.3, 0, 1)) * weave * (0.78 + 0.4 * fold)


def _waves(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = v * c.scale + (0.3 + 0.5 * c.knob) * np.sin(u * 2 * np.pi * (1 + round(3 * c.knob)))
    band = np.floor(s) % 3
    crest = 0.8 * (band == 2).astype(np.float32) * _edge(s % 1 - 0.5)
    return c.over(c.mix(0, 1, _edge(wave(s / 2))), 2, crest)


def _scales(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    t, picture = v * c.scale, c.mix(0, 0, u)
    for k in (1, 0):  # a lower row of discs lies over the upper one
        row = np.floor(t) + k
        s = u * c.scale * 0.5 + 0.5 * (row % 2)
        gap = np.hypot((s % 1 - 0.5) * 2, t - row)
        arcs = c.over(c.mix(0, 1, _edge(wave(gap * 1.7))), 3, _edge(0.05 - np.abs(gap - 0.95)))
        picture = np.where(gap < 1, arcs, picture)
    return picture


def _chevron(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = v * c.scale + 2 * np.abs(wave(u * c.scale * 0.5)) * (1 + c.knob)
    return c.over(c.mix(0, 1, _edge(wave(s))), 2, _edge(wave(s * 0.5 + 0.1) - 0.18))


def _hexagons(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    s, t = u * c.scale, v * c.scale / np.float32(1.732)
    near = (s - np.round(s)) ** 2 + 3 * (t - np.round(t)) ** 2
    s2, t2 = s - 0.5, t - 0.5
    other = (s2 - np.round(s2)) ** 2 + 3 * (t2 - np.round(t2)) ** 2
    a, b = c.cell(np.round(s), np.round(t)), c.cell(np.round(s2) + 20, np.round(t2) + 9)
    mine = np.where(near < other, a, b)
    tile = c.mix(0, 1, mine * (mine < 0.75)) + (c.mix(2, 2, mine) - c.mix(0, 0, mine)) * (mine >= 0.75)
    return c.over(tile, 3, _edge(0.06 - np.abs(near - other)))


def _grass(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    lean = c.smooth(u * 3, v * 3)
    blades = c.fractal(u * 22 + 5 * lean, v * 4.5, 2)
    return c.over(c.mix(0, 1, blades), 2, np.clip(c.fractal(u * 26 + 8, v * 5, 2) * 2 - 1.1, 0, 1))


def _sand(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    ripple = 0.5 + 2 * wave(v * c.scale * 0.8 + c.fractal(u * 2, v * 2, 2) * 2.2)
    return c.mix(0, 1, ripple) * (0.88 + 0.24 * c.smooth(u * 45, v * 45))


def _clouds(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    puff = np.clip(c.fractal(u * 2.2, v * 3.2, 4) * 2.2 - 0.8, 0, 1)
    return c.over(c.mix(0, 3, np.clip(0.5 + 0.4 * v, 0, 1) * 0.5), 1, puff)


def _patches(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    a, b = c.fractal(u * 3.2, v * 3.2, 2), c.fractal(u * 3.2 + 30, v * 3.2 + 11, 2)
    return c.over(c.over(c.mix(0, 0, a), 1, _edge(a - 0.52, 0.05)), 2, _edge(b - 0.6, 0.05))


def _rays(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    # The sun stands outside most crops, so that rays fan but never meet.
    turn = np.arctan2(v + 2.4 + c.knob, u) * np.float32((3 + round(c.scale)) / np.pi * 2.2)
    return c.over(c.mix(0, 1, _edge(wave(turn), 0.1)), 2, 0.4 * np.clip(v * 0.5 + 0.3, 0, 1))


def _confetti(c: Cloth, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    picture = c.mix(0, 0, u)
    for k in (1, 2, 3):
        s, t = u * c.scale * 0.8 + 5.7 * k, v * c.scale * 0.8 + 2.3 * k
        i, j = np.floor(s), np.floor(t)
        turn = 6.28 * c.cell(i + k, j)
        x, y = s - i - 0.5, t - j - 0.5
        p, q = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
        strip = _edge(0.1 - np.abs(q)) * _edge(0.3 - np.abs(p))
        picture = c.over(picture, k, strip * (c.cell(i, j + 3 * k) > 0.35))
    return picture


_ALL: tuple[Any, ...] = (
    _gradient, _stripes, _tiles, _checks, _plaid, _bricks, _wood, _marble, _terrazzo, _cobble,
    _bokeh, _polka, _cloth, _waves, _scales, _chevron, _hexagons, _grass, _sand, _clouds,
    _patches, _rays, _confetti,
)  # fmt: skip
TEXTURES: dict[str, Texture] = {function.__name__.strip("_"): function for function in _ALL}
