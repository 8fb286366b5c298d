"""Whether the networks of a grid can start from the weights that params.yaml gives them, and have the parts that training is to
leave alone: found out before anything runs.

What was found right is remembered beside the study's work, since looking takes seconds (torch, or timm, is imported).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from bgbias.engine import freshness
from bgbias.engine.node import Node
from bgbias.errors import UserError
from bgbias.files.atomic import write_json
from bgbias.files.code import hashed
from bgbias.models import backbones
from bgbias.study import plan
from bgbias.study import weights as pretrained
from bgbias.study.named import NamedBackbone
from bgbias.study.params import Study

Network = TypeVar("Network")
LIBRARIES = ("timm", "torch", "torchvision")
# The nodes that take an untrained cell's backbone as it comes.
EMBEDS = ("embed", "embed_training", "attribute", "segment", "cross", "cure", "attack")


def check(study: Study) -> None:
    """Refuse a grid with a network whose weights are missing or another's, or that timm does not know; what need not run is not
    looked at.
    """
    for node in freshness.to_run(study):
        check_node(study, node)


def check_node(study: Study, node: Node) -> None:
    """As ``check``, of one node that has to run."""
    owner = _network_of(study, node)
    if not owner:
        return
    module, params = pretrained.described(study, owner)
    family, _, name = owner.partition("/")
    is_pretrained = node.cell is not None and plan.pretraining(study, node.cell.backbone) is not None
    file = None if is_pretrained else pretrained.file(study, owner)
    if file is not None and not file.exists():
        if not pretrained.fetched(study, owner):
            raise UserError(
                f"The weights file {file} of {owner} is missing. Put it there, or correct `weights` of it in params.yaml"
                + (" (`published`: they are fetched)." if getattr(module, "PUBLISHED", ()) else ".")
                + (" `make toy-masker` makes it." if file.stem.endswith("_toy") else "")
            )
        file = None  # the node `weights` brings it

    is_masker = family == "maskers"
    frozen = study.train.frozen if not is_masker and node.name in ("train", *EMBEDS, "weights") else ()
    builds = hasattr(module, "network" if is_masker else "build")
    if not pretrained.variant(study, owner) and not (builds and (file is not None or frozen)):
        return
    # What the verdict rests on.
    stats = [Path(p).stat() for p in (file, module.__file__) if p]
    kind = study.maskers[name].kind if is_masker else plan.backbone(study, name).kind
    rests_on = [
        *(owner, kind, str(file), *frozen, params.model_dump(mode="json")),
        *([stat.st_size, stat.st_mtime_ns] for stat in stats),
        *(version(library) for library in LIBRARIES),
    ]
    verdict = hashed(json.dumps(rests_on))
    memory = study.files.at("weights_checked")
    passed = _passed(memory)
    if verdict in passed:
        return
    if is_masker:
        _check_masker(name, module, file)
    else:
        _check_backbone(plan.backbone(study, name), file, frozen)
    write_json(memory, passed | {verdict: owner})


def _network_of(study: Study, node: Node) -> str:
    """The network that the node starts from, as its weights are called; empty if it starts from none."""
    if node.name == "weights":
        return str(node.keywords["owner"])
    if node.name == "masks":
        return pretrained.owner("maskers", node.keywords["masker"])
    if node.name == "remask":
        return pretrained.owner("maskers", study.datasets[node.keywords["dataset"]].masker)
    if node.name == "propose":
        proposal = plan.pools(study, node.keywords["pool"]).propose
        return pretrained.owner("maskers", proposal.masker) if proposal else ""
    if node.name == "pretrain":
        return pretrained.owner("backbones", node.keywords["backbone"])
    untrained = node.name in EMBEDS and node.cell and not plan.trains(study, node.cell)
    if node.cell and (node.name == "train" or (untrained and not plan.folds_of(study, node.cell))):
        return pretrained.owner("backbones", node.cell.backbone)
    return ""


def _check_backbone(named: NamedBackbone, file: Path | None, frozen: tuple[str, ...]) -> None:
    from bgbias.files import state_dicts
    from bgbias.models.backbones import _weights
    from bgbias.training import freezing

    if named.variant:
        backbones.facts(named.kind, named.params())  # one that the library does not know is told
    if file is None and not frozen:
        return
    trunk = _on_paper(lambda: backbones.build(named.kind, named.params()))
    freezing.frozen(trunk, frozen, named.name)
    if file is not None:
        # timm's own conversions compute with values.
        device = "cpu" if named.variant else "meta"
        state = state_dicts.read_state_dict(file, f"params.yaml: backbones.{named.name}.weights", device)
        _weights.fitted(trunk, state, named.kind, str(file))


def _check_masker(name: str, module: Any, file: Path | None) -> None:
    from bgbias.files import state_dicts
    from bgbias.masks import onnx, saliency

    if file is None:
        return
    net, whose = _on_paper(module.network), f"masker '{name}'"
    state = (
        onnx.read_onnx(file, net, whose)
        if file.suffix == ".onnx"
        else state_dicts.read_state_dict(file, whose, "meta")
    )
    saliency.check_fits(net, state, file, name)


def _on_paper(build: Callable[[], Network]) -> Network:
    """A network without memory for its weights, or, where it cannot be built so, with random ones."""
    import torch

    try:
        with torch.device("meta"):
            return build()
    except (NotImplementedError, RuntimeError):
        with torch.random.fork_rng(devices=[]):
            return build()


def _passed(memory: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(memory.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return {}
