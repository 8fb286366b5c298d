"""One run in MLflow's experiment of speed for each `python -m benchmarks`; the records under data/work/bench are the source."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks._report import Record, machine
from bgbias.errors import UserError
from bgbias.progress import say
from bgbias.tracking import store, watch


def log(records: Sequence[Record]) -> None:
    """Log the figures and the contenders' seconds; a store that does not take them is reported, not an error."""
    if not records:
        return
    try:
        with store.experiment(watch.default_uri(Path.cwd()), "speed") as experiment:
            _log(experiment, records)
    except UserError as error:
        say(f"{error}")


def _log(experiment: store.Experiment, records: Sequence[Record]) -> None:
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
