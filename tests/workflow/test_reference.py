"""Real birds against an independent implementation: the backbone's own features on CUB classes 26-50 (1,487 photos).

The reference points were measured elsewhere with other code: MobileNetV2's pooled features, backgrounds of the paper's test pool
behind U²-Net-p masks, mean of five draws. The whole chain from the archive on runs here, which takes minutes.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import project
import pytest
from project import Project

from bgbias.study import params
from bgbias.study.cell import PRETRAINED, Cell

CELL = Cell("cub50", "mobilenet_v2_tf", "none", PRETRAINED, 0)
SECONDS = 3000.0


@pytest.fixture(scope="module")
def means(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> pd.DataFrame:
    """Mean over queries and draws by setting and condition."""
    made: Project = project.fresh(tmp_path_factory.mktemp("birds") / "project")
    # The reference was measured on every photo, whatever its mask.
    made.edit("keep_all: false", "keep_all: true")
    files = params.load(made.folder / "params.yaml", "cub50").files
    made.run(
        *("snakemake", "--cores", "2", str(files.at("scores", **CELL.wildcards)), "--config", "grid=cub50"),
        seconds=SECONDS,
        BGBIAS_SHARED_DATA=str(shared_data.resolve()),
    )
    queries = pd.read_parquet(made.folder / files.at("queries", **CELL.wildcards))
    assert queries["image_id"].nunique() == 1487
    return queries.groupby(["setting", "condition"])[["map_at_r", "precision_at_1"]].mean()


@pytest.mark.shared
@pytest.mark.workflow
def test_clean_retrieval_meets_the_reference(means: pd.DataFrame) -> None:
    found = means.loc[("symmetric", "clean")]
    assert found["map_at_r"] == pytest.approx(0.306, abs=0.002)
    assert found["precision_at_1"] == pytest.approx(0.679, abs=0.002)


@pytest.mark.shared
@pytest.mark.workflow
def test_corrupted_retrieval_meets_the_reference(means: pd.DataFrame) -> None:
    found = means.loc[("symmetric", "random_background")]
    assert found["map_at_r"] == pytest.approx(0.174, abs=0.01)
    assert found["precision_at_1"] == pytest.approx(0.489, abs=0.01)


@pytest.mark.shared
@pytest.mark.workflow
def test_corrupted_queries_against_a_clean_gallery_meet_the_reference(means: pd.DataFrame) -> None:
    assert means.loc[("query", "random_background")]["map_at_r"] == pytest.approx(0.227, abs=0.01)
