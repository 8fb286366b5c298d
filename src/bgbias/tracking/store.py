"""The one door to MLflow: a grid's experiment, prepared once and written by one process at a time.

A run is found again by two tags, the node's key and its digest. Writing an entry twice changes nothing; one
whose settings have changed gets a run of its own, and the old one is marked as superseded.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bgbias.compute.vitals import shown
from bgbias.errors import UserError
from bgbias.files.locks import locked
from bgbias.tracking import entries, faults, looks, registry, views
from bgbias.tracking.curves import Point, mark
from bgbias.tracking.entries import Entry
from bgbias.tracking.records import NODE
from bgbias.tracking.runs import Runs

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput, Metric, Run, RunData

SQLITE = "sqlite:///"
PREFIX = "bgbias-"  # of a grid's experiment
LOCK_SECONDS = 60.0
DATASET_NAME, DATASET_DIGEST = 500, 36  # characters
KEY, DIGEST, FINGERPRINT = "bgbias.key", "bgbias.digest", "bgbias.fingerprint"
SUPERSEDED = views.CURRENT
# How much of a curve a run has: rows and a mark of them; samples and the process's start.
HISTORY, SAMPLES = "bgbias.history", "bgbias.samples"
# A server that does not answer must not hold up a workflow's end; whoever sets these otherwise is obeyed.
ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
}
_opened: dict[Path, int] = {}  # databases by their inode
Outcome = Literal["created", "updated", "unchanged"]


class Experiment:
    """The runs of one grid in one store."""

    def __init__(self, client: MlflowClient, identity: str, runs: Runs) -> None:
        self.client = client
        self.identity = identity
        self._store = runs
        self._runs: dict[str, list[Run]] = {}

    def write(self, entries: Collection[Entry]) -> list[Outcome]:
        """Make the entries' runs show what the entries say, and tell what each took."""
        self._runs = {entry.key: [] for entry in entries}
        for run in self._store.find(KEY, self._runs):
            self._runs.get(run.data.tags.get(KEY, ""), []).append(run)
        return [self._write(entry) for entry in entries]

    def _write(self, entry: Entry) -> Outcome:
        rows, samples = entry.epochs(), entry.samples()
        run = self._current(entry)
        outcome: Outcome = "updated" if run else "created"
        if run and not _continues(run, entry, rows):
            # MLflow takes back no parameter, no result and no point of a curve: what began anew gets a new run.
            self.client.delete_run(run.info.run_id)
            run = None
        wanted = _state(entry, rows, samples, run)
        if run and run.info.status == entry.status and wanted.items() <= run.data.tags.items():
            return "unchanged"
        if run is None:
            tags = entry.tags | {KEY: entry.key, DIGEST: entry.digest}
            run = self._store.create(entry.started, tags, entry.name)
        elif run.data.tags.get(SUPERSEDED) != "no":
            self.client.update_run(run.info.run_id, name=entry.name)
        self._fill(run, entry, _metrics(entry, run.data, rows, samples), wanted)
        return outcome

    def _current(self, entry: Entry) -> Run | None:
        """The run with the entry's key and digest; runs of the key with another digest become superseded."""
        current: Run | None = None
        for run in self._runs.get(entry.key, []):
            if run.data.tags.get(DIGEST) != entry.digest:
                if run.data.tags.get(SUPERSEDED) == "no":
                    self._supersede(run, entry)
            elif current is None:
                current = run
            else:
                # Two machines wrote to one server at the same moment.
                self.client.delete_run(run.info.run_id)
        return current

    def _supersede(self, run: Run, entry: Entry) -> None:
        self.client.set_tag(run.info.run_id, SUPERSEDED, f"by {entry.digest}")
        self.client.update_run(run.info.run_id, name=f"(superseded) {run.info.run_name}")
        if run.info.status == "RUNNING":
            self.client.set_terminated(run.info.run_id, "KILLED", entry.started)

    def _fill(self, run: Run, entry: Entry, metrics: list[Metric], wanted: dict[str, str]) -> None:
        params = {k: v for k, v in entry.params.items() if k not in run.data.params}
        self._store.log(run, params, metrics)
        if run.data.tags.get(FINGERPRINT) != wanted[FINGERPRINT]:
            self._attach(run, entry)
        # Last, since they say that all the rest is there.
        tags = looks.kept(entry.tags | wanted, run.data.tags)
        changed = {k: v for k, v in tags.items() if run.data.tags.get(k) != v}
        self._store.set_state(run, entry.status, entry.finished or entry.started, changed)

    def _attach(self, run: Run, entry: Entry) -> None:
        """Datasets, pictures, the trained model, and away with the error of a run that has been mended."""
        known = {read.dataset.name for read in (run.inputs.dataset_inputs if run.inputs else ())}
        use = "training" if entry.node == "train" else "evaluation"
        inputs = [_dataset(read, use) for read in entry.datasets]
        if new := [read for read in inputs if read.dataset.name not in known]:
            self._store.add_inputs(run, new)
        for picture in filter(Path.exists, entry.pictures):
            self.client.log_artifact(run.info.run_id, str(picture))
        if entry.model:
            registry.register(self.client, run, entry)
        if "error" in run.data.tags and "error" not in entry.tags:
            self.client.delete_tag(run.info.run_id, "error")


@contextmanager
def experiment(uri: str, grid: str) -> Iterator[Experiment]:
    """The experiment ``bgbias-<grid>``, made if need be, for this process alone while the block lasts.

    A store that cannot be reached, read or written is a ``UserError``; a ``Conflict`` where another machine was faster.
    """
    faults.check_uri(uri)
    os.environ.update({k: v for k, v in ENVIRONMENT.items() if k not in os.environ})
    try:
        import alembic.util
        import sqlalchemy.exc
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        raise faults.fault(uri, error) from error
    # MLflow and its libraries report each failure with a stack trace of their own; ours is one line.
    for noisy in ("mlflow", "alembic", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    of_database = (sqlalchemy.exc.SQLAlchemyError, alembic.util.CommandError)
    try:
        # One writer a store: two would both migrate a fresh database, or both make a node's run.
        with locked(_lock_of(uri), LOCK_SECONDS):
            _check_unchanged(uri)
            client = MlflowClient(tracking_uri=uri)
            identity = _identity(client, uri, f"{PREFIX}{grid}")
            _check_unchanged(uri)
            yield Experiment(client, identity, Runs(client, identity))
    except (MlflowException, *of_database, OSError, ImportError) as error:
        raise faults.fault(uri, error) from error


def grids(uri: str) -> dict[str, str]:
    """The experiment's id of each grid that a store has, the one that ran last first."""
    faults.check_uri(uri)
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    found = []
    for experiment in client.search_experiments():
        newest = client.search_runs([experiment.experiment_id], order_by=["start_time DESC"], max_results=1)
        if experiment.name.startswith(PREFIX) and newest:
            grid = experiment.name.removeprefix(PREFIX)
            found.append((newest[0].info.start_time, grid, str(experiment.experiment_id)))
    return {grid: identity for _, grid, identity in sorted(found, reverse=True)}


def _check_unchanged(uri: str) -> None:
    """MLflow keeps its connection to a database for as long as the process lives, also when somebody has deleted it."""
    path = database(uri)
    if not uri.startswith(SQLITE) or (path not in _opened and not path.exists()):
        return
    now = path.stat().st_ino if path.exists() else 0
    if _opened.setdefault(path, now) != now:
        raise UserError(
            f"{path} was deleted or replaced while this process wrote to it. The records are safe; show them again with:"
            " python -m bgbias track"
        )


def _lock_of(uri: str) -> Path:
    if uri.startswith(SQLITE):
        return database(uri).with_name(f"{database(uri).name}.lock")
    name = sha256(uri.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"bgbias-{os.getuid()}-{name}.lock"


def database(uri: str) -> Path:
    """The file of a store in SQLite."""
    return Path(uri.removeprefix(SQLITE)).absolute()


def artifacts(uri: str) -> Path | None:
    """Where the runs' files lie: beside a local database; a server knows its own place."""
    return database(uri).parent / "mlartifacts" if uri.startswith(SQLITE) else None


def _identity(client: MlflowClient, uri: str, name: str) -> str:
    """The experiment's id; one deleted in the UI comes back."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        place = artifacts(uri)
        identity = client.create_experiment(name, str(place) if place else None)
        client.set_experiment_tag(identity, "mlflow.note.content", views.note(identity))
        experiment = client.get_experiment(identity)
    elif experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    for key, value in views.tags().items():
        if experiment.tags.get(key) != value:
            client.set_experiment_tag(experiment.experiment_id, key, value)
    return str(experiment.experiment_id)


def _state(entry: Entry, rows: Sequence[Point], samples: Sequence[Point], run: Run | None) -> dict[str, str]:
    """The tags of a run that shows all of the entry."""
    # A history that is not there at the moment (it moves when training ends) takes nothing back.
    before = run.data.tags if run else {}
    history = f"{len(rows)}:{mark(rows)}" if rows else before.get(HISTORY)
    sampled = f"{len(samples)}:{entry.started}" if samples else before.get(SAMPLES)
    state = {FINGERPRINT: entry.fingerprint(), SUPERSEDED: "no", HISTORY: history, SAMPLES: sampled}
    return {name: value for name, value in state.items() if value}


def _continues(run: Run, entry: Entry, rows: Sequence[Point]) -> bool:
    """Whether the entry only adds to what its run already shows."""
    number, _, before = run.data.tags.get(HISTORY, "0:").partition(":")
    grown = not rows or not int(number) or mark(rows[: int(number)]) == before
    params = all(run.data.params.get(k, v) == v for k, v in entry.params.items())
    # A node at work has no results yet, and may have had some; a model's must be those of one training.
    metrics = entry.node != NODE or {k for k in run.data.metrics if "/" not in k} <= entry.metrics.keys()
    inputs = {i.dataset.name: i.dataset.digest for i in run.inputs.dataset_inputs} if run.inputs else {}
    datasets = all(inputs.get(d.name, d.digest) == d.digest for d in entry.datasets)
    return grown and params and metrics and datasets


def _metrics(
    entry: Entry, shown_before: RunData, rows: Sequence[Point], samples: Sequence[Point]
) -> list[Metric]:
    """Results that are new or have changed, and the points of the curves that a run does not have yet."""
    from mlflow.entities import Metric

    at, before = entry.finished or entry.started, shown_before.metrics
    results = [Metric(k, v, at, 0) for k, v in entry.metrics.items() if repr(before.get(k)) != repr(v)]
    number, _, _ = shown_before.tags.get(HISTORY, "0:").partition(":")
    chosen = [row for row in rows[int(number) :] if shown(row.number)]
    if entry.status == "FINISHED" and rows and not shown(rows[-1].number):
        chosen.append(rows[-1])
    number, _, started = shown_before.tags.get(SAMPLES, "0:").partition(":")
    chosen += samples[int(number) if started == str(entry.started) else 0 :]
    return results + [
        Metric(k, v, point.time, point.number) for point in chosen for k, v in point.values.items()
    ]


def _dataset(read: entries.Collection, use: str) -> DatasetInput:
    """Photos, masks or backgrounds as MLflow has datasets; ``mlflow.data.get_source`` finds the file."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source, profile = json.dumps({"uri": read.source}), json.dumps(read.profile, sort_keys=True)
    name, digest = read.name[-DATASET_NAME:], read.digest[:DATASET_DIGEST]
    made = Dataset(name, digest, "local", source, profile=profile)
    return DatasetInput(made, [InputTag("mlflow.data.context", use)])
