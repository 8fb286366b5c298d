"""What the objects wear: shared palettes, and patterns laid over a surface's own coordinates.

Classes share a few palettes, so that one flat colour never tells a class: shape, which part wears what, and pattern do.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

PALETTES = tuple(
    tuple(tuple(int(code[i : i + 2], 16) / 255 for i in (0, 2, 4)) for code in row.split())
    for row in (
        "e4572e f3efe0 17bebb ffc914 2e282a",
        "f6bd60 84a59d f28482 f7ede2 3d405b",
        "ef476f ffd166 06d6a0 118ab2 073b4c",
        "9b5de5 f15bb5 fee440 00bbf9 1b1b3a",
        "d62828 fcbf49 eae2b7 f77f00 003049",
        "588157 dad7cd a3b18a e07a5f 344e41",
        "3a86ff ff006e ffbe0b fafafa 22223b",
        "cdb4db ffafcc a2d2ff fff3b0 4a4e69",
    )
)


def edge(x: np.ndarray, soft: float = 0.1) -> np.ndarray:
    """0 below zero, 1 above, with a soft step: patterns must not alias at 64 pixels."""
    return np.clip(x / np.float32(soft) + 0.5, 0, 1)


def wave(x: np.ndarray) -> np.ndarray:
    """A triangle wave of period 1 in -.25 .. .25, positive in the first half."""
    return 0.25 - np.abs((x - 0.25) % 1 - 0.5)


def _checks(i: np.ndarray, j: np.ndarray) -> np.ndarray:
    a, b = wave(0.5 * i), wave(0.5 * j)
    return edge(np.where(a * b > 0, 1, -1) * np.minimum(np.abs(a), np.abs(b)))


def _dots(i: np.ndarray, j: np.ndarray) -> np.ndarray:
    row = np.floor(j)
    x, y = (i + 0.5 * (row % 2)) % 1 - 0.5, j - row - 0.5
    return edge(0.34 - np.sqrt(x * x + y * y))


def _lattice(i: np.ndarray, j: np.ndarray) -> np.ndarray:
    lines = np.minimum(np.abs(wave(0.5 * (i + j))), np.abs(wave(0.5 * (i - j))))
    return edge(0.07 - lines, 0.06)


Pattern = Callable[[np.ndarray, np.ndarray], np.ndarray]
PATTERNS: dict[str, Pattern] = {
    "plain": lambda i, j: np.zeros_like(i),
    "hoops": lambda i, j: edge(-wave(j)),
    "stripes": lambda i, j: edge(-wave(i)),
    "spiral": lambda i, j: edge(-wave(0.5 * i + j)),
    "checks": _checks,
    "dots": _dots,
    "zigzag": lambda i, j: edge(-wave(j + 1.6 * wave(i))),
    "halves": lambda i, j: edge(j),
    "lattice": _lattice,
}


@dataclass(frozen=True)
class Paint:
    """Two colours (linear light, [3]) and the pattern of the second over the first; ``cell`` is its period in world units."""

    first: np.ndarray
    second: np.ndarray
    pattern: str
    cell: float

    def on(self, coordinates: np.ndarray, painted: np.ndarray) -> np.ndarray:
        """Colours [3, N] at pattern coordinates [2, N]; where ``painted`` is 0 the plain first colour."""
        share = PATTERNS[self.pattern](coordinates[0], coordinates[1]) * painted
        return self.first[:, None] + (self.second - self.first)[:, None] * share


def wardrobe(rng: np.random.Generator) -> tuple[Paint, ...]:
    """The paints of a class's four slots: the first always patterned, the second sometimes, from one palette."""
    # Gamma 2, close enough to light.
    palette = np.array(PALETTES[rng.integers(len(PALETTES))], np.float32) ** 2
    order = rng.permutation(len(palette))
    names = [n for n in PATTERNS if n != "plain"]
    paints = []
    for slot in range(4):
        patterned = slot == 0 or (slot == 1 and rng.random() < 0.4)
        pattern = str(rng.choice(names)) if patterned else "plain"
        other = palette[order[(slot + 1 + int(rng.integers(4))) % 5]]
        paints.append(Paint(palette[order[slot]], other, pattern, float(rng.uniform(0.34, 0.6))))
    return tuple(paints)
