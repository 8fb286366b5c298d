"""Nodes on a GPU: each runs there, says so, and makes what a processor makes, but for rounding."""

import inspect
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load as safetensors
from small_study import load, options

from bgbias import plugins
from bgbias.cli import nodes
from bgbias.compute.device import describe
from bgbias.engine import graph, records
from bgbias.engine.node import Node
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")

GPU = "cuda"
# They bring or use networks that the study below has not: maskers, and probes of training photos.
NOT_ASKED = {"embed_training", "masks", "propose", "remask"}
WITH_CLASS_WEIGHTS = ("dcml_code", "dcml_paper")
# Rounding adds up from step to step, so that curves are near to each other, not equal.
CURVES, NEAR_IN_TRAINING = ("loss", "base_loss"), 0.1
# Of numbers; of the mean of those that one swapped neighbour or one pixel of a small object moves; and of masks, equal pixels.
NEAR, NEAR_IN_MEAN, SAME_PIXELS = 5e-3, 0.05, 0.99
BY_THE_MEAN = ("segmentation.csv", ".parquet", "faithful")
TRAINED = [name for name in plugins.names("methods") if plugins.load("methods", name).TRAINS]


def taking_a_device() -> set[str]:
    """All nodes that do, by name."""
    functions = (getattr(plugins.load("nodes", name), name) for name in plugins.names("nodes"))
    return {f.__name__ for f in functions if "device" in inspect.signature(f).parameters}


@pytest.fixture
def study(tmp_path: Path, raw: dict[str, Any]) -> Study:
    """A study in which every method is trained, and models are asked all that can be asked."""
    made = options(raw, photos=8)
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
    block = {"datasets": ["squares"], "backbones": ["pixels"], "losses": ["contrastive"], "seeds": [0]}
    others = [name for name in TRAINED if name not in WITH_CLASS_WEIGHTS]
    made["grids"]["small"]["cells"] = [
        block | {"methods": others, "pretrained": True},
        block | {"losses": ["cosface"], "methods": ["plain", *WITH_CLASS_WEIGHTS]},
        block | {"methods": ["plain"], "backbones": ["learned"]},
    ]
    made["train"] |= {"batch_size": 16, "max_epochs": 2}
    made["attacked"] = {"attacks": ["stax"], "epsilon": [2.0], "steps": 2}
    made["crossing"] = {"objects": 4, "backgrounds": 3}
    made["cures"] = {"names": ["leace", "object_pooling"], "objects": 6, "backgrounds": 3}
    made["segmentation"] = {"episodes": 2}
    made["sanity"] = {"images": 3}
    return load(tmp_path, made)


def test_every_method_and_all_nodes_but_some_are_asked(study: Study) -> None:
    """A new one that the study below does not have is to be added to it."""
    found = asked(study)
    assert {node.name for node in found} == taking_a_device() - NOT_ASKED
    assert {node.cell.method for node in found if node.name == "train" and node.cell} == set(TRAINED)


@pytest.mark.gpu
def test_nodes_make_there_what_a_processor_makes(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is wrong is told, not the first of it: who has a GPU may have it for minutes."""
    monkeypatch.setenv("OMP_NUM_THREADS", "5")  # some views are made by processes beside this one
    wanted, wrong = asked(study), []
    for node in graph.in_order(study, wanted):
        if node not in wanted:
            nodes.work(study, [node])
            continue
        nodes.work(study, [node], device="cpu")
        made = [node.record(study), *(path for path in node.outputs(study).values() if path.exists())]
        before = {path: path.read_bytes() for path in made}
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        try:
            nodes.work(study, [node], device=GPU)
            assert torch.cuda.max_memory_allocated() > held, "it did not run there"
            assert records.read(node.record(study))["device"] == describe(GPU)
            for path in made[1:]:
                alike(path, before[path], node.name in ("train", "pretrain"))
        except Exception as error:
            wrong.append(f"{node.label}: {type(error).__name__}: {error}")
        # What comes next reads one and the same, on either device.
        for path, content in before.items():
            path.write_bytes(content)
    assert not wrong, "\n".join(wrong)


def asked(study: Study) -> list[Node]:
    """How every method is trained and embeds, and every other node of plain models and of the backbone as it comes."""
    names, whole = taking_a_device() - NOT_ASKED, ("plain", "pretrained")
    found = [node for node in graph.in_order(study) if node.name in names]
    return [n for n in found if n.name in ("train", "embed") or not n.cell or n.cell.method in whole]


def alike(path: Path, cpu: bytes, training: bool) -> None:
    """A file holds now what it held before but for rounding; of trained weights the shapes, and that they are finite."""
    ours, theirs = numbers(path.suffix, cpu), numbers(path.suffix, path.read_bytes())
    assert ours.keys() == theirs.keys(), path.name
    for name in ours.keys() - {"ms", "alone_ms"}:
        before, now, where = ours[name], theirs[name], f"{path.name}: {name}"
        assert before.shape == now.shape, where
        if before.dtype == bool:
            assert (before == now).mean() >= SAME_PIXELS, where
        elif not np.issubdtype(before.dtype, np.floating):
            pd.testing.assert_series_equal(pd.Series(now), pd.Series(before), obj=where)
        elif training:
            curve = path.suffix == ".csv" and name in CURVES
            assert not curve or np.allclose(now, before, rtol=NEAR_IN_TRAINING), where
            assert np.isfinite(now).all(), where
        elif path.name.endswith(BY_THE_MEAN) or name in BY_THE_MEAN:
            assert np.nanmean(now) == pytest.approx(np.nanmean(before), abs=NEAR_IN_MEAN), where
        else:
            np.testing.assert_allclose(now, before, atol=NEAR, rtol=NEAR, err_msg=where)


def numbers(kind: str, content: bytes) -> dict[str, np.ndarray]:
    """What a file holds, by name."""
    if kind == ".npz":
        return dict(np.load(io.BytesIO(content)))
    if kind == ".safetensors":
        return safetensors(content)
    read = {".csv": pd.read_csv, ".parquet": pd.read_parquet}[kind](io.BytesIO(content))
    return {name: read[name].to_numpy() for name in read}
