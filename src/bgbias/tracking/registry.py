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
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import metadata, util
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import yaml

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.files.checksums import sha256
from bgbias.images import pixels
from bgbias.tracking.entries import CELL_PARAMS, Entry

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

ALIAS = "current"
LOADER = "bgbias.evaluation.embedder"
DESCRIPTION = "MLmodel"
# MLflow's registry takes none of these in a name.
FORBIDDEN = re.compile(r"[/:.%\"']")
Files = tuple[tuple[Path, str], ...]
_wrappings: dict[tuple[Files, int], _Wrapping] = {}


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
    from mlflow.exceptions import MlflowException

    known = client.search_model_versions(f"name = '{registered}'")
    if not known:
        try:
            client.create_registered_model(registered, description="Embeds photos; trained by bgbias.")
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
    return next((str(v.version) for v in known if v.tags.get("sha256") == checksum), None)


def _logged(client: MlflowClient, run: Run, entry: Entry, weights: Path) -> str:
    from mlflow.entities import LoggedModelOutput

    registered, checksum = name(entry), sha256(weights)
    tags = {"digest": entry.digest, "sha256": checksum} | {k: entry.params[k] for k in CELL_PARAMS}
    logged = client.create_logged_model(
        run.info.experiment_id, registered, run.info.run_id, tags, entry.params, "embedding"
    )
    folder = weights.parent / "model"
    of = {"artifact_path": logged.artifact_location, "run_id": run.info.run_id, "model_id": logged.model_id}
    _save(folder, weights, of, int(entry.params["train.embedding_dim"]))
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


def _save(folder: Path, weights: Path, of: dict[str, str], dimension: int) -> None:
    """A model in MLflow's format: weights, code, requirements, signature, an input example. ``of``: its own lines in MLmodel."""
    files, needed = _shipped(weights)
    key = (files, dimension)
    if key not in _wrappings:
        _wrappings[key] = _Wrapping(weights, files, needed, dimension)
    _wrappings[key].around(folder, weights, of)


class _Wrapping:
    """All that the models of a backbone have in common, in a folder that lasts as long as the process."""

    def __init__(self, weights: Path, files: Files, needed: Sequence[str], dimension: int) -> None:
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
        self._place = tempfile.TemporaryDirectory(prefix="bgbias-")
        self.folder = Path(self._place.name) / "model"
        package = self.folder.with_name("bgbias")
        _copy(files, package)
        pyfunc.save_model(
            str(self.folder),
            loader_module=LOADER,
            data_path=str(weights),
            code_paths=[str(package)],
            signature=ModelSignature(Schema(columns), Schema([embeddings])),
            input_example=pd.DataFrame({"photo": [pixels.encode_png(shades)]}),
            pip_requirements=[f"{package}=={metadata.version(package)}" for package in needed],
        )
        for compiled in self.folder.rglob("__pycache__"):
            shutil.rmtree(compiled)
        (self.folder / "data" / weights.name).unlink()
        self.described = yaml.safe_load((self.folder / DESCRIPTION).read_text(encoding="utf-8"))
        self.described["model_size_bytes"] -= weights.stat().st_size

    def around(self, folder: Path, weights: Path, of: dict[str, str]) -> None:
        """A folder with weights in it."""
        shutil.copytree(self.folder, folder)
        shutil.copy(weights, folder / "data")
        own = {
            **of,
            "model_uuid": uuid.uuid4().hex,
            "utc_time_created": f"{datetime.now(UTC).replace(tzinfo=None)}",
            "model_size_bytes": self.described["model_size_bytes"] + weights.stat().st_size,
        }
        (folder / DESCRIPTION).write_text(yaml.safe_dump(self.described | own), encoding="utf-8")


def ship(weights: Path, package: Path) -> list[str]:
    """Copy to ``package`` what the loader imports, with the weights' own backbone and neck; the packages that it needs come back.

    Somebody else's backbone out of a folder is copied to where ours lie, so that it is found there.
    """
    files, needed = _shipped(weights)
    _copy(files, package)
    return list(needed)


def _copy(files: Files, package: Path) -> None:
    for origin, name in files:
        there = package.parent / name
        if there.exists():
            raise UserError(f"{origin} has the name of a file of ours; give it another one.")
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(origin, there)


def _shipped(weights: Path) -> tuple[Files, tuple[str, ...]]:
    """The files that go with weights, each with its place beside the others, and the packages that they need."""
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
    return _followed(tuple(started), tuple(places.items()))


@cache
def _followed(started: tuple[str, ...], found: tuple[tuple[str, str], ...]) -> tuple[Files, tuple[str, ...]]:
    places, files = dict(found), []
    waiting, imported, outside = [*started], set[str](), {"mlflow", "pandas"}
    while waiting:
        module = waiting.pop()
        top, _, rest = module.partition(".")
        if top not in places:
            outside.add(top)
        elif module not in imported and (spec := _spec(module)) and spec.origin:
            imported.add(module)
            waiting += [module.rpartition(".")[0], *_imports(Path(spec.origin), spec.parent or "")]
            ending = "/__init__.py" if spec.submodule_search_locations else ".py"
            name = ".".join(filter(None, [places[top], rest])).replace(".", "/") + ending
            files.append((Path(spec.origin), name))
    brought = {name: _distributions()[name] for name in outside if name in _distributions()}
    return tuple(files), tuple(sorted({name if name in by else by[0] for name, by in brought.items()}))


def _spec(module: str) -> ModuleSpec | None:
    """Where a module is; none of those above it is imported for that, since some of ours import torch."""
    if module in sys.modules:
        return sys.modules[module].__spec__
    above = _spec(module.rpartition(".")[0]) if "." in module else None
    if above is None:
        return PathFinder.find_spec(module) if module and "." not in module else None
    places = above.submodule_search_locations
    return PathFinder.find_spec(module, places) if places else None


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
