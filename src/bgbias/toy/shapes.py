"""Solid primitives and where rays meet them: ball, dome, frustum, polyhedron, ring.

A primitive is a unit shape put into the world by an affine map, so that one closed formula serves every size and pose. Rays are
``origin + t * direction``; an affine map keeps ``t``, so hits of different primitives compare directly. Arrays of points have
the shape [3, N] (or [3, 1] for one point shared by all rays), float32.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

MISS = np.float32(1e9)
BALL, DOME, FRUSTUM, POLYHEDRON, RING = "ball", "dome", "frustum", "polyhedron", "ring"
_UP = np.array([[0], [1], [0]], np.float32)


def planes(*rows: tuple[float, float, float, float]) -> np.ndarray:
    """Half-spaces n . p <= h of a convex polyhedron from rows (nx, ny, nz, h), normals made unit: float32 [K, 4]."""
    half_spaces = np.array(rows, np.float32)
    return half_spaces / np.linalg.norm(half_spaces[:, :3], axis=1, keepdims=True)


CUBE = planes((1, 0, 0, 1), (-1, 0, 0, 1), (0, 1, 0, 1), (0, -1, 0, 1), (0, 0, 1, 1), (0, 0, -1, 1))
GABLE = planes((2, 1, 0, 1), (-2, 1, 0, 1), (0, -1, 0, 1), (0, 0, 1, 1), (0, 0, -1, 1))
PYRAMID = planes((2, 1, 0, 1), (-2, 1, 0, 1), (0, 1, 2, 1), (0, 1, -2, 1), (0, -1, 0, 1))
HULL = planes((1, -0.35, 0, 0.7), (-1, -0.35, 0, 0.7), (0, 1, 0, 1), (0, -1, 0, 1), (1, -0.35, 1, 1), (1, -0.35, -1, 1),
              (-1, -0.35, 1, 1), (-1, -0.35, -1, 1))  # fmt: skip


def column(sides: int) -> np.ndarray:
    """An upright regular prism with so many sides, circumscribed about the unit circle."""
    turns = 2 * np.pi * (np.arange(sides) + 0.5) / sides
    return planes(*((float(np.cos(a)), 0, float(np.sin(a)), 1) for a in turns), (0, 1, 0, 1), (0, -1, 0, 1))


@dataclass(frozen=True)
class Primitive:
    """A unit shape in the world.

    ``matrix`` [3, 3] and ``centre`` [3] map local to world; ``shape`` is the top radius of a frustum (bottom 1) or the tube's
    radius of a ring (ring 1); ``faces`` are a polyhedron's half-spaces; ``slot`` says which paint of the class it wears.
    """

    kind: str
    matrix: np.ndarray
    centre: np.ndarray
    shape: float = 1.0
    faces: np.ndarray = field(default_factory=lambda: CUBE)
    slot: int = 0

    @cached_property
    def inverse(self) -> np.ndarray:
        """World to local, [3, 3]."""
        return np.linalg.inv(self.matrix).astype(np.float32)

    def moved(self, transform: np.ndarray, shift: np.ndarray) -> Primitive:
        """The primitive after ``p -> transform @ p + shift`` of the world."""
        return Primitive(self.kind, (transform @ self.matrix).astype(np.float32),
                         (transform @ self.centre + shift).astype(np.float32), self.shape, self.faces, self.slot)  # fmt: skip

    def reach(self, along: np.ndarray) -> float:
        """How far the shape extends from its centre in a direction (a bound for polyhedra and domes)."""
        half = along @ self.matrix
        if self.kind == POLYHEDRON:
            return float(np.abs(half).sum())
        if self.kind == FRUSTUM:
            return float(np.hypot(half[0], half[2]) + abs(half[1]))
        if self.kind == RING:
            return float(np.hypot(half[0], half[2]) + self.shape * np.linalg.norm(half))
        return float(np.linalg.norm(half))

    def hit(self, origin: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """``t`` of the first hit in front of the origin, ``MISS`` where there is none: float32 [N]."""
        o, d = self.inverse @ (origin - self.centre[:, None]), self.inverse @ direction
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.kind == FRUSTUM:
                return _frustum(o, d, self.shape)
            if self.kind == POLYHEDRON:
                return _polyhedron(o, d, self.faces)
            if self.kind == RING:
                return _ring(o, d, self.shape)
            ball = _roots(_dot(d, d), _dot(o, d), _dot(o, o) - 1)
            if self.kind == BALL:
                return _first(*ball)
            return _first(*(np.where(o[1] + t * d[1] >= 0, t, MISS) for t in ball), _disc(o, d, 0, 1))

    def surface(
        self, points: np.ndarray, bevel: float, cell: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What lies at world points [3, N] on the surface.

        Comes back as (unit normals [3, N], pattern coordinates [2, N] in cells, 1 where a pattern may be painted and 0 on end
        faces [N]). Edges are rounded to the world radius ``bevel``, in shading only; ``cell`` is a pattern's period in world
        units, made to fit a whole, even number of times around round things.
        """
        p = self.inverse @ (points - self.centre[:, None])
        size = np.linalg.norm(self.matrix, axis=0)  # half lengths along the local axes, in world units
        if self.kind == POLYHEDRON:
            normal, coordinates, painted = self._facets(p, bevel, cell)
        else:
            normal, coordinates, painted = self._round(p, size, bevel, cell)
            normal = self.inverse.T @ normal
        return normal / np.maximum(np.linalg.norm(normal, axis=0), 1e-6), coordinates, painted

    def _round(self, p: np.ndarray, size: np.ndarray, bevel: float, cell: float) -> tuple[np.ndarray, ...]:
        angle = np.arctan2(p[2], p[0]) / np.float32(2 * np.pi)
        waist = float(size[0] + size[2]) / 2
        around = max(2 * round(np.pi * waist / cell), 2)
        painted = np.ones(p.shape[1], np.float32)
        coordinates = np.stack([angle * around, p[1] * np.float32(size[1] / cell)])
        if self.kind == BALL:
            return p, coordinates, painted
        if self.kind == DOME:
            flat = p[1] < 1e-3
            return np.where(flat, -_UP, p), coordinates, np.where(flat, 0, painted)
        rho = np.maximum(np.hypot(p[0], p[2]), 1e-6)
        spoke = np.stack([p[0] / rho, np.zeros_like(rho), p[2] / rho])
        if self.kind == RING:
            tube = np.arctan2(p[1], rho - 1) / np.float32(2 * np.pi)
            return p - spoke, np.stack([tube * 2, angle * around]), painted
        slope = np.float32((1 - self.shape) / 2)
        end = (np.abs(p[1]) > 1 - 1e-3) & (rho < 1 - slope * (p[1] + 1) - 2e-3)
        side, upward = spoke + slope * _UP, np.sign(p[1]) * _UP
        to_end = np.clip(1 - (1 - np.abs(p[1])) * size[1] / bevel, 0, 1)
        to_side = np.clip(1 - (1 - slope * (p[1] + 1) - rho) * waist / bevel, 0, 1)
        normal = np.where(end, upward + to_side * spoke, side + to_end * upward)
        return normal, coordinates, np.where(end, 0, painted)

    def _facets(self, p: np.ndarray, bevel: float, cell: float) -> tuple[np.ndarray, ...]:
        # [3, K], as long as the local slack is short in the world.
        normals = self.inverse.T @ self.faces[:, :3].T
        length = np.linalg.norm(normals, axis=0)
        slack = (self.faces[:, 3:] - self.faces[:, :3] @ p) / length[:, None]
        near = np.clip(1 - slack / bevel, 0, 1)
        face = slack.argmin(0)
        normal = (normals / length) @ near
        # Along the face: once level, once up the slope; on a level face along the two horizontal axes.
        size = np.linalg.norm(self.matrix, axis=0)[:, None]
        q = p * size / np.float32(cell)
        local = self.faces[face, :3].T
        level = np.abs(local[1]) > 0.9
        norm = np.maximum(np.hypot(local[0], local[2]), 1e-6)
        along = (q[0] * local[2] - q[2] * local[0]) / norm
        coordinates = np.stack([np.where(level, q[0], along), np.where(level, q[2], q[1])])
        return normal, coordinates, np.ones(p.shape[1], np.float32)


def _first(*candidates: np.ndarray) -> np.ndarray:
    best = np.full(np.broadcast_shapes(*(c.shape for c in candidates)), MISS, np.float32)
    for t in candidates:
        # Comparisons with NaN are false: a miss stays a miss.
        best = np.where((t > 1e-4) & (t < best), t, best)
    return best


def _roots(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both solutions of a t^2 + 2 b t + c = 0; NaN where there is none."""
    root = np.sqrt(b * b - a * c)
    return (-b - root) / a, (-b + root) / a


def _dot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]


def _disc(o: np.ndarray, d: np.ndarray, height: float, radius: float) -> np.ndarray:
    """A level disc about the ``y`` axis."""
    t = (np.float32(height) - o[1]) / d[1]
    inside = (o[0] + t * d[0]) ** 2 + (o[2] + t * d[2]) ** 2 <= np.float32(radius * radius)
    return np.where(inside, t, MISS)


def _frustum(o: np.ndarray, d: np.ndarray, top: float) -> np.ndarray:
    """Radius 1 at y = -1, ``top`` at y = 1."""
    slope = np.float32((1 - top) / 2)
    r0 = 1 - slope * (o[1] + 1)  # the cone's radius at the ray's origin, changing by -slope * d_y along it
    a = d[0] ** 2 + d[2] ** 2 - (slope * d[1]) ** 2
    b = o[0] * d[0] + o[2] * d[2] + slope * d[1] * r0
    c = o[0] ** 2 + o[2] ** 2 - r0**2
    sides = [np.where(np.abs(o[1] + t * d[1]) <= 1, t, MISS) for t in _roots(a, b, c)]
    return _first(*sides, _disc(o, d, -1, 1), _disc(o, d, 1, top))


def _polyhedron(o: np.ndarray, d: np.ndarray, faces: np.ndarray) -> np.ndarray:
    distance = faces[:, 3:] - faces[:, :3] @ o
    speed = faces[:, :3] @ d
    t = distance / speed
    enter = np.where(speed < 0, t, -MISS).max(0)
    leave = np.where(speed > 0, t, MISS).min(0)
    return np.where((enter < leave) & (enter > 1e-4), enter, MISS)


def _ring(o: np.ndarray, d: np.ndarray, tube: float) -> np.ndarray:
    """Sphere tracing: the torus alone has no short closed formula."""
    o, d = np.broadcast_arrays(o, d)
    result = np.full(o.shape[1], MISS, np.float32)
    a, b = _dot(d, d), _dot(o, d)
    near, far = _roots(a, b, _dot(o, o) - np.float32((1 + tube) ** 2))
    live = np.flatnonzero(far > 0)  # only rays through the bounding ball; NaN compares false
    t, end, speed = np.maximum(near[live], 0), far[live], np.sqrt(a[live])
    o, d = o[:, live], d[:, live]
    for _ in range(24):
        p = o + t * d
        gap = np.hypot(np.hypot(p[0], p[2]) - 1, p[1]) - np.float32(tube)
        t = t + gap / speed
        moving = (gap > 2e-3) & (t < end)
        done = gap <= 2e-3
        result[live[done & (t > 1e-4)]] = t[done & (t > 1e-4)]
        live, t, end, speed = (a[moving] for a in (live, t, end, speed))
        o, d = o[:, moving], d[:, moving]
        if not live.size:
            break
    return result
