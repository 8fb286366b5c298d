"""A condition is one file: it is found by its name, and embeddings and scores have it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from in_memory import Pictures, table
from small_study import data_nodes, described, load, options, run

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.evaluation import across_places, conditions, embeddings, metrics
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.study.cell import Cell

CELL = Cell("squares", "pixels", "none", "pretrained", 0)
UPSIDE_DOWN = '''"""The photo upside down."""

TITLE = "upside down"
NEEDS = frozenset()
DRAWS = False
SETTINGS = ("query",)


def view(photo, draw):
    return photo.view[::-1]
'''
# Its own background comes from another photo of the split.
NEIGHBOURLY = '''"""The object before another photo."""

TITLE = "before another photo"
NEEDS = frozenset({"masks"})
DRAWS = True
SETTINGS = ("symmetric",)


def view(photo, draw):
    other = photo.split.photo((photo.row + 1 + draw) % len(photo.split.table))
    return photo.foreground.before(other.view)
'''


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """A folder of somebody's own with two conditions."""
    folder = tmp_path / "own"
    (folder / "conditions").mkdir(parents=True)
    for name, text in (("upside_down", UPSIDE_DOWN), ("neighbourly", NEIGHBOURLY)):
        (folder / "conditions" / f"{name}.py").write_text(text, encoding="utf-8")
    yield folder
    plugins.use()


def test_a_condition_is_one_file(tmp_path: Path, own: Path) -> None:
    raw = options(described(tmp_path), without_mask=["12/0.png"])
    raw["plugins"] = [*raw["plugins"], str(own)]
    raw["grids"]["small"]["cells"][0]["pretrained"] = True
    study = load(tmp_path, raw)
    data_nodes(study)
    run(study, CELL, "embed", "score")
    usual = embeddings.read(study.files.at("embeddings", **CELL.wildcards))
    usual_scores = pd.read_csv(study.files.at("scores", **CELL.wildcards))

    names = ["clean", "random_background", "upside_down", "neighbourly"]
    raw["grids"]["small"]["evaluation"] = {"conditions": names}
    study = load(tmp_path, raw)
    run(study, CELL, "embed", "score")
    embedded = embeddings.read(study.files.at("embeddings", **CELL.wildcards))
    assert list(embedded.views) == [
        *usual.views,
        ("upside_down", 0),
        ("neighbourly", 0),
        ("neighbourly", 1),
    ]
    for view, vectors in usual.views.items():
        assert np.array_equal(embedded.views[view], vectors)
    seen = np.stack(list(embedded.views.values()))
    assert np.allclose(np.linalg.norm(seen, axis=2), 1, atol=1e-5)
    different = np.abs(seen - seen[0]).max(axis=2) > 1e-5
    # What needs no masks is done to every photo; a photo without a trusted one keeps its background.
    assert different[3].all()
    (kept,) = np.flatnonzero(~embedded.usable)
    assert different[[1, 2, 4, 5]].all(axis=0).tolist() == [row != kept for row in range(len(embedded.ids))]
    assert not different[[1, 2, 4, 5], kept].any()

    scores = pd.read_csv(study.files.at("scores", **CELL.wildcards))
    known = scores["condition"].isin(names[:2])
    pd.testing.assert_frame_equal(scores[known].reset_index(drop=True), usual_scores)
    added = scores[~known]
    ranked = added[["setting", "condition", "draw"]].drop_duplicates()
    assert list(ranked.itertuples(index=False, name=None)) == [
        ("query", "upside_down", 0),
        ("symmetric", "neighbourly", 0),
        ("symmetric", "neighbourly", 1),
    ]
    assert set(added["metric"]) == set(metrics.names())
    assert set(added.loc[added["metric"].str.startswith("recall"), "n"]) == {len(embedded.ids) - 1}


def test_what_conditions_need_and_how_often_they_are_drawn(own: Path) -> None:
    plugins.use(own)
    assert conditions.views(("neighbourly", "clean"), 2) == (
        ("neighbourly", 0),
        ("neighbourly", 1),
        ("clean", 0),
    )
    assert conditions.needs(("clean", "upside_down")) == frozenset()
    assert conditions.needs(("clean", "neighbourly")) == {"masks"}
    assert conditions.needs(("random_background", "neighbourly")) == {"masks", "backgrounds"}


def test_masks_and_backgrounds_are_read_only_where_they_are_needed() -> None:
    pictures = {n: np.full((8, 9, 3), k, np.uint8) for k, n in enumerate("abc")}
    photos = EvaluationPhotos(table(dict.fromkeys("abc", 0)), Pictures(pictures), 8)  # type: ignore[arg-type]
    assert [int(view.max()) for view in photos.views([("clean", 0)])] == [0, 1, 2]
    with pytest.raises(ValueError, match="opened without backgrounds"):
        list(photos.views([("random_background", 0)]))


@pytest.mark.parametrize("name", plugins.names("conditions"))
def test_every_condition_says_what_it_is(name: str) -> None:
    module = plugins.load("conditions", name)
    assert module.TITLE
    assert {"masks", "backgrounds", "inpainted", "second_masks"} >= module.NEEDS
    assert "inpainted" not in module.NEEDS or "masks" in module.NEEDS
    assert module.DRAWS in (True, False)
    assert set(module.SETTINGS) <= {conditions.SYMMETRIC, conditions.QUERY_ONLY}
    assert module.SETTINGS or name in across_places.LENT


@pytest.mark.usefixtures("small_plugins")
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["clean"], r"from clean to random_background; add random_background"),
        (["random_background"], r"add clean"),
        (["clean", "random_background", "clean"], r"named twice"),
        (
            ["clean", "random_background", "cleen"],
            r"evaluation\.conditions: 'cleen' \(did you mean 'clean'\?\)",
        ),
        (
            ["clean", "random_background", "either_mask"],
            r"evaluation\.conditions: either_mask is of audits with --second-masker alone",
        ),
    ],
)
def test_wrong_conditions_are_refused(tmp_path: Path, changed: list[str], said: str) -> None:
    raw: dict[str, Any] = described(tmp_path)
    raw["grids"]["small"]["evaluation"] = {"conditions": changed}
    with pytest.raises(UserError, match=said):
        load(tmp_path, raw)
