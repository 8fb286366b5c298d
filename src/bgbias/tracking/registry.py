"""Trained models in MLflow's registry: one registered model a cell, one version a training, the last one called ``current``.

The weights stay what they are, a safetensors file; beside them lie the few files of this package that embed photos with them, and
the versions that these run with, so that ``mlflow.pyfunc.load_model("models:/<name>@current").predict(photos)`` gives embeddings
where bgbias is not installed.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import metadata, util
from importlib.machinery import ModuleSpec
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
# MLflow's registry takes none of these in a name.
FORBIDDEN = re.compile(r"[/:.%\"']")


def name(entry: Entry) -> str:
    """The registered model of a training's cell, e.g. ``demo-toy_090-tiny-contrastive-plain-seed0``."""
    *parts, seed = (entry.params[k] for k in CELL_PARAMS)
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
    tags = {"digest": entry.digest, "sha256": checksum} | {k: entry.params[k] for k in CELL_PARAMS}
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
    needed = ship(weights, folder.parent / "bgbias")
    pyfunc.save_model(
        str(folder),
        loader_module=LOADER,
        data_path=str(weights),
        code_paths=[str(folder.parent / "bgbias")],
        mlflow_model=described,
        signature=ModelSignature(Schema(columns), Schema([embeddings])),
        input_example=pd.DataFrame({"photo": [pixels.encode_png(shades)]}),
        pip_requirements=[f"{package}=={metadata.version(package)}" for package in needed],
    )
    for compiled in folder.rglob("__pycache__"):
        shutil.rmtree(compiled)


def ship(weights: Path, package: Path) -> list[str]:
    """Copy to ``package`` what the loader imports, with the weights' own backbone and neck; the packages that it needs come back.

    Somebody else's backbone out of a folder is copied to where ours lie, so that it is found there.
    """
    from safetensors import safe_open

    with safe_open(weights, "numpy") as file:
        header = json.loads(file.metadata()["bgbias"])
    started, places = [LOADER], {"bgbias": "bgbias"}
    for family, option in (("backbones", header["backbone"]), ("necks", header.get("neck"))):
        if option:
            module = plugins.load(family, option).__name__
            started += [plugins.FAMILIES[family], module]
            if module.startswith(plugins.OF_A_FOLDER):
                places[module.partition(".")[0]] = plugins.FAMILIES[family].rpartition(".")[0]
    waiting, imported, outside = started, set[str](), {"mlflow", "pandas"}
    while waiting:
        module = waiting.pop()
        top, _, rest = module.partition(".")
        if top not in places:
            outside.add(top)
        elif module not in imported and (spec := _spec(module)) and spec.origin:
            imported.add(module)
            waiting += [module.rpartition(".")[0], *_imports(Path(spec.origin), spec.parent or "")]
            ending = "/__init__.py" if spec.submodule_search_locations else ".py"
            there = package.parent / (".".join(filter(None, [places[top], rest])).replace(".", "/") + ending)
            if there.exists():
                raise UserError(f"{spec.origin} has the name of a file of ours; give it another one.")
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(spec.origin, there)
    brought = {name: _distributions()[name] for name in outside if name in _distributions()}
    return sorted({name if name in by else by[0] for name, by in brought.items()})


def _spec(module: str) -> ModuleSpec | None:
    try:
        return util.find_spec(module) if module else None
    except ModuleNotFoundError:  # what is imported from a module need not be one
        return None


def _imports(file: Path, package: str) -> Iterator[str]:
    """What a file imports, wherever in it, by full names, but for what only type checkers read."""
    waiting: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = util.resolve_name("." * node.level + (node.module or ""), package)
            yield from (source, *(f"{source}.{name.name}" for name in node.names))
        waiting += ast.iter_child_nodes(node)


@cache
def _distributions() -> dict[str, list[str]]:
    """The packages that bring a module, without Python's own."""
    return {k: v for k, v in metadata.packages_distributions().items() if k not in sys.stdlib_module_names}
