"""A Mermaid flowchart as a picture of its own: Mermaid itself would be fetched from the network. GitHub draws the source."""

from __future__ import annotations

import re
from collections import defaultdict
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
    names = list(dict.fromkeys(name for arrow in arrows for name in arrow))
    columns: dict[int, list[str]] = defaultdict(list)
    for name in sorted(names, key=lambda n: (_depth(n, before), n)):
        columns[_depth(name, before)].append(name)
    rows = max(map(len, columns.values()))
    place = {
        name: (depth * ACROSS + WIDTH / 2 + 2, (row + 0.5 + (rows - len(column)) / 2) * DOWN)
        for depth, column in columns.items()
        for row, name in enumerate(column)
    }
    lines = [_line(*place[first], *place[then]) for first, then in arrows]
    boxes = [
        f'<rect x="{x - WIDTH / 2:g}" y="{y - HEIGHT / 2:g}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
        f'<text x="{x:g}" y="{y:g}">{name}</text>'
        for name, (x, y) in place.items()
    ]
    size = f"0 0 {len(columns) * ACROSS - (ACROSS - WIDTH) + 4:g} {rows * DOWN:g}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" role="img">{"".join(lines + boxes)}</svg>'
    )


def _depth(name: str, before: dict[str, list[str]]) -> int:
    return max((1 + _depth(first, before) for first in before[name]), default=0)


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    x, to_x = x + WIDTH / 2, to_x - WIDTH / 2
    middle = (x + to_x) / 2
    return f'<path d="M{x:g},{y:g} C{middle:g},{y:g} {middle:g},{to_y:g} {to_x:g},{to_y:g}"/>'
