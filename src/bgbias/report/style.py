"""What all figures share: their look, their colours, and files whose bytes depend on the data alone.

Figures are built without pyplot: no global state, no window, and a figure is gone when nobody holds it. matplotlib is imported
when something is drawn, since planning imports the files of all figures.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bgbias.errors import UserError
from bgbias.files import atomic
from bgbias.images.contact_sheet import MUTED, PAPER
from bgbias.report import names
from bgbias.settings import read_yaml
from bgbias.study.cell import side_by_side

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

DPI = 200
# Inches: the text width of a two-column paper.
WIDTH = 7.0
_COLOURS = read_yaml(Path(__file__).parent / "style.yaml")
PALETTE, OTHERS, SHADES = (_COLOURS[name] for name in ("palette", "others", "shades"))
BLACK, READABLE = "#000000", 4.5
RIGHT, WRONG = "#15915A", "#C4283B"
STYLE = Path(__file__).parent / "look.mplstyle"


def colour(method: str) -> str:
    """A method's colour, the same in every figure: that of its file's PLACE. A shade of it for the file's other entries
    (``sam_triplet_8``), lighter for what stands between two places, darker with another method on top
    (``sam_triplet+bgaugment``) and for the embeddings of folds side by side. Without a PLACE, one by its name.
    """
    alone, length = side_by_side(method)
    if length:
        return _mix(colour(alone), BLACK)
    family = names.family(method)
    rank = names.find_rank("methods", family)
    has_place = rank < len(PALETTE)
    base = PALETTE[int(rank)] if has_place else OTHERS[sum((family or method).encode()) % len(OTHERS)]
    if family and "+" in method:
        return _mix(base, BLACK)
    if has_place and rank != int(rank):
        base = _mix(base, PAPER)
    if not family or method == family:
        return base
    known_entries = list(names.entries(family))
    at = known_entries.index(method) if method in known_entries else 0
    return _mix(base, *SHADES[at % len(SHADES)])


def ink(method: str) -> str:
    """The method's colour as letters on white, or white letters on it, can be read: with a contrast of 4.5 (WCAG 2, AA)."""
    shade = colour(method)
    while _contrast(shade) < READABLE:
        shade = _mix(shade, BLACK, 0.05)
    return shade


def _mix(one: str, other: str, share: float = 0.35) -> str:
    parts = zip(*(bytes.fromhex(c[1:]) for c in (one, other)), strict=True)
    return "#" + "".join(f"{round((1 - share) * a + share * b):02X}" for a, b in parts)


def _contrast(colour: str) -> float:
    """Of white to a colour, as WCAG 2 defines it."""
    shares = np.frombuffer(bytes.fromhex(colour[1:]), np.uint8) / 255
    linear = np.where(shares <= 0.03928, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    return float(1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05))


def style() -> AbstractContextManager[None]:
    """The project's look, for the figure made inside."""
    from matplotlib.style import context

    return context(STYLE)


def blank(width: float, height: float) -> Figure:
    """An empty figure of so many inches, ready to be drawn without a display; matplotlib finds its axes room."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def handle(label: str, **style: Any) -> Line2D:
    """An entry of a legend, grey if its style says nothing else."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **{"color": MUTED} | style)


def save(figure: Figure, folder: Path, name: str) -> None:
    """``name``.pdf (vector) and ``name``.png (200 dpi) in ``folder``, atomically; same data, same bytes."""
    for kind in ("pdf", "png"):
        write(figure, folder / f"{name}.{kind}")


def write(figure: Figure, path: Path) -> None:
    """The figure as a .pdf (vector) or .png (200 dpi), by the file's name; another ending is an error."""
    # Without what would come from a clock or a version.
    nothing = {".pdf": {"CreationDate": None}, ".png": {"Software": None}}.get(path.suffix.lower())
    if nothing is None:
        raise UserError(f"A figure is a .png or a .pdf, not '{path.name}'; give it another name.")
    with style(), atomic.replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lower()[1:], dpi=DPI, metadata=nothing)
