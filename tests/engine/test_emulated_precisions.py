"""Arithmetic that this machine lacks is told before it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_study import described, load

from bgbias.compute import processor
from bgbias.engine import checks, graph
from bgbias.study import params

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with neither a GPU nor instructions for bf16."""
    monkeypatch.setattr(processor, "bf16", lambda: ())
    monkeypatch.setenv("PATH", "")


@pytest.mark.usefixtures("without")
def test_settings_that_would_be_emulated_are_named() -> None:
    study = params.load(ROOT / "params.yaml", "cub50")
    said = checks.emulation_warning(study, frozenset())
    assert said.startswith("train.precision and attribution.precision of grid cub50: bf16")
    trained = [node for node in graph.in_order(study) if node.name == "train"]
    assert checks.emulation_warning(study, frozenset(trained)).startswith(
        "attribution.precision of grid cub50: bf16"
    )


@pytest.mark.usefixtures("without")
def test_a_pretraining_says_itself_what_it_computes_in(tmp_path: Path) -> None:
    raw = described(tmp_path)
    raw["pretrainings"] = {"own": {"kind": "byol", "precision": "bf16"}}
    raw["backbones"]["learned"] = {"kind": "pixels", "pretraining": "own"}
    raw["grids"]["small"]["cells"][0] |= {"backbones": ["learned"]}
    said = checks.emulation_warning(load(tmp_path, raw), frozenset())
    assert said.startswith("pretrainings.own.precision of grid small: bf16")


@pytest.mark.usefixtures("without")
def test_what_is_made_or_computes_in_float32_is_not() -> None:
    study = params.load(ROOT / "params.yaml", "cub50")
    assert not checks.emulation_warning(study, frozenset(graph.in_order(study)))
    assert not checks.emulation_warning(params.load(ROOT / "params.yaml", "demo"), frozenset())


@pytest.mark.parametrize("instructions", [("avx512_bf16",), None])
def test_a_processor_that_knows_it_or_tells_nothing_is_not_doubted(
    monkeypatch: pytest.MonkeyPatch, instructions: tuple[str, ...] | None
) -> None:
    monkeypatch.setattr(processor, "bf16", lambda: instructions)
    monkeypatch.setenv("PATH", "")
    assert not checks.emulation_warning(params.load(ROOT / "params.yaml", "cub50"), frozenset())
