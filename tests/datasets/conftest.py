"""Datasets have the counts of their replicas (``miniatures``)."""

import importlib

import miniatures
import pytest


@pytest.fixture(autouse=True)
def _counts_of_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, counts in miniatures.COUNTS.items():
        module = importlib.import_module(f"bgbias.datasets.{name}")
        for constant, value in counts.items():
            monkeypatch.setattr(module, constant, value)
