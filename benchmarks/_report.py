"""What was measured, for a terminal, for docs/speed.md and for MLflow."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bgbias.errors import UserError
from bgbias.files.atomic import write_text
from bgbias.progress import say

Record = dict[str, Any]


def told(record: Record) -> str:
    """One comparison: its contenders' times, then its figures against their bars."""
    begin, end = record["load"]
    lines = [
        f"{record['comparison']}: {record['title']}",
        f"  {record['device']}, {record['machine']['threads']} threads, {record['rounds']} rounds,"
        f" load {begin:.1f} at the beginning, {end:.1f} at the end",
    ]
    for contender in record["contenders"]:
        if contender["missing"]:
            said = contender["missing"]
        else:
            memory = contender["megabytes"]
            said = f"{spread(contender['seconds'])} s" + (
                "" if memory is None else f", {memory:.0f} MB extra"
            )
        lines.append(f"  {contender['role']:5} {contender['name']}: {said}")
    for figure in record["figures"]:
        lines.append(f"  -> {figure['what']}: {value(figure)}; {bar(figure)}: {verdict(figure)}".rstrip(": "))
    return "\n".join(lines)


def table(records: Sequence[Record], changed: Collection[str] = ()) -> str:
    """Markdown: one row a figure; a mark on comparisons that were ``changed`` since."""
    rows = ["| what | measured | bar | reached |", "|---|---|---|---|"]
    for record in records:
        rows.append(f"| **{record['title']}**{' †' * (record['comparison'] in changed)} | | | |")
        rows += [f"| {f['what']} | {value(f)} | {bar(f)} | {verdict(f)} |" for f in record["figures"]]
    return "\n".join(rows)


def value(figure: Record) -> str:
    """The median, and the least and the most where there are several."""
    unit = {"x": "", "": ""}.get(figure["unit"], f" {figure['unit']}")
    return spread(figure["values"]) + unit if figure["values"] else f"not measured: {figure['missing']}"


def bar(figure: Record) -> str:
    """What the figure should be, in words; empty where nothing is demanded."""
    words = [("at least", figure["at_least"]), ("at most", figure["at_most"])]
    return ", ".join(f"{word} {number:.4g}" for word, number in words if number is not None)


def verdict(figure: Record) -> str:
    """Whether the median keeps to the bar: yes or no; empty where there is nothing to say."""
    low, high = figure["at_least"], figure["at_most"]
    if not figure["values"] or (low is None and high is None):
        return ""
    found = median(figure["values"])
    return "yes" if (low is None or found >= low) and (high is None or found <= high) else "no"


def spread(values: Sequence[float]) -> str:
    """``1.23 [1.20 - 1.31]``: the median, the least and the most."""
    found, *ends = (_digits(value) for value in (median(values), min(values), max(values)))
    return f"{found} [{' - '.join(ends)}]" if len(values) > 1 else found


def _digits(value: float) -> str:
    """Three of them, without an exponent where a number is large: ``1.23``, ``7,110``."""
    three = f"{value:.3g}"
    return f"{float(three):,.0f}" if abs(value) >= 999.5 else three


def write(path: Path, device: str, records: Sequence[Record], changed: Collection[str] = ()) -> None:
    """Put the device's block between its markers in a Markdown file; the prose around it stays as it is.

    A table for each machine, the one that measured last first. ``changed``: comparisons that were changed since.
    """
    begin, end = place(path, device)
    text = path.read_text(encoding="utf-8")
    latest = sorted(records, key=lambda record: record["begun"], reverse=True)
    machines = dict.fromkeys(_machine_of(record) for record in latest)
    blocks = []
    for one in machines:
        of_it = [record for record in records if _machine_of(record) == one]
        head = machine(of_it, f"python -m benchmarks --device {device}")
        if any(record["comparison"] in changed for record in of_it):
            head += " †: before the comparison was changed."
        blocks.append(f"{head}\n\n{table(of_it, changed)}")
    block = "\n".join([begin, "\n\n".join(blocks), end])
    pattern = re.escape(begin) + ".*?" + re.escape(end)
    write_text(path, re.sub(pattern, lambda _: block, text, count=1, flags=re.DOTALL))


def _machine_of(record: Record) -> tuple[tuple[str, Any], ...]:
    # How many threads, each comparison says by itself.
    return tuple(sorted((key, value) for key, value in record["machine"].items() if key != "threads"))


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


def machine(records: Sequence[Record], command: str) -> str:
    """Where and when the records were made."""
    described = records[-1]["machine"]
    loads = [load for record in records for load in record["load"]]
    days = sorted({record["begun"][:10] for record in records})
    return (
        f"`{command}` on {described.get('gpu', described['cpu'])}, {described['cores']} cores,"
        f" {described['memory_gb']} GB (bf16: {described['bf16']}), Python {described['python']}, torch"
        f" {described['torch']}, {' to '.join(dict.fromkeys((days[0], days[-1])))}; load {min(loads):.1f} to"
        f" {max(loads):.1f}. Median [least - most] over rounds."
    )


# One run in MLflow's experiment of speed for each `python -m benchmarks`; the records under data/work/bench are the source.


def log(records: Sequence[Record]) -> None:
    """Log the figures and the contenders' seconds; a store that does not take them is reported, not an error."""
    if not records:
        return
    from bgbias.tracking import store, watch

    try:
        with store.experiment(watch.default_uri(Path.cwd()), "speed") as experiment:
            _log(experiment, records)
    except UserError as error:
        say(f"{error}")


def _log(experiment: Any, records: Sequence[Record]) -> None:
    from mlflow.entities import Metric

    now = round(1000 * time.time())
    described = records[-1]["machine"] | {"device": records[-1]["device"]}
    run = experiment.client.create_run(
        experiment.identity,
        now,
        {"mlflow.note.content": machine(records, "python -m benchmarks")},
        f"{described['device']} {records[-1]['begun']}",
    )
    metrics = [Metric(name, number, now, 0) for r in records for name, number in numbers(r).items()]
    experiment.log(run, {name: str(text) for name, text in described.items()}, metrics)
    experiment.client.set_terminated(run.info.run_id, "FINISHED", now)


def numbers(record: Record) -> dict[str, float]:
    """A record's metrics by the names that MLflow takes."""
    found = {f"{record['comparison']}/load": max(record["load"])}
    for contender in record["contenders"]:
        if contender["seconds"]:
            found[_name(record, contender["name"], "seconds")] = median(contender["seconds"])
        if contender["megabytes"] is not None:
            found[_name(record, contender["name"], "MB")] = contender["megabytes"]
    for figure in record["figures"]:
        if figure["values"]:
            found[_name(record, figure["what"])] = median(figure["values"])
    return found


def _name(record: Record, *parts: str) -> str:
    text = "/".join([record["comparison"], *parts])
    return re.sub(r"[^\w\-. /:]", "_", text)[:250]
