"""A model that MLflow keeps: ``mlflow:models:/<name>@<alias>``, ``mlflow:runs:/<run>/model``, or a folder.

What is in it decides: a run of bgbias, an ONNX graph, a model of sentence-transformers, a network of torch (whose pickles
run code). It is read from the store that ``MLFLOW_TRACKING_URI`` names.
"""

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.models.adapters import LOOKS, NORMALISES, Adapted, Options
from bgbias.models.adapters._library import import_extra, load_source

TAKES = "an address of MLflow's, as models:/<name>@<alias>"
OPTIONS = LOOKS | NORMALISES | {"pooling"}
STORE = "Let MLFLOW_TRACKING_URI name its store, and start that if it is a server."
BGBIAS = "bgbias.evaluation.embedder"
EXPORTED = "data/model.pt2"


def adapt(which: str, options: Options) -> Adapted:
    """The model by the kind that MLflow saved it as; where it is fetched to a folder, that is gone afterwards."""
    library = import_extra("mlflow", "workflow")
    with tempfile.TemporaryDirectory() as target:
        folder = Path(which)
        if not folder.is_dir():
            get = partial(library.artifacts.download_artifacts, artifact_uri=which, dst_path=target)
            folder = Path(load_source(f"mlflow:{which}", which, get, STORE))
        return replace(_adapt(library, folder, which, options), name=f"mlflow:{which}")


def _adapt(library: Any, folder: Path, which: str, options: Options) -> Adapted:
    description = folder / "MLmodel"
    if not description.is_file():
        raise UserError(
            f"mlflow:{which} holds no model (no file MLmodel); name the folder or address of one."
        )
    flavors: dict[str, Any] = yaml.safe_load(description.read_text(encoding="utf-8"))["flavors"]
    generic = flavors.get("python_function", {})
    if generic.get("loader_module") == BGBIAS:
        kind, file = "run", generic["data"]
    elif "onnx" in flavors:
        kind, file = "onnx", flavors["onnx"]["data"]
    elif "sentence_transformers" in flavors:
        kind, file = "sentence_transformers", generic.get("data", "model.sentence_transformer")
    elif (folder / EXPORTED).is_file():
        kind, file = "exported", EXPORTED
    elif "pytorch" in flavors:
        network = load_source(
            f"mlflow:{which}", which, lambda: library.pytorch.load_model(str(folder), map_location="cpu")
        )
        return plugins.load("adapters", "python").of_object(network, options, f"mlflow:{which}")  # type: ignore[no-any-return]
    else:
        raise UserError(
            f"mlflow:{which} was saved as {', '.join(flavors)}, which is not taken here. Write a function that loads it and"
            " returns the network, and name it: --model file.py:function."
        )
    adapter = plugins.load("adapters", kind)
    options.only(adapter.OPTIONS, f"{kind}:{Path(file).name}")
    return adapter.adapt(str(folder / file), options)  # type: ignore[no-any-return]
