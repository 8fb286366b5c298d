"""What the objects are: each blueprint builds a thing from a few solid primitives, with proportions of its own every time.

Lengths are arbitrary (the camera frames the object), ``y`` points up and things stand near ``y = 0``. Slot 0 is the main paint,
1 the second, 2 and 3 accents.
"""

from dataclasses import dataclass

import numpy as np

from bgbias.toy import shapes
from bgbias.toy.shapes import Primitive

Vector = tuple[float, float, float]


def rotation(x: float = 0, y: float = 0, z: float = 0) -> np.ndarray:
    """Rotations by degrees about the axes, z first, then x, then y: float32 [3, 3]."""
    (cx, cy, cz), (sx, sy, sz) = (f(np.radians([x, y, z])) for f in (np.cos, np.sin))
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return (about_y @ about_x @ about_z).astype(np.float32)


@dataclass
class Draft:
    """The object while it is being built; proportions come from ``rng``."""

    rng: np.random.Generator
    parts: list[Primitive]

    def u(self, low: float, high: float) -> float:
        """A proportion of this object."""
        return float(self.rng.uniform(low, high))

    def _add(self, kind: str, at: Vector, half: Vector, slot: int, turn: Vector, shape: float = 1.0,
             faces: np.ndarray = shapes.CUBE) -> None:  # fmt: skip
        matrix = rotation(*turn) * np.array(half, np.float32)
        self.parts.append(Primitive(kind, matrix, np.array(at, np.float32), shape, faces, slot))

    def ball(self, at: Vector, half: float | Vector, slot: int = 0, turn: Vector = (0, 0, 0)) -> None:
        """An ellipsoid with these half axes."""
        self._add(shapes.BALL, at, half if isinstance(half, tuple) else (half, half, half), slot, turn)

    def dome(self, at: Vector, half: Vector, slot: int = 0) -> None:
        """The upper half of an ellipsoid, ``at`` the middle of its flat side."""
        self._add(shapes.DOME, at, half, slot, (0, 0, 0))

    def box(self, at: Vector, half: Vector, slot: int = 0, turn: Vector = (0, 0, 0),
            faces: np.ndarray = shapes.CUBE) -> None:  # fmt: skip
        """A cuboid, or another polyhedron within it."""
        self._add(shapes.POLYHEDRON, at, half, slot, turn, 1.0, faces)

    def drum(self, at: Vector, radius: float, half: float, slot: int = 0, top: float = 1.0,
             turn: Vector = (0, 0, 0)) -> None:  # fmt: skip
        """A cylinder of half height ``half`` whose upper radius is ``top`` times the lower one (0: a cone)."""
        self._add(shapes.FRUSTUM, at, (radius, half, radius), slot, turn, top)

    def ring(self, at: Vector, radius: float, tube: float, slot: int = 0, turn: Vector = (0, 0, 0)) -> None:
        """A torus, lying flat unless turned; ``tube`` is its thickness's radius."""
        self._add(shapes.RING, at, (radius, radius, radius), slot, turn, tube / radius)

    def around(self, count: int, radius: float, phase: float = 0) -> list[tuple[float, float, float]]:
        """(x, z, degrees) of so many places on a circle."""
        turns = phase + 2 * np.pi * np.arange(count) / count
        return [(radius * float(np.cos(a)), radius * float(np.sin(a)), -float(np.degrees(a))) for a in turns]


class Thing(Draft):
    """The blueprints: each method adds the parts of what it is called."""

    def mug(self) -> None:
        r, h = self.u(0.6, 0.8), self.u(0.6, 1.0)
        self.drum((0, h, 0), r, h, 0, self.u(0.85, 1.25))
        self.ring((r * 1.1, h, 0), h * self.u(0.45, 0.6), self.u(0.1, 0.15), 1, (90, 0, 0))
        self.drum((0, 2 * h, 0), r * 0.85, 0.02, 3)

    def rocket(self) -> None:
        r, h, count = self.u(0.4, 0.55), self.u(0.8, 1.1), int(self.rng.integers(3, 5))
        self.drum((0, 0.3 + h, 0), r, h, 0)
        self.drum((0, 0.3 + 2 * h + 0.45, 0), r, 0.45, 1, self.u(0, 0.35))
        for x, z, turn in self.around(count, r * 1.2):
            self.box((x, 0.5, z), (r * 0.6, self.u(0.4, 0.6), 0.1), 1, (0, turn, self.u(-20, -5)))
        for x, z, _ in self.around(3, r * 0.85, 0.5):
            self.ball((x, 0.4 + 1.4 * h, z), 0.22, 2)

    def mushroom(self) -> None:
        h, r = self.u(0.4, 0.7), self.u(0.85, 1.1)
        self.drum((0, h, 0), self.u(0.35, 0.5), h, 1, self.u(0.7, 1.0))
        self.dome((0, 2 * h - 0.1, 0), (r, self.u(0.6, 1.0), r), 0)
        self.ring((0, h * 1.3, 0), 0.38, 0.1, 2)

    def house(self) -> None:
        w, h, deep, roof = self.u(0.6, 0.9), self.u(0.45, 0.75), self.u(0.6, 0.9), self.u(0.35, 0.6)
        self.box((0, h, 0), (w, h, deep), 0)
        faces = shapes.GABLE if self.u(0, 1) < 0.6 else shapes.PYRAMID
        self.box((0, 2 * h + roof, 0), (w * 1.2, roof, deep * 1.12), 1, faces=faces)
        self.box((w * 0.5, 2 * h + roof, 0), (0.14, roof, 0.14), 2)
        self.box((0, h * 0.6, 0), (0.2, h * 0.6, deep * 1.03), 3)

    def tree(self) -> None:
        self.drum((0, 0.3, 0), self.u(0.2, 0.3), 0.4, 1)
        levels, r = int(self.rng.integers(2, 4)), self.u(0.8, 1.0)
        for k in range(levels):
            top = 0.25 if k < levels - 1 else 0
            self.drum((0, 0.9 + 0.55 * k, 0), r * (1 - 0.22 * k), 0.45, 2 * (k % 2), top)
        self.ball((0, 1.5 + 0.55 * (levels - 1), 0), 0.2, 3)

    def pawn(self) -> None:
        sizes = (self.u(0.75, 0.9), self.u(0.5, 0.65), self.u(0.35, 0.5))
        y = 0.0
        for k, r in enumerate(sizes):
            self.ball((0, y + r * 0.9, 0), (r, r * 0.95, r), (0, 1, 0)[k])
            y += r * 1.45
        self.ring((0, sizes[0] * 1.6, 0), sizes[1] * 0.8, 0.12, 2)
        self.drum((0, y + 0.25, 0), sizes[2] * 0.8, 0.2, 2, self.u(0.5, 1))

    def robot(self) -> None:
        w, h, head = self.u(0.55, 0.75), self.u(0.55, 0.75), self.u(0.3, 0.42)
        self.box((0, 0.5 + h, 0), (w, h, w * 0.75), 0)
        self.box((0, 0.5 + 2 * h + head, 0), (head * 1.3, head, head * 1.1), 1)
        for x in (-1, 1):
            self.drum((x * (w + 0.18), 0.5 + h * 1.1, 0), 0.18, h * 0.8, 2, turn=(0, 0, x * self.u(0, 25)))
            self.drum((x * w * 0.5, 0.27, 0), 0.22, 0.3, 2)
            self.ball((x * head * 0.6, 0.55 + 2 * h + head, head * 1.1), 0.14, 3)

    def bottle(self) -> None:
        r, h, neck = self.u(0.5, 0.65), self.u(0.6, 0.9), self.u(0.2, 0.28)
        self.drum((0, h, 0), r, h, 0)
        self.drum((0, 2 * h + 0.22, 0), r, 0.22, 1, neck / r)
        self.drum((0, 2 * h + 0.65, 0), neck, 0.25, 1)
        self.drum((0, 2 * h + 0.95, 0), neck * 1.4, 0.13, 2)

    def teapot(self) -> None:
        r, h = self.u(0.75, 0.9), self.u(0.55, 0.75)
        self.ball((0, h, 0), (r, h, r), 0)
        self.ring((-r * 1.05, h, 0), h * 0.55, 0.12, 1, (90, 0, 0))
        self.drum((r * 1.15, h * 1.1, 0), 0.22, 0.5, 1, 0.5, (0, 0, -self.u(35, 55)))
        self.dome((0, h * 1.75, 0), (r * 0.55, 0.25, r * 0.55), 2)
        self.ball((0, h * 1.75 + 0.3, 0), 0.15, 3)

    def car(self) -> None:
        length, h, w = self.u(1.0, 1.2), self.u(0.28, 0.38), self.u(0.5, 0.65)
        back = self.u(-0.3, 0.2)
        self.box((0, 0.3 + h, 0), (length, h, w), 0)
        self.box((back, 0.3 + 2 * h + 0.26, 0), (length * self.u(0.45, 0.6), 0.28, w * 0.85), 1)
        for x in (-1, 1):
            for z in (-1, 1):
                self.drum((x * length * 0.58, 0.3, z * w), 0.32, 0.12, 3, turn=(90, 0, 0))

    def duck(self) -> None:
        body, head = self.u(0.55, 0.7), self.u(0.38, 0.48)
        self.ball((0, body, 0), (self.u(0.9, 1.05), body, 0.68), 0)
        self.ball((0.55, body * 1.6 + head * 0.8, 0), head, 1)
        self.drum((0.55 + head + 0.1, body * 1.6 + head * 0.75, 0), 0.22, 0.22, 2, 0.3, (0, 0, -90))
        self.drum((-0.95, body * 1.3, 0), 0.35, 0.3, 0, 0.1, (0, 0, 50))
        for z in (-1, 1):
            self.ball((0.55 + head * 0.65, body * 1.6 + head, z * head * 0.65), 0.11, 3)

    def cake(self) -> None:
        r, tiers, y = self.u(0.85, 1.0), int(self.rng.integers(2, 4)), 0.0
        for k in range(tiers):
            h = self.u(0.22, 0.34)
            self.drum((0, y + h, 0), r, h, k % 2)
            y, r = y + 2 * h, r * self.u(0.62, 0.75)
        self.ball((0, y + 0.15, 0), self.u(0.18, 0.25), 2)
        for x, z, _ in self.around(4, 0.55):
            self.ball((x, 0.62, z), 0.14, 3)

    def lighthouse(self) -> None:
        r, h = self.u(0.5, 0.62), self.u(0.8, 1.05)
        self.drum((0, 0.12, 0), r * 1.45, 0.14, 2)
        self.drum((0, 0.2 + h, 0), r, h, 0, self.u(0.55, 0.75))
        self.drum((0, 0.28 + 2 * h, 0), r * 0.85, 0.08, 2)
        self.drum((0, 0.5 + 2 * h, 0), r * 0.48, 0.2, 3)
        self.dome((0, 0.68 + 2 * h, 0), (r * 0.65, self.u(0.3, 0.5), r * 0.65), 1)

    def goblet(self) -> None:
        r = self.u(0.55, 0.75)
        self.drum((0, 0.1, 0), r, 0.12, 1)
        self.drum((0, 0.5, 0), 0.2, 0.4, 1)
        self.ball((0, 0.55, 0), 0.27, 2)
        self.drum((0, 1.3, 0), r * 0.65, 0.5, 0, 1 / 0.65)
        self.drum((0, 1.81, 0), r * 0.88, 0.02, 3)

    def cactus(self) -> None:
        h, r = self.u(0.7, 0.9), self.u(0.32, 0.42)
        self.drum((0, 0.25, 0), 0.5, 0.3, 1, self.u(1.15, 1.35))
        self.drum((0, 0.5 + h, 0), r, h, 0)
        self.ball((0, 0.5 + 2 * h, 0), r, 0)
        for side in (-1, 1):
            y = self.u(0.9, 1.4)
            self.drum((side * (r + 0.25), y, 0), 0.17, 0.28, 0, turn=(0, 0, 90))
            self.ball((side * (r + 0.5), y + 0.15, 0), (0.2, 0.42, 0.2), 0)
        self.ball((0, 0.6 + 2 * h + r, 0), 0.19, 2)

    def balloon(self) -> None:
        r = self.u(0.75, 0.9)
        self.ball((0, 1.7, 0), (r, self.u(0.8, 1.0), r), 0)
        self.drum((0, 0.85, 0), 0.3, 0.25, 1, 1.8)
        self.box((0, 0.28, 0), (0.3, 0.25, 0.3), 2)
        self.ring((0, 1.7, 0), r, 0.08, 3)

    def fish(self) -> None:
        h, w = self.u(0.55, 0.75), self.u(0.35, 0.5)
        self.ball((0, 0.8, 0), (self.u(0.9, 1.1), h, w), 0)
        self.box((-1.1, 0.8, 0), (0.5, self.u(0.45, 0.65), 0.14), 1, (0, 0, -90), shapes.PYRAMID)
        self.box((-0.1, 0.85 + h, 0), (0.4, 0.3, 0.12), 2, faces=shapes.GABLE)
        for z in (-1, 1):
            self.ball((0.6, 0.95, z * w * 0.72), 0.15, 3)

    def boat(self) -> None:
        length = self.u(0.95, 1.15)
        self.box((0, 0.35, 0), (length, 0.4, 0.5), 0, faces=shapes.HULL)
        self.drum((0, 1.1, 0), 0.09, 0.8, 3)
        self.box((self.u(0.3, 0.45), 1.25, 0), (0.75, 0.65, 0.1), 1, faces=shapes.PYRAMID)
        self.box((-length * 0.55, 0.85, 0), (0.26, 0.22, 0.3), 2)

    def ice_cream(self) -> None:
        r = self.u(0.5, 0.62)
        self.drum((0, 0.75, 0), 0.12, 0.75, 1, r / 0.12)
        self.ball((0, 1.65, 0), r, 0)
        self.ball((-0.3, 2.15, 0), r * self.u(0.65, 0.85), 2)
        self.ball((0.3, 2.25, 0.05), r * self.u(0.65, 0.85), 0)
        self.ball((0, 2.65, 0), 0.17, 3)

    def bell(self) -> None:
        r = self.u(0.75, 0.9)
        self.drum((0, 0.35, 0), r, 0.28, 1, 0.78)
        self.drum((0, 0.85, 0), r * 0.78, 0.3, 0, 0.85)
        self.dome((0, 1.1, 0), (r * 0.68, self.u(0.45, 0.7), r * 0.68), 0)
        self.ring((0, 1.8, 0), 0.22, 0.1, 2, (90, 0, 0))
        self.ball((0, 0.1, 0), 0.22, 3)

    def present(self) -> None:
        w, h, band = self.u(0.65, 0.85), self.u(0.45, 0.8), self.u(0.13, 0.18)
        self.box((0, h, 0), (w, h, w), 0)
        self.box((0, 2 * h, 0), (w * 1.08, 0.14, w * 1.08), 1)
        self.box((0, h, 0), (band, h * 1.16, w * 1.1), 2)
        self.box((0, h, 0), (w * 1.1, h * 1.16, band), 2)
        for side in (-1, 1):
            self.ring((side * 0.26, 2 * h + 0.32, 0), 0.2, 0.09, 3, (90, 0, 25 * side))

    def castle(self) -> None:
        r, h = self.u(0.5, 0.65), self.u(0.6, 0.85)
        self.drum((0, h, 0), r, h, 0)
        self.drum((0, 2 * h, 0), r * 1.2, 0.16, 1)
        self.drum((0, 2 * h + 0.55, 0), r * 1.1, 0.45, 2, 0)
        for x, z, _ in self.around(3, r * 1.15, self.u(0, 2)):
            self.drum((x, h * 0.7, z), 0.26, h * 0.7, 1)
            self.drum((x, h * 1.4 + 0.2, z), 0.34, 0.24, 2, 0)

    def caterpillar(self) -> None:
        count, r = int(self.rng.integers(4, 6)), self.u(0.42, 0.52)
        for k in range(count):
            last = k == count - 1
            place = (k * 0.58, r * (1 if k % 2 else 1.15) + 0.3 * last, 0.12 * (k % 2))
            self.ball(place, r * (1.15 if last else 1), 2 if last else k % 2)
        for z in (-1, 1):
            self.ball(((count - 1) * 0.58 + r * 0.9, r * 1.55, z * 0.2), 0.13, 3)

    def bear(self) -> None:
        body, head = self.u(0.65, 0.8), self.u(0.5, 0.6)
        top = 2 * body + head * 0.7
        self.ball((0, body, 0), (body, body * 1.05, body * 0.9), 0)
        self.ball((0, top, 0), head, 0)
        self.ball((0, top - 0.12, head * 0.85), head * 0.42, 1)
        for x in (-1, 1):
            self.ball((x * head * 0.75, top + head * 0.7, 0), head * 0.38, 1)
            self.ball((x * body * 0.95, body * 1.25, 0.2), (0.22, 0.38, 0.22), 2, (0, 0, x * 30))
            self.ball((x * body * 0.55, 0.2, body * 0.5), (0.27, 0.24, 0.4), 2)

    def crystal(self) -> None:
        sides, r, h = int(self.rng.choice([5, 6, 8])), self.u(0.55, 0.75), self.u(0.5, 0.8)
        self.drum((0, 0.14, 0), r * 1.3, 0.14, 2)
        self.box((0, 0.3 + h, 0), (r, h, r), 0, faces=shapes.column(sides))
        self.drum((0, 0.3 + 2 * h + 0.4, 0), r, 0.42, 1, 0)
        self.ball((0, 0.35 + 2 * h + 0.8, 0), 0.2, 3)


BLUEPRINTS = tuple(name for name in vars(Thing) if not name.startswith("_"))


def build(name: str, rng: np.random.Generator) -> list[Primitive]:
    """The primitives of a new object, centred on the origin and scaled to fit the unit ball."""
    draft = Thing(rng, [])
    getattr(draft, name)()
    rings = [1 + p.shape if p.kind == shapes.RING else 1 for p in draft.parts]
    reach = [np.linalg.norm(p.matrix, axis=1) * r for p, r in zip(draft.parts, rings, strict=True)]
    centre = np.array([p.centre for p in draft.parts])
    low, high = (centre - reach).min(axis=0), (centre + reach).max(axis=0)
    scale = 2 / np.linalg.norm(high - low)
    return [p.moved(np.eye(3) * scale, -(low + high) / 2 * scale) for p in draft.parts]
