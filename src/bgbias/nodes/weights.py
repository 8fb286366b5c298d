"""Node: a network's published weights, verified, as one .safetensors; that of an ONNX graph holds the graph's bytes."""

import shutil
from pathlib import Path
from typing import Any

from bgbias.compute.lazy import Tensor
from bgbias.engine import records
from bgbias.engine.forecast import MODEL_BYTES, Cost
from bgbias.engine.node import Dependencies, step
from bgbias.errors import UserError
from bgbias.files import fetch
from bgbias.study.named import NamedEntry
from bgbias.study.params import Study
from bgbias.study.sources import PublishedWeights, find_published

SUBJECT = ("owner",)
OUTPUTS = {
    "weights": "RAW/weights/{owner}.safetensors",
    "weights_record": "RAW/weights/{owner}.json",
}


def subjects(study: Study, owner: str) -> list[dict[str, str]]:
    """A backbone, if no family is named."""
    return [{"owner": owner if "/" in owner else f"backbones/{owner}"}]


def depends(study: Study, owner: str) -> Dependencies:
    """The network's file says how published weights become its own."""
    published = find_published(study, owner)
    return Dependencies(settings=published.identity, code=[published.network.module])


def cost(study: Study, owner: str) -> Cost:
    return Cost(disk=MODEL_BYTES)


def weights(study: Study, owner: str) -> None:
    """Fetch, verify and convert a network's weights. A copy in data/downloads is taken first."""
    from bgbias.files import state_dicts

    published = find_published(study, owner)
    with records.node(study, step("weights", owner=owner)) as record:
        target = record.outputs["weights"]
        unfinished = target.with_name(f"{target.name}.unfinished")
        state, record.notes["source"] = _state(Path(study.paths.downloads), published, unfinished)
        state_dicts.write_state_dict(state, target)
        record.metrics |= {"tensors": len(state), "megabytes": target.stat().st_size / 1e6}
    shutil.rmtree(unfinished, ignore_errors=True)


def _state(
    downloads: Path, published: PublishedWeights, unfinished: Path
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors by their published names, and where they are from."""
    network, sources = published.network, published.sources
    copies = (folder / name for folder in (downloads, unfinished) for name in published.files)
    here = next((copy for copy in copies if copy.is_file()), None)
    command = f"python -m bgbias weights {network.owner}"
    if not sources:
        if here is not None:
            return _read(here, network), {"place": str(here)}
        module = network.module
        try:
            return module.published(network.variant, network.params()), {"library": module.__name__}
        except UserError as error:
            names = " or ".join(published.files)
            raise UserError(f"{error}\nPut a copy at {downloads}/{names}; then run: {command}") from error
    if here is not None:
        source = next(s for s in sources if s.called == here.name)
        sources = (source.model_copy(update={"place": str(here)}),)
    name = sources[0].called if here is None else here.name
    cure = (
        f"Get {name}{sources[0].facts} by other means and put it at {downloads / name}; then run: {command}"
    )
    arrived = unfinished / "arrived"
    used = fetch.fetch(sources, arrived, network.owner, cure)
    # Only now is it known which of the published files it is.
    file = arrived.replace(unfinished / used.called)
    return _read(file, network), used.model_dump(exclude_defaults=True)


def _read(file: Path, network: NamedEntry) -> dict[str, Tensor]:
    is_masker = network.family == "maskers"
    if is_masker and hasattr(network.module, "network"):
        from bgbias.masks.saliency import published_state

        return published_state(file, network.module.network(), network.owner)
    if is_masker and file.suffix == ".onnx":
        from bgbias.masks.onnx_saliency import pack

        return pack(file)
    from bgbias.files import state_dicts

    return state_dicts.read_state_dict(file, network.owner)
