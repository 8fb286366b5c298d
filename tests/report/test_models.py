"""Table 15 and its figure: models as they come, compared as an audit compares them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from asked_models import model
from caption_studies import selected
from small_study import described, load

from bgbias.report import formats, tables
from bgbias.report.figures import _dots as figure
from bgbias.report.tables import models as table15
from bgbias.results import comparison

LEVELS = {"resnet50": (0.7, 0.5), "mobilenet": (0.6, 0.3), "vit": (0.75, 0.45)}


def queries(dataset: str = "birds") -> pd.DataFrame:
    """Of pretrained models, and of one that was trained, of which the table says nothing."""
    own = [
        model(clean, changed).assign(dataset=dataset, backbone=name, loss="none", method="pretrained")
        for name, (clean, changed) in LEVELS.items()
    ]
    other = model(0.9, 0.9).assign(dataset=dataset, backbone="resnet50", loss="arcface", method="plain")
    return pd.concat([*own, other], ignore_index=True)


def test_its_numbers_are_those_of_a_comparison_of_audits() -> None:
    found = comparison.compare({name: model(*levels) for name, levels in LEVELS.items()})
    table = table15.table(queries())
    assert list(table["backbone"]) == list(found.models["model"]) == ["resnet50", "vit", "mobilenet"]
    for name in ("clean", "changed", "drop", "drop_low", "drop_high"):
        assert table[name].tolist() == pytest.approx((100 * found.models[name]).tolist())
    assert table["is_on_front"].tolist() == [True, True, False]
    against = comparison.differences(found.pairs, "resnet50")
    for name, row in table.set_index("backbone").drop("resnet50").iterrows():
        assert row["against_best"] == pytest.approx(100 * against[str(name)].value)
        assert row["against_best_p_holm"] == pytest.approx(against[str(name)].p)
    assert table["against_best"].isna().tolist() == [True, False, False]


def test_datasets_are_compared_each_by_itself() -> None:
    both = pd.concat([queries("birds"), queries("shop")], ignore_index=True)
    table = table15.table(both)
    one = table15.table(queries("birds"))
    for _, own in table.groupby("dataset"):
        pd.testing.assert_frame_equal(
            own.drop(columns="dataset").reset_index(drop=True), one.drop(columns="dataset")
        )


def test_a_grid_has_it_where_nothing_is_trained_and_models_differ(tmp_path: Path) -> None:
    raw = described(tmp_path)
    assert "table15" not in tables.list_enabled(load(tmp_path, raw))
    raw["backbones"]["more_pixels"] = {"kind": "pixels"}
    (block,) = raw["grids"]["small"]["cells"]
    block |= {"pretrained": True, "losses": [], "methods": []}
    assert "table15" not in tables.list_enabled(load(tmp_path, raw))
    block["backbones"] = ["pixels", "more_pixels"]
    assert "table15" in tables.list_enabled(load(tmp_path, raw))


def test_the_caption_says_what_stars_are_corrected_for() -> None:
    text = table15.caption(selected(), table15.table(queries()), {})
    assert "every two models of a dataset" in text
    assert "No photo was excluded for its mask." in text


def test_the_figure_has_a_panel_for_each_dataset_and_the_best_on_top() -> None:
    both = pd.concat([queries("birds"), queries("shop")], ignore_index=True)
    drawn = figure.figure_models(table15.table(both))
    assert len(drawn.axes) == 2
    for axes in drawn.axes:
        assert [label.get_text() for label in axes.get_yticklabels()] == ["resnet50", "vit", "mobilenet"]
        assert axes.yaxis_inverted()


def test_printed_models_of_a_dataset_stand_together() -> None:
    text = formats.markdown(table15.table(queries()), "table15", "Which one.")
    (heading,) = [line for line in text.splitlines() if line.startswith("### ")]
    assert heading.startswith("### birds")
    rows = [line.split(" | ")[0].strip("| ") for line in text.splitlines() if line.startswith("| ")]
    assert rows[-3:] == ["resnet50", "vit", "mobilenet"]
