"""Every node that takes a device, on a GPU: it runs there, says so, and makes what a processor makes, but for rounding."""

from __future__ import annotations

import inspect
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load as safetensors
from small_study import described, load, options

from bgbias import plugins
from bgbias.cli import nodes
from bgbias.compute.device import describe
from bgbias.engine import graph, records
from bgbias.engine.node import Node
from bgbias.study.params import Study

GPU = "cuda"
# What this study has no need of, or, with true masks, no network for.
ELSEWHERE = ("embed_training", "masks", "propose", "remask")
pytestmark = [
    pytest.mark.usefixtures("small_plugins"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
WITH_CLASS_WEIGHTS = ("dcml_code", "dcml_paper")
# A training's crops differ in their last grey level, so that curves are near to each other, not equal.
CURVES = {"loss": 0.1, "base_loss": 0.1}
NEAR = 5e-3
TIMES = ("ms", "seconds")


def on_devices() -> list[str]:
    """All nodes that take a device."""
    return [
        name
        for name in plugins.names("nodes")
        if "device" in inspect.signature(getattr(plugins.load("nodes", name), name)).parameters
        and name not in ELSEWHERE
    ]


def trained() -> list[str]:
    """All methods that train."""
    return [name for name in plugins.names("methods") if plugins.load("methods", name).TRAINS]


def raw(folder: Path) -> dict[str, Any]:
    """A study in which every method is trained, and every node has something to do."""
    made = options(described(folder), photos=8)
    made["backbones"]["learned"] = {"kind": "pixels", "pretraining": "short"}
    made["pretrainings"] = {"short": {"kind": "moco_v2", "epochs": 2, "batch_size": 8, "queue": 16}}
    made["losses"]["cosface"] = {"default": {"margin": 0.1, "scale": 16, "lr": 0.01}}
    made["methods"] = {
        "attr_loss": {"weight": 1.0},
        "attr_frac": {"weight": 1.0},
        "attr_emb": {"weight": 1.0},
        "dcml_code": {"alpha": 1e-4, "beta": 1e-2, "gamma": 0.1},
        "dcml_paper": {"gamma": 1e-5},
        "mdprop": {"attacks": ["stax", "mtax:2"], "images_per_class": 2},
        "s2sd": {"widths": [16]},
    }
    block = {"datasets": ["squares"], "backbones": ["pixels"], "seeds": [0]}
    made["grids"]["small"]["cells"] = [
        block
        | {
            "losses": ["contrastive"],
            "methods": [n for n in trained() if n not in WITH_CLASS_WEIGHTS],
            "pretrained": True,
        },
        block | {"losses": ["cosface"], "methods": ["plain", *WITH_CLASS_WEIGHTS]},
        block | {"losses": ["contrastive"], "methods": ["plain"], "backbones": ["learned"]},
    ]
    made["train"] |= {"batch_size": 16, "max_epochs": 2}
    made["attacked"] = {"attacks": ["stax"], "epsilon": [2.0], "steps": 2}
    made["crossing"] = {"objects": 4, "backgrounds": 3}
    made["cures"] = {"names": ["leace", "object_pooling"], "objects": 6, "backgrounds": 3}
    made["segmentation"] = {"episodes": 2}
    made["sanity"] = {"images": 3}
    return made


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return load(tmp_path, raw(tmp_path))


def test_every_node_makes_there_what_a_processor_makes(study: Study) -> None:
    """All that is wrong is told, not the first of it: who has a GPU may have it for minutes."""
    worked, wrong = set(), []
    for node in graph.in_order(study, asked(study)):
        if node.name not in on_devices():
            nodes.work(study, [node])
            continue
        nodes.work(study, [node], device="cpu")
        made = [node.record(study), *(path for path in node.outputs(study).values() if path.exists())]
        before = {path: path.read_bytes() for path in made}
        try:
            nodes.work(study, [node], device=GPU)
            assert records.read(node.record(study))["device"] == describe(GPU)
            for path in made[1:]:
                alike(node, path.suffix, before[path], path.read_bytes())
        except Exception as error:
            wrong.append(f"{node.label}: {type(error).__name__}: {error}")
        # What comes next reads one and the same, on either device.
        for path, content in before.items():
            path.write_bytes(content)
        worked |= {node.name, node.cell.method if node.name == "train" and node.cell else node.name}
    assert worked >= {*trained(), *on_devices()}
    assert not wrong, "\n".join(wrong)


def asked(study: Study) -> list[Node]:
    """Each node of a plain model and of the backbone as it comes, and how every other is trained and embeds."""
    found = [node for node in graph.in_order(study) if node.name in on_devices()]
    whole = ("plain", "pretrained")
    return [n for n in found if n.name in ("train", "embed") or not n.cell or n.cell.method in whole]


def alike(node: Node, kind: str, cpu: bytes, gpu: bytes) -> None:
    """The same but for rounding, by what kind of file it is; of trained weights, that there are as many."""
    training = node.name in ("train", "pretrain")
    ours, theirs = tables(kind, cpu), tables(kind, gpu)
    assert ours.keys() == theirs.keys(), node.label
    for name, values in ours.items():
        if name.endswith(TIMES):
            continue
        other = theirs[name]
        assert values.shape == other.shape, (node.label, name)
        if not np.issubdtype(values.dtype, np.floating):
            np.testing.assert_array_equal(values, other, f"{node.label}: {name}")
        elif not training:
            np.testing.assert_allclose(other, values, atol=NEAR, rtol=NEAR, err_msg=f"{node.label}: {name}")
        elif kind == ".csv" and name in CURVES:
            np.testing.assert_allclose(other, values, rtol=CURVES[name], err_msg=f"{node.label}: {name}")
        else:
            assert np.isfinite(other).all() or name.endswith("lr"), (node.label, name)


def tables(kind: str, content: bytes) -> dict[str, np.ndarray]:
    """What a file holds, by name."""
    if kind == ".npz":
        return dict(np.load(io.BytesIO(content)))
    if kind == ".safetensors":
        return safetensors(content)
    read = {".csv": pd.read_csv, ".parquet": pd.read_parquet}[kind](io.BytesIO(content))
    return {name: read[name].to_numpy() for name in read}
