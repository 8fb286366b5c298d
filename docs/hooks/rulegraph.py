"""A Mermaid flowchart as a picture of its own: Mermaid itself would be fetched from the network. GitHub draws the source."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise
from typing import Any

WIDTH, HEIGHT, ACROSS, DOWN = 96, 30, 132, 46


def on_config(config: Any, **_: Any) -> Any:
    """Code blocks in the language ``mermaid`` are drawn by ``svg``."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {}).setdefault("custom_fences", [])
    fences.append(
        {
            "name": "mermaid",
            "class": "rulegraph",
            "format": lambda source, *_, **__: f'<div class="rulegraph">{svg(source)}</div>',
        }
    )
    return config


def svg(source: str) -> str:
    """The arrows ``a --> b`` of a flowchart, from left to right: whoever reads stands right of all that it reads from."""
    arrows = re.findall(r"^\s*(\w+) --> (\w+)$", source, re.MULTILINE)
    before: dict[str, list[str]] = defaultdict(list)
    for first, then in arrows:
        before[then].append(first)
    depth = {name: _depth(name, before) for name in dict.fromkeys(name for arrow in arrows for name in arrow)}
    # A line that passes a column has a place of its own there.
    chains = [
        [first, *(f"{first}>{then}>{d}" for d in range(depth[first] + 1, depth[then])), then]
        for first, then in arrows
    ]
    columns: dict[int, list[str]] = defaultdict(list)
    left: dict[str, list[str]] = defaultdict(list)
    for start, chain in zip((depth[first] for first, _ in arrows), chains, strict=True):
        for number, name in enumerate(chain):
            at = depth.get(name, start + number)
            columns[at] += [] if name in columns[at] else [name]
            left[name] += chain[number - 1 : number]
    rows = max(map(len, columns.values()))
    place: dict[str, tuple[float, float]] = {}
    for at, column in sorted(columns.items()):
        column.sort(key=lambda name: (sum(place[n][1] for n in left[name]) / max(1, len(left[name])), name))
        for row, name in enumerate(column):
            place[name] = at * ACROSS + WIDTH / 2 + 2, (row + 0.5 + (rows - len(column)) / 2) * DOWN
    lines = [_line(place[a], place[b], a in depth, b in depth) for c in chains for a, b in pairwise(c)]
    boxes = [
        f'<rect x="{x - WIDTH / 2:g}" y="{y - HEIGHT / 2:g}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
        f'<text x="{x:g}" y="{y:g}">{name}</text>'
        for name, (x, y) in place.items()
        if name in depth
    ]
    size = f"0 0 {len(columns) * ACROSS - (ACROSS - WIDTH) + 4:g} {rows * DOWN:g}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" role="img">{"".join(lines + boxes)}</svg>'
    )


def _depth(name: str, before: dict[str, list[str]]) -> int:
    return max((1 + _depth(first, before) for first in before[name]), default=0)


def _line(start: tuple[float, float], end: tuple[float, float], from_box: bool, to_box: bool) -> str:
    (x, y), (to_x, to_y) = start, end
    x, to_x = x + from_box * WIDTH / 2, to_x - to_box * WIDTH / 2
    middle = (x + to_x) / 2
    return f'<path d="M{x:g},{y:g} C{middle:g},{y:g} {middle:g},{to_y:g} {to_x:g},{to_y:g}"/>'
