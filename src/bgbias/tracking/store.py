"""The one door to MLflow: a grid's experiment, prepared once and written by one process at a time; and why a store did not take
the records, in a line that says what to do.

A run is found again by two tags, the step's key and its digest. Writing an entry twice changes nothing; one
whose settings have changed gets a run of its own, and the old one is marked as superseded.
"""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bgbias.errors import UserError
from bgbias.files.code import hash_text
from bgbias.files.locks import hold_lock
from bgbias.tracking import entries, registry
from bgbias.tracking.entries import Entry, Point, mark

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Run

SQLITE = "sqlite:///"
PREFIX = "bgbias-"  # of a grid's experiment
LOCK_SECONDS = 60.0
# What MLflow takes in one call: 1,000 things in all.
PARAMS_PER_CALL, METRICS_PER_CALL, RUNS_PER_PAGE = 100, 900, 1000
# As many runs are asked for one by one; for more, all are read.
FEW = 8
KEY, DIGEST, FINGERPRINT = "bgbias.key", "bgbias.digest", "bgbias.fingerprint"
SUPERSEDED = "bgbias.superseded"
# How much of its curve a run has: the number of points, and a mark of them.
EPOCHS = "bgbias.epochs"
# A server that does not answer must not hold up a workflow's end; whoever sets these otherwise is obeyed.
ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
}

SERVERS = ("http", "https")
SCHEMES = ("sqlite", "postgresql", "mysql", "mssql", *SERVERS, "databricks", "databricks-uc", "uc")
# What MLflow says of a server, and what is behind it.
SERVER_FAULTS = {
    "error code 40[13]|UNAUTHENTICATED": (
        "the server asks for a login; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
    ),
    "error code 404|valid JSON format": "what answers there is no MLflow server, or one of another version",
    "failed with (timeout )?exception(?!.*ResponseError)": "nobody answers there; is the server running, and the address right?",
}
# How MLflow and the databases behind it tell that somebody else has just written the same, or deleted one of two runs of a step.
CONFLICT = re.compile(
    "RESOURCE_ALREADY_EXISTS|UniqueViolation|UNIQUE constraint|IntegrityError|Duplicate entry"
    "|Current state is deleted"
)
UNREAD = "cannot be read: {reason}."
UNWRITTEN = (
    "did not take the records: {reason}. The records are safe; show them later with: python -m bgbias track"
)
_opened: set[str] = set()  # by this process, whose connections MLflow keeps


class Conflict(UserError):
    """Two machines wrote to one store at the same moment; whoever tries again finds what the other one wrote."""


@contextmanager
def experiment(uri: str, grid: str) -> Iterator[Experiment]:
    """The experiment ``bgbias-<grid>``, made if need be, for this process alone while the block lasts.

    A store that cannot be reached, read or written is a ``UserError``; a ``Conflict`` where another machine was faster.
    """
    with _client_of(uri, UNWRITTEN) as client_of:
        # One writer a store: two would both migrate a fresh database, or both make a step's run.
        file = database(uri) if uri.startswith(SQLITE) else None
        shared = Path(tempfile.gettempdir()) / f"bgbias-{os.getuid()}-{hash_text(uri)}.lock"
        with hold_lock(file.with_name(f"{file.name}.lock") if file else shared, LOCK_SECONDS):
            if uri in _opened and file and not file.exists():
                raise UserError(f"{file} was deleted; show the records again: python -m bgbias track")
            client = client_of(uri)
            _opened.add(uri)
            identity = _identity(client, uri, f"{PREFIX}{grid}")
            yield Experiment(client, identity)


@contextmanager
def _client_of(uri: str, fault: str) -> Iterator[type[MlflowClient]]:
    """What makes MLflow's client of a store; an error of it or of its client is one that says which ``fault`` the store has."""
    check_uri(uri)
    os.environ.update(ENVIRONMENT | os.environ)
    # MLflow and its libraries report each failure with a stack trace of their own; ours is one line.
    for noisy in ("mlflow", "alembic", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    try:
        from mlflow import MlflowClient

        yield MlflowClient
    except UserError:
        raise
    except Exception as error:  # of MLflow, of the database behind it, of its driver, of the disk
        raise _fault(uri, error, fault) from error


class Experiment:
    """The runs of one grid in one store."""

    def __init__(self, client: MlflowClient, identity: str) -> None:
        self.client = client
        self.identity = identity

    def write(self, entries: Collection[Entry]) -> list[str]:
        """Make the entries' runs show what the entries say, and return what each took."""
        runs: dict[str, list[Run]] = {entry.key: [] for entry in entries}
        for run in self._runs(runs):
            runs.get(run.data.tags.get(KEY, ""), []).append(run)
        return [self._write(entry, runs[entry.key]) for entry in entries]

    def log(self, run: Run, params: Mapping[str, str], metrics: Sequence[Metric]) -> None:
        """Add parameters and metrics to a run, in as few calls as MLflow allows."""
        from mlflow.entities import Param

        new = [Param(key, value) for key, value in params.items()]
        while new or metrics:
            self.client.log_batch(run.info.run_id, metrics[:METRICS_PER_CALL], new[:PARAMS_PER_CALL])
            new, metrics = new[PARAMS_PER_CALL:], metrics[METRICS_PER_CALL:]

    def _runs(self, keys: Collection[str]) -> Iterator[Run]:
        """The runs with some keys; there may be others among them."""
        few = len(keys) <= FEW and not any("'" in key for key in keys)
        for query in [f"tags.`{KEY}` = '{key}'" for key in keys] if few else [""]:
            token: str | None = None
            while token != "":
                page = self.client.search_runs(
                    [self.identity], query, max_results=RUNS_PER_PAGE, page_token=token
                )
                yield from page
                token = page.token or ""

    def _write(self, entry: Entry, runs: Sequence[Run]) -> str:
        run = self._current(entry, runs)
        outcome = "updated" if run else "created"
        epochs = entry.epochs()
        if run and not _continues(run, entry, epochs):
            # MLflow takes back no parameter, no result and no point of a curve: what began anew gets a new run.
            self.client.delete_run(run.info.run_id)
            run = None
        state = {FINGERPRINT: entry.fingerprint(), SUPERSEDED: "no"}
        if epochs:  # a curve that is not there at the moment (it moves when training ends) takes nothing back
            state[EPOCHS] = f"{len(epochs)}:{mark(epochs)}"
        if run and run.info.status == entry.status and state.items() <= run.data.tags.items():
            return "unchanged"
        if run is None:
            tags = entry.tags | {KEY: entry.key, DIGEST: entry.digest}
            run = self.client.create_run(self.identity, entry.started, tags, entry.name)
        elif run.data.tags.get(SUPERSEDED) != "no":
            self.client.update_run(run.info.run_id, name=entry.name)
        self._fill(run, entry, epochs, state)
        return outcome

    def _current(self, entry: Entry, runs: Sequence[Run]) -> Run | None:
        """The run with the entry's key and digest; runs of the key with another digest become superseded."""
        current: Run | None = None
        for run in runs:
            identity, tags = run.info.run_id, run.data.tags
            if tags.get(DIGEST) == entry.digest:
                if current is not None:
                    self.client.delete_run(identity)  # two machines wrote to one server at the same moment
                else:
                    current = run
            elif tags.get(SUPERSEDED) == "no":
                self.client.set_tag(identity, SUPERSEDED, f"by {entry.digest}")
                self.client.update_run(identity, name=f"(superseded) {run.info.run_name}")
                if run.info.status == "RUNNING":
                    self.client.set_terminated(identity, "KILLED", entry.started)
        return current

    def _fill(self, run: Run, entry: Entry, epochs: Sequence[Point], state: dict[str, str]) -> None:
        from mlflow.entities import Metric, RunTag

        identity, before = run.info.run_id, run.data
        at = entry.finished or entry.started
        has_changed = before.tags.get(FINGERPRINT) != state[FINGERPRINT]
        points = [
            Point(k, v, at, 0) for k, v in entry.metrics.items() if repr(before.metrics.get(k)) != repr(v)
        ]
        points += epochs[_number_shown(run, epochs) :]
        points += entry.samples() if has_changed else []
        params = {k: v for k, v in entry.params.items() if k not in before.params}
        self.log(run, params, [Metric(*point) for point in points])
        if has_changed:
            self._attach(run, entry)
        if run.info.status != entry.status and entry.status == "RUNNING":
            self.client.update_run(identity, entry.status)
        elif run.info.status != entry.status:
            self.client.set_terminated(identity, entry.status, entry.finished or entry.started)
        # Last, since they say that all the rest is there.
        tags = entries.editable(entry.tags | state, before.tags)
        if changed := [RunTag(k, v) for k, v in tags.items() if before.tags.get(k) != v]:
            self.client.log_batch(identity, tags=changed)

    def _attach(self, run: Run, entry: Entry) -> None:
        """Datasets, files, the trained model, and away with the error of a run that has been mended."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        identity, known = run.info.run_id, _datasets(run)
        use = InputTag("mlflow.data.context", "training" if entry.node == "train" else "evaluation")
        new = []
        for read in (read for read in entry.datasets if read.name not in known):
            # ``mlflow.data.get_source`` finds the file.
            source, profile = json.dumps({"uri": read.source}), json.dumps(read.profile, sort_keys=True)
            new.append(DatasetInput(Dataset(read.name, read.digest, "local", source, profile=profile), [use]))
        if new:
            self.client.log_inputs(identity, new)
        for path in filter(Path.exists, entry.files):
            self.client.log_artifact(identity, str(path))
        if entry.model:
            registry.register(self.client, run, entry)
        if "error" in run.data.tags and "error" not in entry.tags:
            self.client.delete_tag(identity, "error")


def _continues(run: Run, entry: Entry, epochs: Sequence[Point]) -> bool:
    """Whether the entry only adds to what its run already shows."""
    has_grown = not epochs or EPOCHS not in run.data.tags or _number_shown(run, epochs) > 0
    params = all(run.data.params.get(k, v) == v for k, v in entry.params.items())
    # A step at work has no results yet, and may have had some; a model's must be those of one training.
    results = {name for name in run.data.metrics if "/" not in name}
    metrics = entry.node != entries.MODEL_RUN or results <= entry.metrics.keys()
    digests = _datasets(run)
    datasets = all(digests.get(read.name, read.digest) == read.digest for read in entry.datasets)
    return has_grown and params and metrics and datasets


def _number_shown(run: Run, epochs: Sequence[Point]) -> int:
    """How many points of its curve a run has; none if the curve began anew."""
    number, _, before = run.data.tags.get(EPOCHS, "0:").partition(":")
    return int(number) if mark(epochs[: int(number)]) == before else 0


def _datasets(run: Run) -> dict[str, str]:
    return {i.dataset.name: i.dataset.digest for i in run.inputs.dataset_inputs} if run.inputs else {}


def grids(uri: str) -> dict[str, str]:
    """The experiment's id of each grid that a store has, the one that ran last first; a store that cannot be read is a
    ``UserError``.
    """
    started = []
    with _client_of(uri, UNREAD) as client_of:
        client = client_of(uri)
        for experiment in client.search_experiments():
            newest = client.search_runs(
                [experiment.experiment_id], order_by=["start_time DESC"], max_results=1
            )
            if experiment.name.startswith(PREFIX) and newest:
                grid = experiment.name.removeprefix(PREFIX)
                started.append((newest[0].info.start_time, grid, str(experiment.experiment_id)))
    return {grid: identity for _, grid, identity in sorted(started, reverse=True)}


def database(uri: str) -> Path:
    """The file of a store in SQLite."""
    return Path(uri.removeprefix(SQLITE)).absolute()


def _identity(client: MlflowClient, uri: str, name: str) -> str:
    """The experiment's id; one deleted in MLflow's pages comes back."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        # Files lie beside a local database; a server knows its own place.
        place = str(database(uri).parent / "mlartifacts") if uri.startswith(SQLITE) else None
        experiment = client.get_experiment(client.create_experiment(name, place))
    identity = str(experiment.experiment_id)
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(identity)
    # The description is written once: people edit it.
    tags = {entries.NOTE: experiment.tags.get(entries.NOTE) or entries.note(identity)} | entries.view_tags()
    for key, value in tags.items():
        if experiment.tags.get(key) != value:
            client.set_experiment_tag(identity, key, value)
    return identity


def check_uri(uri: str) -> None:
    """Refuse what is no address of a store."""
    scheme = urlsplit(uri).scheme.partition("+")[0] or uri
    if scheme not in SCHEMES or (scheme == "sqlite" and not uri.startswith("sqlite:///")):
        raise UserError(
            f"'{uri}' is no address of an MLflow store. Give --uri or $MLFLOW_TRACKING_URI as sqlite:///<file> (three slashes),"
            " http://<server>:<port> or postgresql://<user>@<host>/<database>; unset, it is mlflow.db in the project's folder."
        )


def _fault(uri: str, error: Exception, fault: str) -> UserError:
    """What to raise for an error that a store gave."""
    kind = Conflict if CONFLICT.search(str(error)) else UserError
    message = f"MLflow's store {uri} {fault.format(reason=_reason(uri, error))}"
    # Addresses without their passwords.
    return kind(re.sub(r"(://[^:/@\s]+):[^@\s]+@", r"\1:***@", message))


def _reason(uri: str, error: Exception) -> str:
    if isinstance(error, ImportError):
        return f"MLflow cannot be imported ({error}); `make setup` installs it, `make cluster` PostgreSQL's driver"
    text = f"{type(error).__name__}: {error}"
    first_line = text.splitlines()[0][:300].rstrip(". ")
    fault = next((fault for pattern, fault in SERVER_FAULTS.items() if re.search(pattern, text)), None)
    return f"{fault} ({first_line})" if fault and urlsplit(uri).scheme in SERVERS else first_line
