"""Scenes: what an object stands before, and how one photo after another shows the same one."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bgbias import seeds
from bgbias.toy.textures import TEXTURES, Cloth

GOLDEN = 0.381966  # of a turn: hues and textures of neighbouring numbers lie far apart
SAMPLES = 2  # per pixel and axis, as `pixels` adds them
# Evaluation and training show crops of .16 to 1 of a background's area (docs/methods.md, section 1), side .4 to 1: of so wide a
# photo these have about the scale that scenes have in the dataset.
_POOL_EXTENT = 1.6


@dataclass(frozen=True)
class Scene:
    """One identity: a texture with its colours, direction and tilt of the plane (0 a wall, more a floor)."""

    texture: str
    cloth: Cloth
    angle: float
    tilt: float


@dataclass(frozen=True)
class Glance:
    """How one photo shows a scene: shift (in pictures), zoom, turn (radians), brightness and where the light falls off."""

    shift: tuple[float, float]
    zoom: float
    turn: float
    brightness: float
    fall: tuple[float, float]
    blur: float
    grain: int


def scene(role: str, number: int, seed: int = 0) -> Scene:
    """Scene ``number`` of a role. Roles are disjoint sets of identities: no two share colours, texture and noise."""
    base = seeds.generator("toy", seed, "scenes", role)
    order = base.permutation(sorted(TEXTURES))
    hue = float(base.random()) + number * GOLDEN
    rng = seeds.generator("toy", seed, "scene", role, number)
    texture = str(order[number % len(order)])
    colours, scale = _colours(rng, hue), float(rng.uniform(3.5, 7))
    cloth = Cloth(colours, scale, rng.random((64, 64), dtype=np.float32), float(rng.random()))
    return Scene(texture, cloth, float(rng.uniform(-0.6, 0.6)), float(rng.uniform(0, 0.3)))


def glance(*identity: object) -> Glance:
    """The look of one photo at whatever scene it shows."""
    rng = seeds.generator("toy", "glance", *identity)
    return Glance(
        shift=(float(rng.uniform(-4, 4)), float(rng.uniform(-0.5, 0.5))),
        zoom=float(np.exp(rng.uniform(-0.2, 0.2))),
        turn=float(rng.uniform(-0.15, 0.15)),
        brightness=float(rng.uniform(0.85, 1.1)),
        fall=(float(rng.uniform(-0.7, 0.7)), float(rng.uniform(-0.7, 0.3))),
        blur=float(rng.uniform(0.006, 0.016)),
        grain=int(rng.integers(2**31)),
    )


def photograph(scene: Scene, glance: Glance, size: int, extent: float = 1.0) -> np.ndarray:
    """The empty scene as one photo shows it, float32 RGB [size, size, 3] in 0..1; ``extent``: of the photo, in usual sides."""
    from scipy import ndimage

    n = size * SAMPLES
    line = (np.arange(n, dtype=np.float32) + 0.5) / n * 2 - 1
    x, y = (a.ravel() for a in np.meshgrid(line, line))
    depth = 1 + np.float32(scene.tilt) * (1 - y) * 0.5  # the plane recedes towards the top
    turn = scene.angle + glance.turn
    reach = 0.5 * glance.zoom * extent
    p, q = x * depth * reach, y * depth * (1 + scene.tilt) * reach
    u = (np.cos(turn) * p - np.sin(turn) * q).astype(np.float32) + np.float32(glance.shift[0])
    v = (np.sin(turn) * p + np.cos(turn) * q).astype(np.float32) + np.float32(glance.shift[1])
    colour = TEXTURES[scene.texture](scene.cloth, u, v)
    blur = glance.blur * size
    picture = ndimage.gaussian_filter(pixels(colour, size), (0, blur, blur), truncate=3).transpose(1, 2, 0)
    step = (np.arange(size, dtype=np.float32) + 0.5) / size * 2 - 1
    far = (step[None, :] - glance.fall[0]) ** 2 + (step[:, None] - glance.fall[1]) ** 2
    light = np.float32(glance.brightness) * (1.06 - 0.1 * far)
    noise = np.random.default_rng(glance.grain).standard_normal((size, size, 1), dtype=np.float32)
    return np.clip(picture * light[..., None] + 0.012 * noise, 0, 1).astype(np.float32)


def pool(role: str, count: int, size: int, seed: int = 0) -> Iterator[tuple[str, np.ndarray]]:
    """``count`` backgrounds of a role (train, val, test): name and uint8 RGB [size, size, 3], in order of names.

    Every background is a scene of its own; roles share none, and a larger pool begins with the smaller one.
    """
    for n in range(count):
        empty, look = scene(f"{role} pool", n, seed), glance("pool", seed, role, n)
        picture = photograph(empty, look, size, _POOL_EXTENT)
        yield f"toy_{role}_{n:03d}", np.rint(picture * 255).astype(np.uint8)


def pixels(samples: np.ndarray, size: int) -> np.ndarray:
    """Means over the samples of each pixel: [C, (size * SAMPLES)^2] to [C, size, size]."""
    grid = samples.astype(np.float32, copy=False).reshape(-1, size, SAMPLES, size, SAMPLES)
    # What `mean` gives, to the bit, in a tenth of its time.
    across = grid[..., 0] + grid[..., 1]
    mean: np.ndarray = (across[:, :, 0] + across[:, :, 1]) / np.float32(4)
    return mean


def _colours(rng: np.random.Generator, hue: float) -> np.ndarray:
    """Four colours that go together, [4, 3]: two of one hue, a neighbour or opposite, and a dark or light line."""
    low, chroma = rng.uniform(0.5, 0.78), rng.uniform(0.035, 0.1)
    away = rng.choice([0.08, -0.08, 0.12, 0.5])
    light = low + rng.choice([-1, 1]) * rng.uniform(0.1, 0.17)
    rows = (
        (low, chroma, hue),
        (light, chroma * 0.9, hue + rng.uniform(-0.06, 0.06)),
        (rng.uniform(0.55, 0.9), chroma, hue + away),
        (rng.choice([0.35, 0.93]), 0.03, hue),
    )
    return np.stack([_oklch(*r) for r in rows])


def _oklch(lightness: float, chroma: float, hue: float) -> np.ndarray:
    """sRGB in 0..1 of a colour in Oklch (Ottosson 2020), where equal steps look equal; ``hue`` in turns."""
    a, b = chroma * np.cos(2 * np.pi * hue), chroma * np.sin(2 * np.pi * hue)
    l, m, s = (  # noqa: E741  the cone responses' own names
        (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3,
        (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3,
        (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3,
    )
    red = 4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s
    green = -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s
    blue = -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s
    linear = np.clip([red, green, blue], 0, 1)
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return encoded.astype(np.float32)
