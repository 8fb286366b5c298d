"""Runs as a store holds them: a server's through MLflow's client, those of a database beside the project row by row.

MLflow's client takes 30 ms of a core for a run with its tags, parameters and results, and a third of a second to read two
hundred of them; the same rows by SQL take a tenth of that. Tests compare the two. A database whose tables are others than these,
of another version of MLflow, is left to the client.
"""

from __future__ import annotations

import json
import math
import sqlite3
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput, Metric, Run

# What MLflow takes in one call.
PARAMS_A_CALL, METRICS_A_CALL, RUNS_A_PAGE = 100, 1000, 1000
# As many runs are asked for one by one; for more, all are read.
FEW = 8
SECONDS = 20.0  # to wait for another process that writes, as MLflow does
LARGEST = 1.7976931348623157e308
NAME = "mlflow.runName"
COLUMNS = {
    "runs": "run_uuid name source_type source_name entry_point_name user_id status start_time end_time source_version"
    " lifecycle_stage artifact_uri experiment_id deleted_time",
    "tags": "key value run_uuid",
    "params": "key value run_uuid",
    "metrics": "key value timestamp run_uuid step is_nan",
    "latest_metrics": "key value timestamp run_uuid step is_nan",
    "datasets": "dataset_uuid experiment_id name digest dataset_source_type dataset_source dataset_schema dataset_profile",
    "inputs": "input_uuid source_type source_id destination_type destination_id step",
    "input_tags": "input_uuid name value",
}


class Runs(Protocol):
    """The runs of one experiment, found and changed. A run that was deleted meanwhile is an error that says so."""

    def find(self, tag: str, values: Collection[str]) -> Iterable[Run]:
        """The runs whose tag has one of some values; there may be others among them."""

    def create(self, started: int, tags: Mapping[str, str], name: str) -> Run:
        """A new run, which is at work."""

    def log(self, run: Run, params: Mapping[str, str], metrics: Sequence[Metric]) -> None:
        """Add parameters that the run does not have, and results and points of curves."""

    def read(self, run: Run, inputs: Sequence[DatasetInput]) -> None:
        """Say which datasets the run has read, none of which it names yet."""

    def state(self, run: Run, status: str, ended: int, tags: Mapping[str, str]) -> None:
        """Set a run's tags, and before that its state and, if it is not at work, its end."""


class Served:
    """Through MLflow's client."""

    def __init__(self, client: MlflowClient, experiment: str) -> None:
        self.client, self.experiment = client, experiment

    def find(self, tag: str, values: Collection[str]) -> Iterable[Run]:
        few = len(values) <= FEW and not any("'" in value for value in values)
        for asked in [f"tags.`{tag}` = '{value}'" for value in values] if few else [""]:
            token: str | None = ""
            while token is not None:
                page = self.client.search_runs(
                    [self.experiment], asked, max_results=RUNS_A_PAGE, page_token=token or None
                )
                yield from page
                token = page.token or None

    def create(self, started: int, tags: Mapping[str, str], name: str) -> Run:
        return self.client.create_run(self.experiment, started, dict(tags), name)

    def log(self, run: Run, params: Mapping[str, str], metrics: Sequence[Metric]) -> None:
        from mlflow.entities import Param

        made = [Param(key, value) for key, value in params.items()]
        for some in zip_longest(_chunks(made, PARAMS_A_CALL), _chunks(metrics, METRICS_A_CALL), fillvalue=()):
            self.client.log_batch(run.info.run_id, params=some[0], metrics=some[1])

    def read(self, run: Run, inputs: Sequence[DatasetInput]) -> None:
        self.client.log_inputs(run.info.run_id, list(inputs))

    def state(self, run: Run, status: str, ended: int, tags: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        identity = run.info.run_id
        if run.info.status != status:
            if status == "RUNNING":
                self.client.update_run(identity, status=status)
            else:
                self.client.set_terminated(identity, status, ended)
        if tags:
            self.client.log_batch(identity, tags=[RunTag(key, value) for key, value in tags.items()])


class Rows:
    """Row by row, in a SQLite database with the tables of ``COLUMNS``."""

    def __init__(self, connection: sqlite3.Connection, experiment: str) -> None:
        self.connection, self.experiment = connection, experiment
        (self.place,) = self._one(
            "SELECT artifact_location FROM experiments WHERE experiment_id = ?", experiment
        )

    def find(self, tag: str, values: Collection[str]) -> Iterable[Run]:
        from mlflow import entities as made

        found = self.connection.execute(
            "SELECT run_uuid, user_id, status, start_time, end_time, artifact_uri, name"
            " FROM tags JOIN runs USING (run_uuid) WHERE key = ? AND value IN (SELECT value FROM json_each(?))"
            " AND experiment_id = ? AND lifecycle_stage = 'active' ORDER BY start_time DESC, run_uuid",
            [tag, json.dumps(list(values)), self.experiment],
        )
        for identity, user, status, started, ended, place, name in found.fetchall():
            tags = [made.RunTag(*row) for row in self._all("SELECT key, value FROM tags", identity)]
            params = [made.Param(*row) for row in self._all("SELECT key, value FROM params", identity)]
            latest = self._all("SELECT key, value, timestamp, step, is_nan FROM latest_metrics", identity)
            metrics = [made.Metric(k, math.nan if nan else v, t, step) for k, v, t, step, nan in latest]
            read = self.connection.execute(
                "SELECT name, digest, dataset_source_type, dataset_source FROM datasets JOIN inputs"
                " ON source_type = 'DATASET' AND source_id = dataset_uuid WHERE destination_type = 'RUN' AND destination_id = ?",
                [identity],
            )
            yield made.Run(
                made.RunInfo(identity, self.experiment, user, status, started, ended, "active", place, name),
                made.RunData(metrics, params, tags),
                made.RunInputs([made.DatasetInput(made.Dataset(*row)) for row in read]),
            )

    def create(self, started: int, tags: Mapping[str, str], name: str) -> Run:
        from mlflow import entities as made
        from mlflow.utils.uri import append_to_uri_path

        identity, tags = uuid.uuid4().hex, {**tags, NAME: name}
        place = append_to_uri_path(self.place, identity, "artifacts")
        info = made.RunInfo(
            identity, self.experiment, "unknown", "RUNNING", started, None, "active", place, name
        )
        state = (info.user_id, info.status, started, None, "", "active", place, self.experiment, None)
        with self.connection:
            self.connection.execute(_insert("runs"), (identity, name, "UNKNOWN", "", "", *state))
            self._tag(identity, tags)
        data = made.RunData([], [], [made.RunTag(*tag) for tag in tags.items()])
        return made.Run(info, data, made.RunInputs([]))

    def log(self, run: Run, params: Mapping[str, str], metrics: Sequence[Metric]) -> None:
        identity = run.info.run_id
        points = [_row(metric, identity) for metric in metrics]
        with self._active(identity) as active:
            new = [(*param, identity) for param in params.items()]
            active.executemany(_insert("params", "OR IGNORE"), new)
            active.executemany(_insert("metrics", "OR IGNORE"), points)
            active.executemany(
                f"{_insert('latest_metrics')} ON CONFLICT (key, run_uuid) DO UPDATE SET value = excluded.value,"
                " is_nan = excluded.is_nan, timestamp = excluded.timestamp, step = excluded.step"
                " WHERE (excluded.step, excluded.timestamp, excluded.value) > (step, timestamp, value)",
                points,
            )

    def read(self, run: Run, inputs: Sequence[DatasetInput]) -> None:
        identity = run.info.run_id
        with self._active(identity) as active:
            for given in inputs:
                made, edge = given.dataset, uuid.uuid4().hex
                known = self.experiment, made.name, made.digest
                about = made.source_type, made.source, made.schema, made.profile
                active.execute(_insert("datasets", "OR IGNORE"), (uuid.uuid4().hex, *known, *about))
                find = "SELECT dataset_uuid FROM datasets WHERE experiment_id = ? AND name = ? AND digest = ?"
                (found,) = active.execute(find, known).fetchone()
                active.execute(_insert("inputs"), (edge, "DATASET", found, "RUN", identity, 0))
                tags = [(edge, tag.key, tag.value) for tag in given.tags]
                active.executemany(_insert("input_tags"), tags)

    def state(self, run: Run, status: str, ended: int, tags: Mapping[str, str]) -> None:
        identity = run.info.run_id
        with self._active(identity) as active:
            if run.info.status != status:
                end = run.info.end_time if status == "RUNNING" else ended
                change = "UPDATE runs SET status = ?, end_time = ? WHERE run_uuid = ?"
                active.execute(change, (status, end, identity))
            self._tag(identity, tags)

    def _active(self, identity: str) -> sqlite3.Connection:
        """A transaction that changes a run."""
        (stage,) = self._one("SELECT lifecycle_stage FROM runs WHERE run_uuid = ?", identity)
        if stage != "active":
            raise sqlite3.IntegrityError(
                f"The run {identity} must be in the 'active' state. Current state is {stage}."
            )
        return self.connection

    def _tag(self, identity: str, tags: Mapping[str, str]) -> None:
        self.connection.executemany(_insert("tags", "OR REPLACE"), [(*tag, identity) for tag in tags.items()])

    def _one(self, question: str, identity: str) -> Any:
        return self.connection.execute(question, [identity]).fetchone() or ("gone",)

    def _all(self, question: str, identity: str) -> list[Any]:
        return self.connection.execute(f"{question} WHERE run_uuid = ?", [identity]).fetchall()


def connected(database: Path) -> sqlite3.Connection | None:
    """A connection to a database of MLflow's, if its tables are those that this file knows."""
    connection = sqlite3.connect(database, timeout=SECONDS)
    for table, columns in COLUMNS.items():
        found = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        if sorted(found) != sorted(columns.split()):
            connection.close()
            return None
    connection.execute("PRAGMA synchronous = OFF")  # as MLflow's own connections here (``store``)
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _insert(table: str, or_else: str = "") -> str:
    columns = COLUMNS[table].split()
    return f"INSERT {or_else} INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def _row(metric: Metric, run: str) -> tuple[Any, ...]:
    """A metric as MLflow keeps it, which has no infinities and marks what is no number."""
    nan = math.isnan(metric.value)
    value = 0.0 if nan else max(-LARGEST, min(LARGEST, metric.value))
    return metric.key, value, metric.timestamp, run, metric.step, nan


def _chunks(values: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [values[start : start + size] for start in range(0, len(values), size)]
