"""What a store that was deleted leaves behind: pictures and models of runs that nobody knows any more."""

from __future__ import annotations

import re
from pathlib import Path

from bgbias.tracking import store

OF_MLFLOW = re.compile("(m-)?[0-9a-f]{32}")  # how it names the folders of runs and of models


def find(uri: str, grid: str) -> list[Path]:
    """Folders beside a local store that are of none of its runs and models. Those deleted in MLflow can be restored there, and
    are not among them.
    """
    place = store.artifacts(uri)
    if place is None:
        return []
    folders = sorted(p for p in (*place.glob("*"), *place.glob("models/*")) if OF_MLFLOW.fullmatch(p.name))
    with store.experiment(uri, grid) as experiment:
        client = experiment.client
        return [
            folder
            for folder in folders
            if not store.is_known(
                client.get_logged_model if folder.parent.name == "models" else client.get_run, folder.name
            )
        ]
