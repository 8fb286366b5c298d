"""The contact sheet of masks shows those that are worth a look, with what is known of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from small_study import data_nodes, described, load, options, record

from bgbias.images import contact_sheet
from bgbias.masks import policy
from bgbias.masks.settings import MaskPolicy
from bgbias.nodes import figure as pictures
from bgbias.report import style as figures
from bgbias.report.figures.masks import MaskTile, figure_masks, select_doubtful


def table(**columns: list[float]) -> pd.DataFrame:
    """A mask table of photos a, b, c, ...; what is not given is inconspicuous."""
    count = len(next(iter(columns.values())))
    usual = {"area": 0.5, "clarity": 1.0, "iou": float("nan")}
    frame = pd.DataFrame({name: columns.get(name, [value] * count) for name, value in usual.items()})
    return frame.assign(image_id=list("abcdefgh"[:count])).reindex(columns=list(policy.COLUMNS))


def tile(excluded: bool = False, truth: bool = True, **row: object) -> MaskTile:
    photo = np.full((60, 80, 3), 200, np.uint8)
    alpha = np.zeros((60, 80), np.uint8)
    alpha[10:40, 20:60] = 255
    values = {"image_id": "birds/a photo.jpg", "area": 0.25, "clarity": 0.5, "iou": 0.125} | row
    return MaskTile(photo, alpha, np.roll(alpha, 5, 1) if truth else None, values, excluded)


def test_each_photo_stands_under_its_worst_reason() -> None:
    masks = table(
        iou=[0.9, 0.2, np.nan, np.nan, np.nan, np.nan, np.nan],
        clarity=[1, 1, 0.1, 1, 1, 1, 1],
        area=[0.5, 0.5, 0.5, 0.02, 0.9, 0.04, 0.5],
    )
    assert select_doubtful(masks, MaskPolicy(), 1) == {
        "lowest IoU": ["b"],
        "least clear": ["c"],
        "smallest": ["d"],
        "largest": ["e"],
        # .01 and .95 are the bounds: .04 is nearer than .5.
        "nearest to the\npolicy's bounds": ["f"],
    }


def test_nothing_is_said_of_iou_where_no_truth_is_known() -> None:
    chosen = select_doubtful(table(clarity=[0.3, 0.1, 0.2]), MaskPolicy(), 2)
    assert chosen == {"least clear": ["b", "c"], "smallest": ["a"]}


def test_captions_tell_what_is_known() -> None:
    figure = figure_masks({"worst": [tile(), tile(truth=False, iou=float("nan"))]}, MaskPolicy())
    said = [axes.get_xlabel() for axes in figure.axes]
    assert said == ["a photo\n25 % · 0.50 · 0.12", "a photo\n25 % · 0.50"]
    # The mask's outline and, where it is known, the truth's.
    assert [len(axes.collections) for axes in figure.axes] == [2, 1]


def test_excluded_masks_have_a_red_frame_and_long_names_are_cut() -> None:
    long = "Red_winged_Blackbird_0012_6015"
    figure = figure_masks({"worst": [tile(excluded=True, image_id=f"x/{long}.jpg"), tile()]}, MaskPolicy())
    frames = [to_hex(axes.spines["top"].get_edgecolor()).upper() for axes in figure.axes]
    assert frames == [figures.WRONG, contact_sheet.RULE]
    assert figure.axes[0].get_xlabel().startswith("Red_winge…_0012_6015")
    assert any("area is not 1 % to 95 %" in t.get_text() for t in figure.texts)
    kept = figure_masks({"worst": [tile()]}, MaskPolicy(keep_all=True))
    assert any("all masks are used" in t.get_text() for t in kept.texts)


def test_empty_masks_are_shown() -> None:
    empty = tile(truth=False)
    figure = figure_masks({"worst": [MaskTile(empty.photo, empty.alpha * 0, None, empty.row)]}, MaskPolicy())
    assert len(figure.axes[0].collections) == 0


@pytest.mark.usefixtures("small_plugins")
def test_the_sheet_is_drawn_for_the_shown_dataset(tmp_path: Path) -> None:
    study = load(tmp_path, options(described(tmp_path), empty_mask=["13/2.png"], without_mask=["12/0.png"]))
    data_nodes(study)
    pictures.figure(study, "masks")
    assert study.files.at("figure_png", figure="masks").stat().st_size > 10_000
    read = record(study, "figure_record", figure="masks")["inputs"]
    assert str(study.files.at("mask_table", dataset="squares", masker="ground_truth")) in read
    assert not any("backgrounds" in path for path in read)
