"""Real birds against an independent implementation: the backbone's own features on CUB classes 26-50 (1,487 photos).

The reference points were measured elsewhere with other code: MobileNetV2's pooled features, backgrounds of the paper's test pool
behind U²-Net-p masks, mean of five draws. The whole chain from the archive on runs here, which takes minutes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import project
import pytest
import torch
from project import Project

import bgbias
from bgbias.evaluation import embedding
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.models.inference import for_inference
from bgbias.models.model import EmbeddingModel
from bgbias.models.settings import How
from bgbias.nodes._models import model_of
from bgbias.study import params
from bgbias.study.album import Album
from bgbias.study.cell import PRETRAINED, Cell

CELL = Cell("cub50", "mobilenet_v2_tf", "none", PRETRAINED, 0)
SECONDS = 3000.0

pytestmark = [pytest.mark.shared, pytest.mark.workflow]


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Project:
    """The backbone's scores, made."""
    made: Project = project.fresh(tmp_path_factory.mktemp("birds") / "project")
    # The reference was measured on every photo, whatever its mask.
    made.edit("keep_all: false", "keep_all: true")
    files = params.load(made.folder / "params.yaml", "cub50").files
    made.run(
        *("snakemake", "--cores", "2", str(files.at("scores", **CELL.wildcards)), "--config", "grid=cub50"),
        seconds=SECONDS,
        BGBIAS_SHARED_DATA=str(shared_data.resolve()),
    )
    return made


def test_retrieval_meets_the_reference(birds: Project) -> None:
    files = params.load(birds.folder / "params.yaml", "cub50").files
    queries = pd.read_parquet(birds.folder / files.at("queries", **CELL.wildcards))
    assert queries["image_id"].nunique() == 1487
    means = queries.groupby(["setting", "condition"])[["map_at_r", "precision_at_1"]].mean()
    clean, corrupted = means.loc["symmetric", "clean"], means.loc["symmetric", "random_background"]
    assert clean.tolist() == pytest.approx([0.306, 0.679], abs=0.002)
    assert corrupted.tolist() == pytest.approx([0.174, 0.489], abs=0.01)
    # Corrupted queries, clean gallery.
    assert means.loc["query", "random_background"]["map_at_r"] == pytest.approx(0.227, abs=0.01)


@pytest.fixture
def looked(
    birds: Project, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[EmbeddingModel, EvaluationPhotos]]:
    """The backbone, and the test photos with their masks."""
    monkeypatch.setenv("BGBIAS_SHARED_DATA", str(shared_data.resolve()))
    with contextlib.chdir(birds.folder):
        study = params.load(Path("params.yaml"), "cub50")
        model = for_inference(model_of(study, CELL))
        album = Album(study, CELL.dataset, model.resize, model.input_size)
        yield model, album.evaluation(album.table("test"), {"masks"}, "test")


def on_exact_grey(photos: EvaluationPhotos, image_id: str, inverted: bool) -> torch.Tensor:
    """float32 [3, S, S]: the object, or what is around it, and 127.5 elsewhere, in fractions of a grey level."""
    photo = torch.tensor(photos.clean(image_id)).permute(2, 0, 1).float()
    mask = torch.tensor(photos.mask(image_id)).float() / 255
    return torch.lerp(torch.full_like(photo, 127.5), photo, 1 - mask if inverted else mask)


@pytest.mark.parametrize(
    ("condition", "map_at_r", "precision_at_1"),
    [("only_fg", 0.278, 0.642), ("no_fg", 0.067, 0.288)],
)
def test_objects_and_surroundings_on_grey_meet_the_reference(
    looked: tuple[EmbeddingModel, EvaluationPhotos],
    condition: str,
    map_at_r: float,
    precision_at_1: float,
) -> None:
    """The formula is met within .005; the condition has whole grey levels, and what is 127.5 there is 128."""
    model, photos = looked
    ids = photos.table.ids
    with torch.inference_mode():
        parts = []
        for start in range(0, len(ids), 64):
            some = [on_exact_grey(photos, i, condition == "no_fg") for i in ids[start : start + 64]]
            parts.append(model.pooled(model.preprocess(torch.stack(some))).numpy())
    exact = np.concatenate(parts)
    found = bgbias.rank(exact, photos.table.labels).metrics.mean()
    assert found["map_at_r"] == pytest.approx(map_at_r, abs=0.005)
    assert found["precision_at_1"] == pytest.approx(precision_at_1, abs=0.005)
    rounded = embedding.embed(model, photos, [(condition, 0)], How(pooled=True)).views[condition, 0]
    shown = bgbias.rank(rounded, photos.table.labels).metrics.mean()
    assert shown["map_at_r"] == pytest.approx(map_at_r, abs=0.005)
    assert shown["precision_at_1"] == pytest.approx(precision_at_1, abs=0.01)
