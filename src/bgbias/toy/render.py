"""The camera: objects of a class in random pose and light, cast onto a picture by rays, with exact soft masks.

Everything of a photo but its scene is a ``Shot``; ``expose`` lays it over an empty scene, so that the same object, pose, light
and mask can stand in front of any scene.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bgbias import seeds
from bgbias.images.composite import blend
from bgbias.toy import scenes
from bgbias.toy.blueprints import BLUEPRINTS, build, rotation
from bgbias.toy.paint import Paint, wardrobe
from bgbias.toy.scenes import SAMPLES
from bgbias.toy.shapes import MISS, Primitive

_DISTANCE = 6.0  # of the camera, in radii of the object
_BEVEL = 0.05
_SHADOW = 64  # side of the shadow's grid; it is blurred, so this serves every picture


@dataclass(frozen=True)
class Toy:
    """What makes a class: the solid it is and what it wears. ``gloss`` in 0..1 is the strength of highlights."""

    kind: str
    parts: tuple[Primitive, ...]
    paints: tuple[Paint, ...]
    gloss: float


@dataclass(frozen=True)
class Pose:
    """Where the camera stands and how the object lies in the picture (angles in degrees)."""

    yaw: float
    elevation: float
    roll: float
    squash: float
    area: float
    place: tuple[float, float]
    light: np.ndarray
    warmth: float
    shadow: float


@dataclass(frozen=True)
class Shot:
    """A photo without its scene.

    ``colour`` float32 [S, S, 3] in 0..1 of the object, ``mask`` float32 [S, S] its share of each pixel in whole 255ths, ``light``
    float32 [S, S] by which the scene is multiplied: below 1 in the object's shadow.
    """

    colour: np.ndarray
    mask: np.ndarray
    light: np.ndarray


def toy(*identity: object) -> Toy:
    """The class of this identity: a blueprint with proportions, paints and gloss of its own."""
    rng = seeds.generator("toy", "class", *identity)
    kind = str(rng.choice(sorted(BLUEPRINTS)))
    return Toy(kind, tuple(build(kind, rng)), wardrobe(rng), float(rng.uniform(0.15, 0.7)))


def pose(*identity: object) -> Pose:
    """The pose and light of one photo."""
    rng = seeds.generator("toy", "pose", *identity)
    side, height = rng.choice([-1, 1]) * rng.uniform(0.4, 1.2), rng.uniform(0.6, 1.2)
    light = np.array([side, height, 0.75])
    return Pose(
        yaw=float(rng.uniform(-70, 70)),
        elevation=float(rng.uniform(12, 38)),
        roll=float(rng.normal(0, 9)),
        squash=float(np.exp(rng.uniform(-0.1, 0.1))),
        area=float(rng.uniform(0.26, 0.46)),
        place=(float(rng.random()), float(rng.random())),
        light=(light / np.linalg.norm(light)).astype(np.float32),
        warmth=float(rng.normal(0, 0.035)),
        shadow=float(rng.uniform(0.35, 0.55)),
    )


def shoot(toy: Toy, pose: Pose, size: int) -> Shot:
    """The object in this pose: colour, mask and shadow of a picture of ``size`` pixels."""
    view = rotation(x=pose.elevation) @ rotation(y=pose.yaw)
    tilt = rotation(z=pose.roll) @ view @ np.diag([pose.squash**-0.5, pose.squash, pose.squash**-0.5])
    # The camera looks along -z from (0, 0, distance); the object turns before it.
    parts = [p.moved(tilt, np.zeros(3)) for p in toy.parts]
    window = _frame(parts, pose)
    colour, mask = _object(parts, toy, pose, tilt, window, size)
    return Shot(colour, mask, _shadow(parts, pose, tilt, window, size))


def expose(shot: Shot, backdrop: np.ndarray) -> np.ndarray:
    """The photo: the shot in front of an empty scene [S, S, 3] in 0..1; uint8 [S, S, 3]."""
    mixed = blend(shot.colour, shot.mask[..., None], backdrop * shot.light[..., None])
    return np.rint(mixed * 255).clip(0, 255).astype(np.uint8)


def mask_pixels(shot: Shot) -> np.ndarray:
    """The mask as it is stored: uint8 [S, S]."""
    return np.rint(shot.mask * 255).astype(np.uint8)


def specimens(count: int, size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Photos uint8 [N, S, S, 3] and masks uint8 [N, S, S], each of an object and a scene of its own that no dataset shows."""
    photos, masks = np.empty((count, size, size, 3), np.uint8), np.empty((count, size, size), np.uint8)
    for n in range(count):
        shot = shoot(toy("specimen", seed, n), pose("specimen", seed, n), size)
        scene, glance = scenes.scene("specimen", n, seed), scenes.glance("specimen", seed, n)
        backdrop = scenes.photograph(scene, glance, size)
        photos[n], masks[n] = expose(shot, backdrop), mask_pixels(shot)
    return photos, masks


def _rays(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rays through image-plane points at the object's distance, y upwards."""
    origin = np.array([[0], [0], [_DISTANCE]], np.float32)
    return origin, np.stack([x, y, np.full_like(x, -_DISTANCE)]).astype(np.float32)


def _plane(window: tuple[float, float, float], n: int) -> Iterator[np.ndarray]:
    """x and y [n^2] of the pixels' middles, of a picture of ``n`` pixels in this window."""
    zoom, left, up = window
    line = ((np.arange(n) + 0.5) / n * 2 - 1).astype(np.float32)
    return map(np.ravel, np.meshgrid((line - left) / zoom, (-line - up) / zoom))


def _upright(tilt: np.ndarray) -> np.ndarray:
    return (tilt[:, 1] / np.linalg.norm(tilt[:, 1])).astype(np.float32)


def _nearest(
    parts: list[Primitive], origin: np.ndarray, direction: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """``t`` of the nearest hit of each ray, and which part it hit."""
    count = max(origin.shape[1], direction.shape[1])
    best, which = np.full(count, MISS, np.float32), np.zeros(count, np.int8)
    for k, part in enumerate(parts):
        t = part.hit(origin, direction)
        closer = t < best
        best[closer], which[closer] = t[closer], k
    return best, which


def _frame(parts: list[Primitive], pose: Pose, grid: int = 40) -> tuple[float, float, float]:
    """Zoom and shift (image = zoom * plane + shift, image in -1..1) that give the object its area and keep it inside."""
    line = ((np.arange(grid) + 0.5) / grid * 2 - 1).astype(np.float32) * 1.15
    x, y = (a.ravel() for a in np.meshgrid(line, line))
    is_object = _nearest(parts, *_rays(x, y))[0] < MISS
    step = 2 * 1.15 / grid
    low = np.array([x[is_object].min(), y[is_object].min()]) - step / 2
    high = np.array([x[is_object].max(), y[is_object].max()]) + step / 2
    area = is_object.mean() * 1.15**2
    zoom = min(np.sqrt(pose.area / area), 1.88 / float((high - low).max()))
    room = 1.92 - zoom * (high - low)
    shift = -0.96 + room * np.array(pose.place) - zoom * low
    return float(zoom), float(shift[0]), float(shift[1])


def _object(parts: list[Primitive], toy: Toy, pose: Pose, tilt: np.ndarray, window: tuple[float, float, float],
            size: int) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    n = size * SAMPLES
    x, y = _plane(window, n)
    inside = np.flatnonzero(x * x + y * y < 1.2)
    origin, direction = _rays(x[inside], y[inside])
    t, which = _nearest(parts, origin, direction)
    hit = t < MISS
    points = origin + t[hit] * direction[:, hit]
    shaded = _shade(parts, which[hit], points, toy, pose, tilt)
    colour, cover = np.zeros((3, n * n), np.float32), np.zeros(n * n, np.float32)
    colour[:, inside[hit]], cover[inside[hit]] = shaded, 1
    pixels = scenes.pixels(colour, size).transpose(1, 2, 0)
    share = scenes.pixels(cover[None], size)[0]
    pixels /= np.maximum(share, 1e-6)[..., None]
    return pixels, np.rint(share * 255).astype(np.float32) / 255


def _shade(parts: list[Primitive], which: np.ndarray, points: np.ndarray, toy: Toy, pose: Pose,
           tilt: np.ndarray) -> np.ndarray:  # fmt: skip
    """Colours [3, N] in 0..1: sky and sun, highlights, a darker foot, the object's shadow on itself."""
    normal, albedo = np.empty_like(points), np.empty_like(points)
    for k in np.unique(which):
        here = which == k
        paint = toy.paints[parts[k].slot]
        normal[:, here], coordinates, painted = parts[k].surface(points[:, here], _BEVEL, paint.cell)
        albedo[:, here] = paint.on(coordinates, painted)
    up = _upright(tilt)
    sun = pose.light
    facing = sun @ normal
    lit = np.clip(facing, 0, 1)
    exposed = np.flatnonzero(facing > 0.02)
    start = points[:, exposed] + 0.02 * normal[:, exposed]
    lit[exposed] *= _nearest(parts, start, sun[:, None])[0] >= MISS
    height = up @ points
    foot = np.clip((height - height.min()) / 0.5, 0, 1)
    sky = (0.34 + 0.16 * (up @ normal)) * (0.65 + 0.35 * foot)
    tint = np.array([1 + pose.warmth, 1, 1 - pose.warmth], np.float32)[:, None]
    light = sky + 0.85 * tint * lit
    eye = np.array([0, 0, _DISTANCE], np.float32)[:, None] - points
    eye /= np.linalg.norm(eye, axis=0)
    half = sun[:, None] + eye
    half /= np.linalg.norm(half, axis=0)
    shine = np.clip((half * normal).sum(0), 0, 1) ** 40 * toy.gloss * 0.7 * (lit > 0)
    rim = (1 - np.clip((eye * normal).sum(0), 0, 1)) ** 3 * 0.10
    return np.sqrt(np.clip(albedo * light + shine + rim, 0, 1))


def _shadow(
    parts: list[Primitive], pose: Pose, tilt: np.ndarray, window: tuple[float, float, float], size: int
) -> np.ndarray:
    """How much light reaches each pixel of the ground the object stands on: float32 [size, size], 1 in the open."""
    from scipy import ndimage

    origin, direction = _rays(*_plane(window, _SHADOW))
    up = _upright(tilt)
    foot = min(float(up @ p.centre) - p.reach(up) for p in parts)
    fall = up @ direction
    t = (foot - up @ origin) / np.where(fall < -1e-3, fall, np.inf)
    dark: np.ndarray = np.zeros(_SHADOW**2, np.float32)
    ground = np.flatnonzero((t > 0) & (t < 3))
    points = origin + t[ground] * direction[:, ground]
    dark[ground] = _nearest(parts, points, pose.light[:, None])[0] < MISS
    dark = dark.reshape(_SHADOW, _SHADOW)
    soft = 0.65 * ndimage.gaussian_filter(dark, 1.6) + 0.35 * ndimage.gaussian_filter(dark, 5)
    if size != _SHADOW:
        soft = np.clip(ndimage.zoom(soft, size / _SHADOW, order=1, grid_mode=True, mode="nearest"), 0, 1)
    return (1 - np.float32(pose.shadow) * soft).astype(np.float32)
