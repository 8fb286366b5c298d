"""What MLflow shows of a step, made of its record: parameters, metrics, tags, files, curves. MLflow itself is not here.

A model's run is called, scaled, coloured and described as in the tables. MLflow's own table of runs shows neither parameters nor
metrics until they are chosen, and its charts are one bar chart a metric: an experiment has shared views (``views.yaml``), each
kept in a tag, which choose runs, columns and charts.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from bgbias.compute.vitals import is_plotted
from bgbias.files.code import hash_text
from bgbias.report import html, names, style
from bgbias.report.columns import NOTHING

CELL_PARAMS = ("dataset", "backbone", "loss", "method", "seed")
NOTE, COLOUR = "mlflow.note.content", "mlflow.runColor"
# The mark of a description of ours: one that somebody has edited is left alone.
WRITTEN = "bgbias.note"
_PAGES = yaml.safe_load(Path(__file__).with_name("views.yaml").read_text(encoding="utf-8"))
SYSTEM: dict[str, str] = _PAGES["system"]
# As MLflow's table calls them.
RUN_NAME, CREATED = "attributes.`Run Name`", "runDateAndNestInfo"

# The run of a model, which joins those of its steps.
MODEL_RUN = "cell"
# What a person opens from a run's page. Embeddings and stores are named by checksum, never copied.
PICTURES = frozenset({".png", ".svg", ".pdf", ".md", ".tex", ".html"})
# The steps whose CSV files are read by people; those of the others have a row a photo.
REPORT = frozenset({"collect", "table", "figure"})
PICTURE_BYTES = 5_000_000  # small enough to be copied into a store
# MLflow's limits on the length of a value, and the characters it takes in a name.
PARAM_LENGTH, TAG_LENGTH = 6000, 8000
FORBIDDEN = re.compile(r"[^\w\-. /:]")
DIGEST = re.compile(r"[0-9a-f]{16,}")
STATUS = {"running": "RUNNING", "done": "FINISHED", "failed": "FAILED"}
# Columns of a history that say how much time an epoch took.
PASSED = ("train_seconds", "validate_seconds")


@dataclass(frozen=True)
class Collection:
    """Photos, masks or backgrounds that a step made: where they lie, where they came from, how many there are."""

    name: str
    digest: str
    role: str
    source: str
    profile: dict[str, Any]


class Point(NamedTuple):
    """A point of a curve, as ``mlflow.entities.Metric`` takes it."""

    metric: str
    value: float
    time: int
    step: int


@dataclass(frozen=True)
class Entry:
    """What MLflow is to show of one step or model; equal entries show the same. Times are milliseconds since 1970."""

    key: str
    node: str
    digest: str
    name: str
    status: str
    started: int
    finished: int | None
    params: dict[str, str]
    tags: dict[str, str]
    metrics: dict[str, float]
    upstream: dict[str, str]
    """Digests of the steps that made what it read."""
    files: tuple[Path, ...] = ()
    """What its run has a copy of."""
    tables: tuple[Path, ...] = ()
    """CSV files that its model's run has a copy of."""
    model: tuple[Path, str] | None = None
    """Trained weights that are here, and their SHA-256."""
    history: str = ""
    """CSV: the epochs so far."""
    vitals: str = ""
    """CSV: what the process took of its machine, once it has ended."""
    collection: Collection | None = None
    datasets: tuple[Collection, ...] = ()
    """The collections behind a model."""

    def epochs(self) -> list[Point]:
        """The training curve so far; a model's run has it as the tables call and scale their numbers."""
        points: list[Point] = []
        elapsed = 0.0
        rows = list(_rows(self.history))
        for row in rows:
            elapsed += sum(row.get(name, 0.0) for name in PASSED)
            time, epoch = self.started + round(1000 * elapsed), int(row.pop("epoch"))
            values = {f"epoch/{name}": value for name, value in row.items()}
            if self.node == MODEL_RUN:
                values = named_metrics(values)
            if is_plotted(epoch) or (row is rows[-1] and self.status == "FINISHED"):
                points += [Point(name, value, time, epoch) for name, value in values.items()]
        return points

    def samples(self) -> list[Point]:
        """What its process took of the machine."""
        points: list[Point] = []
        for number, row in enumerate(_rows(self.vitals), 1):
            time = self.started + round(1000 * row.pop("elapsed_seconds"))
            points += [Point(SYSTEM[name], value, time, number) for name, value in row.items()]
        return points

    def fingerprint(self) -> str:
        """Of all but what only grows."""
        return hash_text(repr(replace(self, history="")))


def entry_of(record: dict[str, Any]) -> Entry:
    """A record as an entry; ``KeyError`` or ``ValueError`` if it lacks what every record has."""
    node, subject = record["node"], record.get("subject") or ""
    cell, outputs = record.get("cell") or {}, record.get("outputs") or {}
    flat = _flat({k: v for k, v in record["spec"].items() if k not in ("node", "version", "subject")})
    upstream = {k: v for k, v in flat.items() if DIGEST.fullmatch(v)}
    place = {"node": node} | {k: str(cell[k]) for k in CELL_PARAMS if k in cell}
    params = place | {k: v for k, v in flat.items() if k not in upstream and k not in place}
    of_record = {k: record.get(k) for k in ("inputs", "outputs", "packages", "notes")} | {
        "upstream": upstream
    }
    tags = {
        **{k: record.get(k) for k in ("grid", "git_commit", "device", "host", "error")},
        "subject": subject,
        "mlflow.source.git.commit": record.get("git_commit"),
        "mlflow.source.name": f"bgbias {node}",
        "mlflow.source.type": "LOCAL",
        NOTE: record.get("command") and f"Repeat with `{record['command']}`",
        COLOUR: cell and style.colour(cell["method"]),
        "model": cell and model_name({k: v for k, v in cell.items() if k != "seed"}),
        **{k: v and json.dumps(v, sort_keys=True) for k, v in of_record.items()},
        **place,
    }
    metrics = {
        **(record.get("metrics") or {}),
        **{k: record.get(k) for k in ("seconds", "peak_memory_mb")},
    }
    small = [path for path in map(Path, outputs) if _is_small(path)]
    suffixes = PICTURES | {".csv"} if node in REPORT else PICTURES
    weights = [(Path(name), sum_) for name, sum_ in outputs.items() if name.endswith("model.safetensors")]
    return Entry(
        key=f"{record.get('grid') or 'shared'}/{node}/{subject}",
        node=node,
        digest=record["digest"],
        name=f"{node} {model_name(cell) if cell else subject.replace('/', ' ')}".strip(),
        status=STATUS[record["status"]],
        started=_milliseconds(record["started"]),
        finished=_milliseconds(record["finished"]) if record.get("finished") else None,
        params={_word(k): v for k, v in params.items()},
        tags={_word(k): str(v)[:TAG_LENGTH] for k, v in tags.items() if v},
        metrics={_word(k): float(v) for k, v in metrics.items() if isinstance(v, int | float)},
        upstream=upstream,
        files=tuple(path for path in small if path.suffix in suffixes),
        tables=tuple(path for path in small if cell and path.suffix == ".csv"),
        model=weights[0] if node == "train" and weights and weights[0][0].exists() else None,
        history=_history(record),
        vitals=record.get("vitals") or "",
        collection=_collection(record) if record.get("collection") else None,
    )


def mark(points: Sequence[Point]) -> str:
    """A fingerprint of points, to tell a curve that has grown from one that began anew."""
    # Not of times, which begin anew where a training is resumed.
    return hash_text(repr([(point.metric, point.value, point.step) for point in points]))


def _collection(record: dict[str, Any]) -> Collection:
    (role, source), spec = record["collection"], record["spec"]
    origin = (spec.get("options") or {}).get("source") or spec.get("pools")
    profile = {"kind": spec.get("kind"), "origin": origin, **(record.get("metrics") or {})}
    profile_tags = {k: v for k, v in profile.items() if v is not None}
    return Collection(f"{record['subject']} {role}", record["digest"], role, source, profile_tags)


def _history(record: dict[str, Any]) -> str:
    """The CSV of the epochs so far; of a finished training, its record has the columns of seconds."""
    text = ""
    with suppress(OSError):  # training moves its history to its final place when it ends
        text = Path(record["history"]).read_text(encoding="utf-8") if record.get("history") else ""
    for name, values in sorted((record.get("epoch_seconds") or {}).items()):
        lines = text.splitlines()
        if len(values) == len(lines) - 1 and name not in lines[0].split(","):
            text = "".join(f"{line},{value}\n" for line, value in zip(lines, [name, *values], strict=True))
    return text


def _rows(text: str) -> Iterator[dict[str, float]]:
    """The numbers of each row of a CSV by column; what has no end of line is still being written."""
    head, *lines = [line.split(",") for line in text.split("\n")[:-1]] or [[]]
    for fields in lines:
        if len(fields) == len(head):
            row = {name: float(field) for name, field in zip(head, fields, strict=True) if field}
            yield {name: value for name, value in row.items() if math.isfinite(value)}


def _is_small(path: Path) -> bool:
    with suppress(OSError):
        return path.stat().st_size <= PICTURE_BYTES
    return False


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
    """Nested options as dotted names: ``{"train": {"lr": 1}}`` is ``{"train.lr": "1"}``."""
    if isinstance(value, dict):
        inner = [_flat(v, f"{prefix}.{k}" if prefix else str(k)) for k, v in value.items()]
        return {k: v for part in inner for k, v in part.items()}
    text = value if isinstance(value, str) else json.dumps(value)
    return {prefix: text if len(text) <= PARAM_LENGTH else text[: PARAM_LENGTH - 1] + "…"}


def _word(name: str) -> str:
    return FORBIDDEN.sub("_", name)[:250]


def _milliseconds(iso: str) -> int:
    return round(1000 * datetime.fromisoformat(iso).timestamp())


def model_name(cell: Mapping[str, Any]) -> str:
    """``Contrastive + BGAugment, demo_90, seed 0 (tiny)``, without a seed if the cell has none: the backbone last, since tables
    cut long names at the end, and most grids have one backbone a dataset.
    """
    seed = f", seed {cell['seed']}" if "seed" in cell else ""
    row = names.row(cell["loss"], cell["method"], below_plain=False)
    return f"{row}, {names.dataset(cell['dataset'])}{seed} ({cell['backbone']})"


def named_metrics(values: Mapping[str, float]) -> dict[str, float]:
    """Values by the names and in the units of a model's run; others stay as they are."""
    calls = _PAGES["named"]
    ours = {
        calls[key][0]: round(calls[key][1] * v, calls[key][2]) for key, v in values.items() if key in calls
    }
    return ours | {key: value for key, value in values.items() if key not in calls}


def description_tags(title: str, metrics: Mapping[str, float], grid: str) -> dict[str, str]:
    """The tags of a model's description: the results so far, in the units of the tables."""
    measured = [row for row in _PAGES["described"] if row[1] in metrics]
    heads = [head for head, *_ in measured] or [NOTHING]
    values = [html.number(factor * metrics[key], digits) for _, key, factor, digits in measured] or [NOTHING]
    table = [f"| {' | '.join(line)} |" for line in (heads, ["---:"] * len(heads), values)]
    note = "\n".join([f"**{title}**", "", *table, "", _PAGES["about_run"].format(grid=grid)])
    return {NOTE: note, WRITTEN: hash_text(note)}


def editable(tags: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """The tags to set on a run that has these already: people edit descriptions and colours in MLflow's pages."""
    theirs = {COLOUR} & before.keys()
    if NOTE in before and before.get(WRITTEN) != hash_text(before[NOTE]):
        theirs |= {NOTE, WRITTEN}
    return {key: value for key, value in tags.items() if key not in theirs}


def page(experiment: str, view: str = "cell") -> str:
    """The address of a view, to be put behind the ``http://host:port/`` of an MLflow server."""
    mode = "" if view == "cell" else "&compareRunsMode=CHART"
    return f"#/experiments/{experiment}/runs?viewStateShareKey={view}&workflowType=machine_learning{mode}"


def note(experiment: str) -> str:
    """The experiment's description; its first line, which stands above the runs, links to the views."""
    links = " · ".join(f"[{title}]({page(experiment, view)})" for view, title in _PAGES["titles"].items())
    return f"Compare models: {links}.\n\n{_PAGES['about']}"


def view_tags() -> dict[str, str]:
    """The views, and what kind of experiment this is, as tags of the experiment."""
    views = {"mlflow.experimentKind": "custom_model_development"}
    for view, charts in _PAGES["charts"].items():
        columns = [f"metrics.`{key}`" for key in _PAGES["metrics"][view]]
        order = [RUN_NAME, CREATED, *columns]
        widths = dict.fromkeys(order, _PAGES["width"]) | dict(zip(order, _PAGES["widths"], strict=False))
        shown = {"selectedColumns": columns, "columnOrder": order, "columnWidths": widths}
        views[f"mlflow.sharedViewState.{view}"] = json.dumps(_PAGES["table"] | shown | charts)
    return views
