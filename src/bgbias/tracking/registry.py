"""Trained models in MLflow's registry: one registered model a cell, one version a training, the last one called ``current``.

The weights stay what they are, a safetensors file; beside them lie this package's code and the versions it runs with, so that
``mlflow.pyfunc.load_model("models:/<name>@current").predict(photos)`` gives embeddings where bgbias is not installed.
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bgbias.files.checksums import sha256
from bgbias.images import pixels
from bgbias.tracking.entries import CELL, Entry

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run
    from mlflow.models import Model

ALIAS = "current"
CODE = Path(__file__).parents[1]
LOADER = "bgbias.evaluation.embedder"
NEEDS = ("mlflow", "torch", "torchvision", "timm", "numpy", "pandas", "pillow", "pydantic", "safetensors")
# MLflow's registry takes none of these in a name.
FORBIDDEN = re.compile(r"[/:.%\"']")


def name(entry: Entry) -> str:
    """The registered model of a training's cell, e.g. ``demo-toy_090-tiny-contrastive-plain-seed0``."""
    *parts, seed = (entry.params[k] for k in CELL)
    return FORBIDDEN.sub("_", "-".join([entry.tags["grid"], *parts, f"seed{seed}"]))


def register(client: MlflowClient, run: Run, entry: Entry) -> None:
    """Make the entry's weights the ``current`` version of its model; the same ones are not registered twice."""
    assert entry.model is not None
    registered, (weights, checksum) = name(entry), entry.model
    version = _version(client, registered, checksum)
    if version is None:
        with tempfile.TemporaryDirectory(prefix="bgbias-") as folder:
            copy = Path(shutil.copy(weights, folder))
            if sha256(copy) != checksum:
                # Trained again a moment ago; the new record is about to appear.
                return
            version = _logged(client, run, entry, copy)
    client.set_registered_model_alias(registered, ALIAS, version)


def _version(client: MlflowClient, registered: str, checksum: str) -> str | None:
    if not client.search_registered_models(f"name = '{registered}'"):
        client.create_registered_model(registered, description="Embeds photos; trained by bgbias.")
    known = client.search_model_versions(f"name = '{registered}'")
    return next((str(v.version) for v in known if v.tags.get("sha256") == checksum), None)


def _logged(client: MlflowClient, run: Run, entry: Entry, weights: Path) -> str:
    from mlflow.entities import LoggedModelOutput
    from mlflow.models import Model

    registered, checksum = name(entry), sha256(weights)
    tags = {"digest": entry.digest, "sha256": checksum} | {k: entry.params[k] for k in CELL}
    logged = client.create_logged_model(
        run.info.experiment_id, registered, run.info.run_id, tags, entry.params, "embedding"
    )
    described = Model(
        artifact_path=logged.artifact_location, run_id=run.info.run_id, model_id=logged.model_id
    )
    folder = weights.parent / "model"
    _save(folder, weights, described, int(entry.params["train.embedding_dim"]))
    client.log_model_artifacts(logged.model_id, str(folder))
    client.finalize_logged_model(logged.model_id, "READY")
    client.log_outputs(run.info.run_id, [LoggedModelOutput(logged.model_id, 0)])
    version = client.create_model_version(
        registered,
        # Not models:/<id>, which MLflow looks up in the process's own store, whichever this one is.
        logged.artifact_location,
        run.info.run_id,
        tags,
        description=f"`mlflow.pyfunc.load_model('models:/{registered}@{ALIAS}').predict(...)` takes a table with a column"
        " `photo` (bytes of JPEG or PNG files) or `path`.",
        model_id=logged.model_id,
    )
    return str(version.version)


def _save(folder: Path, weights: Path, described: Model, dimension: int) -> None:
    """A model in MLflow's format: weights, code, requirements, signature and an input example."""
    import pandas as pd
    from mlflow import pyfunc
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema, TensorSpec

    columns: list[ColSpec | TensorSpec] = [
        ColSpec("binary", "photo", required=False),
        ColSpec("string", "path", required=False),
    ]
    embeddings = TensorSpec(np.dtype(np.float32), (-1, dimension))
    shades = np.linspace(0, 255, 64 * 48 * 3).astype(np.uint8).reshape(48, 64, 3)
    pyfunc.save_model(
        str(folder),
        loader_module=LOADER,
        data_path=str(weights),
        code_paths=[str(CODE)],
        mlflow_model=described,
        signature=ModelSignature(Schema(columns), Schema([embeddings])),
        input_example=pd.DataFrame({"photo": [pixels.encode_png(shades)]}),
        pip_requirements=[f"{package}=={importlib.metadata.version(package)}" for package in NEEDS],
    )
    for compiled in folder.rglob("__pycache__"):
        shutil.rmtree(compiled)
