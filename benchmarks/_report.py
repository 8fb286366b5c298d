"""Records of what was measured, as tables in docs/speed.md and in a terminal."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bgbias.errors import UserError
from bgbias.files.atomic import write_text

Record = dict[str, Any]


def publish(page: Path, device: str, records: Sequence[Record], names: Collection[str]) -> None:
    """Put records beside the page in the place of earlier ones, drop those of comparisons that are gone, and show all."""
    folder = page.with_suffix("") / device
    for record in records:
        write_text(folder / f"{record['comparison']}.json", json.dumps(record, indent=1) + "\n")
    for path in folder.glob("*.json"):
        if path.stem not in names:
            path.unlink()
    write(
        page, device, [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    )


def write(page: Path, device: str, records: Sequence[Record]) -> None:
    """Put a table for each machine, the one that measured last first, between the device's markers in a Markdown file; one
    without them is an error.
    """
    machines: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: str(record["begun"]), reverse=True):
        # How many threads, each comparison says by itself.
        machines.setdefault(repr(sorted((record["machine"] | {"threads": 0}).items())), []).append(record)
    in_order = [[record for record in records if record in measured] for measured in machines.values()]
    blocks = "\n\n".join(f"{describe(measured, device)}\n\n{table(measured)}" for measured in in_order)
    begin, end = f"<!-- bench {device} -->\n", f"\n<!-- end of bench {device} -->"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    before, has_begin, rest = text.partition(begin)
    _, has_end, after = rest.partition(end)
    if not (has_begin and has_end):
        raise UserError(f"{page} has no place for the figures; add the lines '{begin}{end}'.")
    write_text(page, "".join([before, begin, blocks, end, after]))


def describe(records: Sequence[Record], device: str) -> str:
    """Where and when the records were made."""
    machine = records[-1]["machine"]
    loads = [load for record in records for load in record["load"]]
    days = sorted({record["begun"][:10] for record in records})
    return (
        f"`python -m benchmarks --device {device}` on {machine.get('gpu', machine['cpu'])}, {machine['cores']} cores,"
        f" {machine['memory_gb']} GB (bf16: {machine['bf16']}), Python {machine['python']}, torch {machine['torch']},"
        f" {' to '.join(dict.fromkeys((days[0], days[-1])))}; load {min(loads):.1f} to {max(loads):.1f}."
        " Median [least - most] over rounds."
    )


def table(records: Sequence[Record]) -> str:
    """Markdown: one row a figure."""
    rows = ["| what | measured | bar | reached |", "|---|---|---|---|"]
    for record in records:
        rows.append(f"| **{record['title']}** | | | |")
        rows += [f"| {' | '.join(_cells(figure))} |" for figure in record["figures"]]
    return "\n".join(rows)


def _cells(figure: Record) -> tuple[str, str, str, str]:
    """What it is; the median, with the least and the most if there are several; its bar, and whether the median keeps to it."""
    low, high, values = figure["at_least"], figure["at_most"], figure["values"]
    bars = [f"{word} {bar:.4g}" for word, bar in (("at least", low), ("at most", high)) if bar is not None]
    if not values:
        return figure["what"], f"not measured: {figure['missing']}", ", ".join(bars), ""
    middle = median(values)
    ends = f" [{_digits(min(values))} - {_digits(max(values))}]" if len(values) > 1 else ""
    unit = "" if figure["unit"] in ("x", "") else f" {figure['unit']}"
    is_reached = (low is None or middle >= low) and (high is None or middle <= high)
    verdict = ("yes" if is_reached else "no") if bars else ""
    return figure["what"], f"{_digits(middle)}{ends}{unit}", ", ".join(bars), verdict


def _digits(value: float) -> str:
    """Three digits, ``7,110`` where a number is large."""
    three = f"{value:.3g}"
    return f"{float(three):,.0f}" if abs(value) >= 999.5 else three
