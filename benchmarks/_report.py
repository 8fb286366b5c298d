"""What was measured, for a terminal, for docs/speed.md and for MLflow."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bgbias.errors import UserError
from bgbias.files.atomic import write_text
from bgbias.progress import say

Record = dict[str, Any]


def format_record(record: Record) -> str:
    """One comparison: its contenders' times, then its figures against their bars."""
    begin, end = record["load"]
    lines = [
        f"{record['comparison']}: {record['title']}",
        f"  {record['device']}, {record['machine']['threads']} threads, {record['rounds']} rounds,"
        f" load {begin:.1f} at the beginning, {end:.1f} at the end",
    ]
    for contender in record["contenders"]:
        extra = contender["megabytes"]
        memory = "" if extra is None else f", {extra:.0f} MB extra"
        took = contender["missing"] or f"{spread(contender['seconds'])} s{memory}"
        lines.append(f"  {contender['role']:5} {contender['name']}: {took}")
    lines += [f"  -> {': '.join(filter(None, _cells(figure)))}" for figure in record["figures"]]
    return "\n".join(lines)


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
    unit = "" if figure["unit"] in ("x", "") else f" {figure['unit']}"
    value = spread(values) + unit if values else f"not measured: {figure['missing']}"
    bars = [f"{word} {bar:.4g}" for word, bar in (("at least", low), ("at most", high)) if bar is not None]
    verdict = ""
    if values and bars:
        middle = median(values)
        is_reached = (low is None or middle >= low) and (high is None or middle <= high)
        verdict = "yes" if is_reached else "no"
    return figure["what"], value, ", ".join(bars), verdict


def spread(values: Sequence[float]) -> str:
    """``1.23 [1.20 - 1.31]``: the median, the least and the most, each with three digits; ``7,110`` where a number is large."""

    def digits(value: float) -> str:
        three = f"{value:.3g}"
        return f"{float(three):,.0f}" if abs(value) >= 999.5 else three

    ends = f" [{digits(min(values))} - {digits(max(values))}]" if len(values) > 1 else ""
    return digits(median(values)) + ends


def write(path: Path, device: str, records: Sequence[Record]) -> None:
    """Put the device's block between its markers in a Markdown file; the prose around it stays as it is. A table for each
    machine, the one that measured last first.
    """
    begin, end = place(path, device)
    machines: dict[tuple[tuple[str, Any], ...], list[Record]] = {}
    for record in sorted(records, key=lambda record: str(record["begun"]), reverse=True):
        # How many threads, each comparison says by itself.
        machine = tuple(sorted((k, v) for k, v in record["machine"].items() if k != "threads"))
        machines.setdefault(machine, []).append(record)
    command = f"python -m benchmarks --device {device}"
    blocks = []
    for measured in machines.values():
        in_order = [record for record in records if record in measured]
        blocks.append(f"{describe(in_order, command)}\n\n{table(in_order)}")
    block = "\n".join([begin, "\n\n".join(blocks), end])
    pattern, text = re.escape(begin) + ".*?" + re.escape(end), path.read_text(encoding="utf-8")
    write_text(path, re.sub(pattern, lambda _: block, text, count=1, flags=re.DOTALL))


def place(path: Path, device: str) -> tuple[str, str]:
    """The lines between which the device's block stands in a Markdown file; a file without them is an error."""
    begin, end = f"<!-- bench {device} -->", f"<!-- end of bench {device} -->"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if begin not in text or end not in text.partition(begin)[2]:
        raise UserError(
            f"{path} has no place for the figures: it needs the lines '{begin}' and '{end}'. Add them and repeat"
            " the command."
        )
    return begin, end


def describe(records: Sequence[Record], command: str) -> str:
    """Where and when the records were made."""
    machine = records[-1]["machine"]
    loads = [load for record in records for load in record["load"]]
    days = sorted({record["begun"][:10] for record in records})
    return (
        f"`{command}` on {machine.get('gpu', machine['cpu'])}, {machine['cores']} cores, {machine['memory_gb']} GB"
        f" (bf16: {machine['bf16']}), Python {machine['python']}, torch {machine['torch']},"
        f" {' to '.join(dict.fromkeys((days[0], days[-1])))}; load {min(loads):.1f} to {max(loads):.1f}."
        " Median [least - most] over rounds."
    )


def log(records: Sequence[Record]) -> None:
    """Make a run in MLflow's experiment of speed; a store that does not take it is reported, not an error."""
    from bgbias.tracking import store, watch

    named: dict[str, Sequence[float]] = {}
    for record in records:
        name = record["comparison"]
        named[f"{name}/load"] = [max(record["load"])]
        named |= {f"{name}/{c['name']}/seconds": c["seconds"] for c in record["contenders"]}
        named |= {f"{name}/{c['name']}/MB": [c["megabytes"]] for c in record["contenders"] if c["megabytes"]}
        named |= {f"{name}/{figure['what']}": figure["values"] for figure in record["figures"]}
    values = {re.sub(r"[^\w\-. /:]", "_", key)[:250]: median(v) for key, v in named.items() if v}
    now, machine = round(1000 * time.time()), records[-1]["machine"] | {"device": records[-1]["device"]}
    note = {"mlflow.note.content": describe(records, "python -m benchmarks")}
    title = f"{machine['device']} {records[-1]['begun']}"
    try:
        with store.experiment(watch.default_uri(Path.cwd()), "speed") as experiment:
            from mlflow.entities import Metric

            run = experiment.client.create_run(experiment.identity, now, note, title)
            metrics = [Metric(key, value, now, 0) for key, value in values.items()]
            experiment.log(run, {key: str(value) for key, value in machine.items()}, metrics)
            experiment.client.set_terminated(run.info.run_id, "FINISHED", now)
    except UserError as error:
        say(f"{error}")
