"""Embedding, scoring and attribution of a model as one job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_study import data_nodes, described, load, run

from bgbias.cli import nodes
from bgbias.engine import freshness
from bgbias.engine.node import step
from bgbias.errors import UserError
from bgbias.nodes import score
from bgbias.study.cell import Cell

CELL = Cell("squares", "pixels", "contrastive", "plain", 0)


@pytest.mark.usefixtures("small_plugins")
def test_what_a_job_that_failed_had_set_aside_is_out_of_date_until_all_of_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = described(tmp_path)
    raw["grids"]["small"]["cells"][0] |= {"losses": ["contrastive"], "methods": ["plain"]}
    study, embed = load(tmp_path, raw), step("embed", cell=CELL)
    parts = CELL.wildcards | {"seed": "0"}

    def evaluate() -> None:
        nodes._evaluate(None, tmp_path / "params.yaml", None, "cpu", False, **parts)

    def fail(*_: Any, **__: Any) -> None:
        raise UserError("no")

    data_nodes(study)
    run(study, CELL, "train")
    evaluate()
    embeddings, record = embed.file(study, "embeddings"), embed.record(study)
    embeddings.unlink()
    freshness.settle(study)
    with monkeypatch.context() as patched:
        patched.setattr(score, "score", fail)
        with pytest.raises(UserError):
            evaluate()
    # So does Snakemake with what a job that failed has made anew.
    embeddings.unlink()
    record.unlink()
    states = {found.node.name: found.state for found in freshness.settle(study)}
    assert (states["embed"], states["score"]) == ("stale", "behind")
    evaluate()
    assert embeddings.exists()
    freshness.settle(study)
    assert not list(tmp_path.rglob("*.stale"))
