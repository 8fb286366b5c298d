"""Table 14 and its figure: of made-up decisions, and of networks that learned with several alphas."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from caption_studies import selected
from small_study import data_nodes, described, load, options

import bgbias
from bgbias.errors import UserError
from bgbias.evaluation.metrics import OF_DONOR, OTHERS
from bgbias.nodes import collect, embed, figure, pretrain, score
from bgbias.nodes import table as table_node
from bgbias.report import figures, formats, tables
from bgbias.report.tables import shape_texture
from bgbias.results import rows
from bgbias.study import plan
from bgbias.study.params import Study

shape_share = figures.load("shape_share")
SEEDS, IMAGES, DRAWS = (0, 1, 2), 40, 2
LABELS = np.arange(IMAGES) % 8
SHAPES = {"bare": 0.2, "patches": 0.5}
LEARNED = {
    "bare": {"negatives": "none", "alpha": 0.0, "alike": "bare"},
    "patches": {"negatives": "patches", "alpha": 2.0, "alike": "bare"},
}


def decisions(backbone: str, seed: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Whether queries follow shape, and whether they follow texture, 0 or 1."""
    drawn = np.random.default_rng([seed, draw, list(SHAPES).index(backbone)]).random(IMAGES) - 0.02 * LABELS
    shape = drawn < SHAPES[backbone]
    return shape.astype(float), (~shape & (drawn < 0.7)).astype(float)


def queries() -> pd.DataFrame:
    parts = []
    for backbone in SHAPES:
        for seed in SEEDS:
            for draw in range(DRAWS):
                shape, texture = decisions(backbone, seed, draw)
                model = {"dataset": "toy", "backbone": backbone, "loss": "none", "method": "pretrained"}
                view = {"seed": seed, "setting": rows.QUERY_ONLY, "condition": "cue_conflict", "draw": draw}
                of = {"image_id": [f"{n:02d}.jpg" for n in range(IMAGES)], "label": LABELS, OTHERS: 0.0}
                values = {rows.PRECISION_AT_1: shape, OF_DONOR: texture}
                parts.append(pd.DataFrame({**model, **view, **of, **values}))
    return pd.concat(parts, ignore_index=True)


def test_shares_are_over_classes_and_seeds() -> None:
    table = shape_texture.table(queries(), LEARNED).set_index("backbone")
    for backbone in SHAPES:
        drawn = [[decisions(backbone, seed, draw) for draw in range(DRAWS)] for seed in SEEDS]
        shape, texture = np.moveaxis(np.array(drawn).mean(1), 1, 0)
        row = table.loc[backbone]
        for name, found in {
            "shape": bgbias.estimate([shape], LABELS),
            "texture": bgbias.estimate([texture], LABELS),
            "neither": bgbias.estimate([1 - shape - texture], LABELS),
            "shape_share": bgbias.estimate([shape, texture], LABELS, lambda a, b: a / (a + b)),
        }.items():
            ends = [row[f"{name}{end}"] for end in ("", "_low", "_high")]
            assert ends == pytest.approx([100 * found.value, 100 * found.low, 100 * found.high])
        for seed in SEEDS:
            expected = 100 * shape[seed].sum() / (shape[seed] + texture[seed]).sum()
            assert row[f"shape_share_seed_{seed}"] == pytest.approx(expected)
        assert (row["queries"], row["classes"], row["seeds"]) == (IMAGES, 8, 3)
    assert table["alpha"].tolist() == [0, 2]


def test_chance_is_the_share_of_others_of_the_class() -> None:
    """Of 7 photos, a query's own and its donor's left out: of a class of 3 there are 2 among 5, of one of 4 3 among 5."""
    assert shape_texture.chance_levels(np.array([4, 4, 4, 6, 6, 6, 6])) == pytest.approx({4: 0.4, 6: 0.6})
    of_class = {label: 0.1 * (label % 2) for label in range(8)}
    table = shape_texture.table(queries(), chance={"toy": of_class})
    assert table["chance"].tolist() == pytest.approx([5, 5])
    assert "By chance, %" in formats.markdown(table, "table14", "")
    assert "By chance, %" not in formats.markdown(shape_texture.table(queries()), "table14", "")


def test_negatives_are_told_where_there_are_some() -> None:
    with_, without = (shape_texture.table(queries(), learned) for learned in (LEARNED, {}))
    said = shape_texture.caption(selected(evaluation=SimpleNamespace(draws=DRAWS)), with_, {"toy": 3})
    assert "40 queries" in said
    assert "2 draws each" in said
    assert "are not used as queries: toy 3" in said
    page = formats.markdown(with_, "table14", said)
    assert "| patches | 2 |" in page
    said = shape_texture.caption(selected(evaluation=SimpleNamespace(draws=DRAWS)), without, {})
    assert "alpha" not in said
    assert "Alpha" not in formats.markdown(without, "table14", said)


def test_values_that_are_missing_are_told() -> None:
    whole = queries()
    with pytest.raises(UserError, match="No query was seen as cue_conflict"):
        shape_texture.table(whole[whole["condition"] == "clean"])
    with pytest.raises(UserError, match="toy/patches/none/pretrained lacks values a query for shape"):
        shape_texture.table(whole.drop(index=whole.index[-1]))


def test_the_figure_shows_every_alpha_and_every_seed() -> None:
    table = shape_texture.table(queries(), LEARNED)
    (axes,) = shape_share.figure_shape_share(table).axes
    assert axes.get_title(loc="left") == "toy · bare, patches"
    lines = [line.get_xydata() for line in axes.get_lines()]
    for seed in SEEDS:
        points = np.column_stack([[0, 2], table[f"shape_share_seed_{seed}"]])
        assert any(np.allclose(line, points) for line in lines if line.shape == points.shape)
    assert any(np.allclose(line[:, 1], table["shape_share"]) for line in lines if len(line) == 2)
    # Negatives that do not count are as good as none: a line has one point at 0.
    idle = table.loc[[1]].assign(backbone="idle", alpha=0.0)
    (axes,) = shape_share.figure_shape_share(pd.concat([table, idle])).axes
    assert sorted(max((line.get_xdata() for line in axes.get_lines()), key=len)) == [0, 2]
    with pytest.raises(UserError, match="differ in alpha alone; choose grid: shape_texture"):
        shape_share.figure_shape_share(table[table["backbone"] == "patches"])


# -- a small study -----------------------------------------------------------------------------------------------------


def study(folder: Path, conditions: tuple[str, ...] = ("cue_conflict",), **more: dict[str, Any]) -> Study:
    """A network as it comes and after a short pretraining with several alphas; ``more``: other pretrainings."""
    raw = options(described(folder), test_classes=5, photos=3)
    moco = {"kind": "moco_v2", "epochs": 1, "batch_size": 6, "queue": 6, "dim": 4}
    patches = moco | {"negatives": "patches"}
    own = {"bare": moco, "three": patches | {"alpha": 3}} | more
    raw["pretrainings"] = own
    raw["backbones"] |= {name: {"kind": "pixels", "pretraining": name} for name in own}
    block = {"datasets": ["squares"], "backbones": ["pixels", *own], "pretrained": True, "seeds": [0]}
    raw["grids"]["small"]["cells"] = [block]
    raw["evaluation"]["conditions"] = ["clean", "random_background", *conditions]
    return load(folder, raw)


@pytest.mark.usefixtures("small_plugins")
def test_from_photos_to_table_and_figure(tmp_path: Path) -> None:
    small = study(tmp_path)
    data_nodes(small)
    for backbone in ("bare", "three"):
        pretrain.pretrain(small, backbone=backbone, dataset="squares", run="0", device="cpu")
    for cell in plan.cells(small):
        embed.embed(small, cell, "cpu")
        score.score(small, cell)
    collect.collect(small)
    assert "table14" in tables.list_enabled(small)
    assert "shape_share" in figures.list_enabled(small)
    table_node.table(small, "table14")
    figure.figure(small, "shape_share")
    made = formats.read(small.files.at("table_csv", table="table14"))
    assert len(made) == 6  # three networks, each with a random layer and without
    alphas = made.drop_duplicates("backbone").set_index("backbone")["alpha"]
    assert alphas.drop("pixels").to_dict() == {"bare": 0, "three": 3}
    assert np.isnan(alphas["pixels"])
    assert (made["shape"] + made["texture"] + made["neither"]).tolist() == pytest.approx([100] * 6)
    assert made["chance"].tolist() == pytest.approx([100 * 2 / 13] * 6)  # 5 classes of 3 photos
    # Squares of one colour: all silhouettes are alike, and what fills them says the other class.
    assert (made["texture"] > made["shape"]).all()
    assert small.files.at("figure_png", figure="shape_share").stat().st_size > 5000


def test_what_differs_in_alpha_alone_is_one_line(tmp_path: Path) -> None:
    moco = {"kind": "moco_v2", "epochs": 1, "batch_size": 6, "queue": 6, "dim": 4, "negatives": "patches"}
    more = {
        "off": moco | {"alpha": 0},
        "longer": moco | {"epochs": 2},
        "small": moco | {"largest": 32},
        "objects": moco | {"negatives": "surroundings", "alpha": 1},
    }
    made = study(tmp_path, **more)
    found = shape_texture.pretraining_columns(made)
    assert {name: tuple(of.values()) for name, of in found.items()} == {
        "bare": ("none", 0.0, "bare"),
        "three": ("patches", 3, "bare"),
        "off": ("none", 0.0, "bare"),
        "longer": ("patches", 2.0, "longer"),
        "small": ("patches 16–32", 2.0, "bare"),
        "objects": ("surroundings", 1, "bare"),
    }
    assert shape_share.wanted(made)
    assert not shape_share.wanted(study(tmp_path, conditions=()))
    assert not shape_texture.wanted(study(tmp_path, conditions=()))
    fixed = {"bare": moco, "three": moco}
    assert not shape_share.wanted(study(tmp_path, **fixed))
