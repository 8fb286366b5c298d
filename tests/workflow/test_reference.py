"""Real birds against an independent implementation: the backbone's own features on CUB classes 26-50 (1,487 photos).

The reference points were measured elsewhere with other code: MobileNetV2's pooled features, backgrounds of the paper's test pool
behind U²-Net-p masks, mean of five draws. The whole chain from the archive on runs here, which takes minutes.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import project
import pytest

from bgbias.study import params
from bgbias.study.cell import PRETRAINED, Cell

pytestmark = [pytest.mark.shared, pytest.mark.workflow]
CELL = Cell("cub50", "mobilenet_v2_tf", "none", PRETRAINED, 0)
SECONDS = 3000.0
# MAP@R and P@1, and by how much another implementation may differ.
REFERENCE = {
    ("symmetric", "clean"): ([0.306, 0.679], 0.002),
    ("symmetric", "random_background"): ([0.174, 0.489], 0.01),
    ("query", "random_background"): ([0.227], 0.01),
    # Objects, and what is around them, on grey: 127.5 there, 128 here.
    ("symmetric", "only_fg"): ([0.278, 0.642], 0.01),
    ("symmetric", "no_fg"): ([0.067, 0.288], 0.01),
}


def test_retrieval_meets_the_reference(tmp_path: Path, shared_data: Path) -> None:
    made = project.fresh(tmp_path / "project")
    # The reference was measured on every photo, whatever its mask.
    made.edit("keep_all: false", "keep_all: true", "params.yaml")
    conditions = "conditions: [clean, random_background, only_fg, no_fg]"
    made.edit(
        "evaluation: {precision: fp32}", f"evaluation: {{precision: fp32, {conditions}}}", "grids/cub50.yaml"
    )
    files = params.load(made.folder / "params.yaml", "cub50").files
    made.run(
        *("snakemake", "--cores", "2", str(files.at("scores", **CELL.wildcards)), "--config", "grid=cub50"),
        seconds=SECONDS,
        BGBIAS_SHARED_DATA=str(shared_data.resolve()),
    )
    queries = pd.read_parquet(made.folder / files.at("queries", **CELL.wildcards))
    assert queries["image_id"].nunique() == 1487
    means = queries.groupby(["setting", "condition"])[["map_at_r", "precision_at_1"]].mean()
    for view, (expected, tolerance) in REFERENCE.items():
        found = means.loc[view].tolist()[: len(expected)]
        assert found == pytest.approx(expected, abs=tolerance), view
