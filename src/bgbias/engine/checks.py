"""What would stop a step after hours, or take ten times as long: looked for before anything runs.

Photos that a dataset lacks, weights that do not fit a network, and precisions that this machine
only emulates. Of public datasets it is known how many photos they have, of all that are indexed
also of which classes.
"""

import json
import shutil
from collections.abc import Callable, Collection
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from bgbias.compute import processor
from bgbias.engine import forecast, freshness, graph, records
from bgbias.engine.node import Node, step
from bgbias.errors import UserError
from bgbias.evaluation import probes
from bgbias.files.atomic import write_text
from bgbias.models import backbones
from bgbias.study import Study, plan
from bgbias.study.named import NamedEntry
from bgbias.study.sources import network_of, weights_file

Network = TypeVar("Network")
# What photos of each split are for, by the node that needs some.
PHOTO_USES = {
    "train": {"train": "to train on", "val": "to validate with"},
    "pretrain": {"train": "to learn from without labels"},
    "embed_training": {"train": "to fit probes on"},
    "embed": {"test": "to ask about"},
}
LIBRARIES = ("timm", "torch", "torchvision")
# The nodes that take an untrained cell's backbone as it comes.
EMBEDS = ("embed", "embed_training", "attribute", "segment", "cross", "cure", "attack")
# The section of params.yaml whose `precision` a node computes in.
PRECISIONS = {
    "train": "train",
    **dict.fromkeys(("embed", "embed_training", "cross", "cure", "attack"), "evaluation"),
    **dict.fromkeys(("attribute", "sanity"), "attribution"),
}


def check(study: Study) -> None:
    """Refuse a grid if a step of it that has to run would fail for want of photos or weights."""
    with graph.share_lookups():
        for node in freshness.to_run(study):
            check_step(study, node)


def check_step(study: Study, node: Node) -> None:
    """Refuse a step that has to run if its dataset has no photos for it, its probes are fitted on other
    classes, or its network's weights are missing or another's. A dataset that params.yaml lacks
    is an error elsewhere.
    """
    dataset = node.cell.dataset if node.cell else str(node.keywords.get("dataset", ""))
    if dataset in study.datasets:
        _check_photos(study, node, dataset)
    check_weights(study, node)


def _check_photos(study: Study, node: Node, dataset: str) -> None:
    where, fitted = f"grids.{study.grid}", study.datasets[dataset].fit_probes_on
    if node.name == "probe" and fitted:
        graph.once(("probed", dataset, fitted), lambda: _check_probes(study, dataset, fitted))
    if node.name == "pretrain" and (pretraining := plan.pretraining(study, node.keywords["backbone"])):
        where = f"pretrainings.{pretraining.name}.dataset" if pretraining.params().dataset else where
    if node.name == "embed_training" and fitted:
        where, dataset = f"datasets.{dataset}.fit_probes_on", fitted

    uses = PHOTO_USES.get(node.name, {})
    if node.cell and node.cell.fold:  # its validation classes are some of the training classes
        uses = {split: use for split, use in uses.items() if split != "val"}
    photos = graph.once(("photos", dataset), lambda: _count_photos(study, dataset)) if uses else {}
    for split, use in uses.items():
        if photos.get(split) == 0:
            raise UserError(
                f"{dataset} has no photos {use}. Choose another dataset for {where} in params.yaml, or an option of it"
                f" that gives some (docs/data.md says which; datasets.{dataset}.options)."
            )


def _count_photos(study: Study, dataset: str) -> dict[str, int]:
    none = {"train": 0, "val": 0} if getattr(study.dataset(dataset).module, "TESTS_ALONE", False) else {}
    return forecast.photos(study, dataset) or none


def _check_probes(study: Study, dataset: str, fitted: str) -> None:
    """Refuse test classes without training photos, once both datasets are indexed."""
    indexed = [step("index", dataset=name) for name in (dataset, fitted)]
    if all(records.read_current(study, node) for node in indexed):
        table, fitted_table = (node.file(study, "table") for node in indexed)
        probes.class_numbers(table, dataset, fitted_table, fitted)


def check_weights(study: Study, node: Node) -> None:
    """Refuse a step whose network's weights are missing or another's, that timm does not know, or that
    lacks a part that training is to leave alone. What was right is remembered beside the study's
    work, since looking takes seconds (torch, or timm, is imported).
    """
    network = _network_of(study, node)
    if network is None:
        return
    owner, module = network.owner, network.module
    is_pretrained = node.cell is not None and plan.pretraining(study, node.cell.backbone) is not None
    file = None if is_pretrained else weights_file(study, network)
    if file is not None and not file.exists():
        if not network.is_fetched:
            raise UserError(
                f"The weights file {file} of {owner} is missing. Put it there, or correct `weights` of it in params.yaml"
                + (" (`published`: they are fetched)." if getattr(module, "PUBLISHED", ()) else ".")
                + (" `make toy-masker` makes it." if file.stem.endswith("_toy") else "")
            )
        file = None  # the node `weights` brings it

    is_masker = network.family == "maskers"
    frozen = study.train.frozen if not is_masker and node.name in ("train", *EMBEDS, "weights") else ()
    builds = hasattr(module, "network" if is_masker else "build")
    if not network.variant and not (builds and (file is not None or frozen)):
        return

    stats = [Path(p).stat() for p in (file, module.__file__) if p]
    rests_on = [
        *(owner, network.kind, str(file), *frozen, network.params().model_dump(mode="json")),
        *([stat.st_size, stat.st_mtime_ns] for stat in stats),
        *(version(library) for library in LIBRARIES),
    ]
    verdict, memory = json.dumps(rests_on), study.files.at("weights_checked")
    passed = memory.read_text("utf-8", "replace").splitlines() if memory.exists() else []
    if verdict in passed:
        return
    if is_masker:
        _check_masker(network.name, module, file)
    else:
        _check_backbone(network, file, frozen)
    write_text(memory, "\n".join([*passed, verdict]))


def _network_of(study: Study, node: Node) -> NamedEntry | None:
    subject = node.keywords
    if node.name == "weights":
        return network_of(study, subject["owner"])
    if node.name == "masks":
        return study.masker(subject["masker"])
    if node.name == "remask":
        return study.masker_of(subject["dataset"])
    if node.name == "propose":
        proposal = plan.pools(study, subject["pool"]).propose
        return study.masker(proposal.masker) if proposal else None
    if node.name == "pretrain":
        return plan.backbone(study, subject["backbone"])
    untrained = node.name in EMBEDS and node.cell and not plan.trains(study, node.cell)
    if node.cell and (node.name == "train" or (untrained and not plan.folds_of(study, node.cell))):
        return plan.backbone(study, node.cell.backbone)
    return None


def _check_backbone(entry: NamedEntry, file: Path | None, frozen: tuple[str, ...]) -> None:
    from bgbias.files import state_dicts
    from bgbias.training import loop

    if entry.variant:
        backbones.facts(entry.kind, entry.params())  # an error if the library does not know it
    if file is None and not frozen:
        return
    trunk = _without_weights(lambda: backbones.build(entry.kind, entry.params()))
    loop.freeze(trunk, frozen, entry.name)
    if file is not None:
        # timm's own conversions compute with values.
        device = "cpu" if entry.variant else "meta"
        state = state_dicts.read_state_dict(file, f"params.yaml: backbones.{entry.name}.weights", device)
        backbones.fit_state(trunk, state, entry.kind, str(file))


def _check_masker(name: str, module: Any, file: Path | None) -> None:
    from bgbias.masks import saliency

    if file is None:
        return
    net = _without_weights(module.network)
    state = saliency.published_state(file, net, f"masker '{name}'", "meta")
    saliency.check_fits(net, state, file, name)


def _without_weights(build: Callable[[], Network]) -> Network:
    """A network without memory for its weights, or, where it cannot be built so, with random ones."""
    import torch

    try:
        with torch.device("meta"):
            return build()
    except (NotImplementedError, RuntimeError):
        with torch.random.fork_rng(devices=[]):
            return build()


def emulation_warning(study: Study, current: Collection[Node]) -> str:
    """A warning if steps of the grid that are to be made compute in bf16 and neither a GPU nor the
    processor has instructions for it; else empty.
    """
    sections: dict[str, None] = {}
    for node in graph.in_order(study):
        if node in current:
            continue
        if section := PRECISIONS.get(node.name):
            precision = getattr(node.study(study), section).precision
        elif node.name == "pretrain" and (pretraining := plan.pretraining(study, node.keywords["backbone"])):
            section, precision = f"pretrainings.{pretraining.name}", pretraining.params().precision
        else:
            continue
        if precision == "bf16":
            sections[section] = None

    if not sections or processor.bf16() != () or shutil.which("nvidia-smi"):
        return ""
    settings = " and ".join(f"{section}.precision" for section in sections)
    return (
        f"{settings} of grid {study.grid}: bf16, for which this processor has no instructions. A step takes ten times as long as"
        " in fp32, or more; use another machine, or write fp32 there."
    )
