"""Trained models in MLflow's registry: one registered model a cell, one version a training, the last one called ``current``.

The weights stay what they are, a safetensors file; beside them lie this package and the versions that it runs with, so that
``mlflow.pyfunc.load_model("models:/<name>@current").predict(photos)`` gives embeddings where bgbias is not installed.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.files.checksums import sha256
from bgbias.images import pixels
from bgbias.tracking.entries import CELL_PARAMS, Entry

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run
    from mlflow.models import Model

ALIAS = "current"
LOADER = "bgbias.evaluation.embedder"
SOURCE = Path(__file__).parents[1]
# MLflow's registry takes none of these in a name.
FORBIDDEN = re.compile(r"[/:.%\"']")
# What the loader and the backbones import.
REQUIREMENTS = (
    *("mlflow", "numpy", "opencv-python-headless", "pandas", "pillow", "pydantic", "psutil"),
    *("pyyaml", "safetensors", "scipy", "timm", "torch", "torchvision"),
)
DESCRIPTION = (
    "`mlflow.pyfunc.load_model('models:/{name}@{alias}').predict(...)` takes a table with a column `photo`"
    " (bytes of JPEG or PNG files) or `path`."
)


def register(client: MlflowClient, run: Run, entry: Entry) -> None:
    """Make the entry's weights the ``current`` version of its model; the same ones only once."""
    assert entry.model is not None
    weights, checksum = entry.model
    *parts, seed = (entry.params[k] for k in CELL_PARAMS)
    name = FORBIDDEN.sub("_", "-".join([entry.tags["grid"], *parts, f"seed{seed}"]))
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name, description="Embeds photos; trained by bgbias.")
    versions = client.search_model_versions(f"name = '{name}'")
    version = next((str(v.version) for v in versions if v.tags.get("sha256") == checksum), None)
    if version is None:
        with tempfile.TemporaryDirectory(prefix="bgbias-") as folder:
            copy = Path(shutil.copy(weights, folder))
            if sha256(copy) != checksum:
                # Trained again a moment ago; the new record is about to appear.
                return
            version = _log(client, run, entry, name, copy)
    client.set_registered_model_alias(name, ALIAS, version)


def _log(client: MlflowClient, run: Run, entry: Entry, name: str, weights: Path) -> str:
    from mlflow.entities import LoggedModelOutput
    from mlflow.models import Model

    experiment, identity = run.info.experiment_id, run.info.run_id
    tags = {"digest": entry.digest, "sha256": sha256(weights)} | {k: entry.params[k] for k in CELL_PARAMS}
    logged = client.create_logged_model(experiment, name, identity, tags, entry.params, "embedding")
    folder = weights.parent / "model"
    model = Model(logged.artifact_location, identity, model_id=logged.model_id)
    _save(folder, weights, model, int(entry.params["train.embedding_dim"]))
    client.log_model_artifacts(logged.model_id, str(folder))
    client.finalize_logged_model(logged.model_id, "READY")
    client.log_outputs(identity, [LoggedModelOutput(logged.model_id, 0)])
    # Its source is not models:/<id>, which MLflow looks up in the process's own store, whichever this one is.
    source, text = logged.artifact_location, DESCRIPTION.format(name=name, alias=ALIAS)
    version = client.create_model_version(
        name, source, identity, tags, description=text, model_id=logged.model_id
    )
    return str(version.version)


def _save(folder: Path, weights: Path, model: Model, dimension: int) -> None:
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
    package = folder.with_name("bgbias")
    _copy_code(weights, package)
    pyfunc.save_model(
        str(folder),
        loader_module=LOADER,
        data_path=str(weights),
        code_paths=[str(package)],
        mlflow_model=model,
        signature=ModelSignature(Schema(columns), Schema([embeddings])),
        input_example=pd.DataFrame({"photo": [pixels.encode_png(shades)]}),
        pip_requirements=[f"{name}=={metadata.version(name)}" for name in REQUIREMENTS],
    )


def _copy_code(weights: Path, package: Path) -> None:
    """This package, with the files beside somebody else's backbone or neck among ours, so that they are found there."""
    from safetensors import safe_open

    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    with safe_open(weights, "numpy") as file:
        header = json.loads(file.metadata()["bgbias"])
    for family, option in {"backbones": header["backbone"], "necks": header.get("neck")}.items():
        path = Path(plugins.load(family, option).__file__ or "") if option else SOURCE
        for file in () if path.is_relative_to(SOURCE) else path.parent.glob("*.py"):
            if file.name == "__init__.py":  # of a package of theirs; the family has its own
                continue
            there = package.joinpath(*plugins.FAMILIES[family].split(".")[1:], file.name)
            if there.exists():
                raise UserError(f"{file} has the name of a file of ours; give it another one.")
            shutil.copy(file, there)
