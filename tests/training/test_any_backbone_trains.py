"""A network of a library goes the whole way, typed as a person types it, without a line of code for it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_study import described, load

from bgbias.evaluation import embeddings
from bgbias.study.cell import Cell
from bgbias.study.params import Study

CHOSEN = {
    "timm:vit_tiny_patch16_224": {"weights": None, "img_size": 32},
}
TOYS = {"size": 32, "train_classes": 4, "val_classes": 2, "test_classes": 2, "photos_per_class": 4}


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Type a command that ends well."""
    from bgbias import cli

    handler = signal.getsignal(signal.SIGTERM)

    def run(*words: str) -> None:
        monkeypatch.setattr(sys, "argv", ["bgbias", *words, "--params", str(tmp_path / "params.yaml")])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code

    yield run
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def toys(tmp_path: Path) -> Study:
    """Toys of 32 pixels, two iterations, both backbones."""
    raw = described(tmp_path)
    del raw["datasets"]["squares"]
    raw["datasets"]["toys"] = {
        "kind": "toy", "masker": "ground_truth", "backgrounds": "noise", "options": TOYS,
    }  # fmt: skip
    raw["backbones"] = CHOSEN
    raw["train"] |= {"iterations_per_epoch": 2, "max_epochs": 1, "freeze_batch_norm": True}
    block = raw["grids"]["small"]["cells"][0]
    block |= {
        "datasets": ["toys"],
        "backbones": list(CHOSEN),
        "methods": ["bgaugment"],
        "losses": ["contrastive"],
    }
    return load(tmp_path, raw)


def test_backbones_train_and_are_scored(toys: Study, typed: Callable[..., None]) -> None:
    for node in (["index", "toys"], ["masks", "toys"], ["backgrounds", "noise"]):
        typed(*node)
    for name in CHOSEN:
        for node in ("train", "embed", "score", "attribute"):
            device = [] if node == "score" else ["--device", "cpu"]
            typed(node, "toys", name, "contrastive", "bgaugment", "--seed", "0", *device)
        cell = Cell("toys", name, "contrastive", "bgaugment", 0).wildcards
        history = pd.read_csv(toys.files.at("history", **cell))
        assert np.isfinite(history["loss"]).all()
        found = embeddings.read(toys.files.at("embeddings", **cell))
        assert [vectors.shape for vectors in found.views.values()] == [(8, 8)] * 3
        np.testing.assert_allclose(np.linalg.norm(found.views["clean", 0], axis=1), 1, rtol=1e-5)
        assert pd.read_csv(toys.files.at("scores", **cell))["value"].between(0, 1).all()
        assert pd.read_csv(toys.files.at("attribution", **cell))["score"].notna().any()
