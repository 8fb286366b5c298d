"""The runs of an experiment, through MLflow's client, in as few calls as it allows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput, Metric, Run

# What MLflow takes in one call.
PARAMS_A_CALL, METRICS_A_CALL, RUNS_A_PAGE = 100, 1000, 1000
# As many runs are asked for one by one; for more, all are read.
FEW = 8


class Runs:
    """The runs of one experiment, found and changed. A run that was deleted meanwhile is an error that says so."""

    def __init__(self, client: MlflowClient, experiment: str) -> None:
        self.client, self.experiment = client, experiment

    def find(self, tag: str, values: Collection[str]) -> Iterator[Run]:
        """The runs whose tag has one of some values; there may be others among them."""
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
        """A new run, which is at work."""
        return self.client.create_run(self.experiment, started, dict(tags), name)

    def log(self, run: Run, params: Mapping[str, str], metrics: Sequence[Metric]) -> None:
        """Add parameters that the run does not have, and results and points of curves."""
        from mlflow.entities import Param

        made = [Param(key, value) for key, value in params.items()]
        for some in zip_longest(_chunks(made, PARAMS_A_CALL), _chunks(metrics, METRICS_A_CALL), fillvalue=()):
            self.client.log_batch(run.info.run_id, params=some[0], metrics=some[1])

    def add_inputs(self, run: Run, inputs: Sequence[DatasetInput]) -> None:
        """Say which datasets the run has read, none of which it names yet."""
        self.client.log_inputs(run.info.run_id, list(inputs))

    def set_state(self, run: Run, status: str, ended: int, tags: Mapping[str, str]) -> None:
        """Set a run's tags, and before that its state and, if it is not at work, its end."""
        from mlflow.entities import RunTag

        identity = run.info.run_id
        if run.info.status != status:
            if status == "RUNNING":
                self.client.update_run(identity, status=status)
            else:
                self.client.set_terminated(identity, status, ended)
        if tags:
            self.client.log_batch(identity, tags=[RunTag(key, value) for key, value in tags.items()])


def _chunks(values: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [values[start : start + size] for start in range(0, len(values), size)]
