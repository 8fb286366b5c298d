"""Figures: files that exist, say what the data say, and have the same bytes for the same data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import table_examples as examples
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from PIL import Image
from table_inputs import SEEDS, drops

from bgbias.errors import UserError
from bgbias.images import contact_sheet
from bgbias.masks.settings import MaskPolicy
from bgbias.report import style as figures
from bgbias.report.figures import _panels
from bgbias.report.figures._dots import figure_change, figure_drop, figure_models
from bgbias.report.figures._maps import figure_attribution, pictures
from bgbias.report.figures.calibration import figure_calibration
from bgbias.report.figures.masks import MaskTile, figure_masks, select_doubtful
from bgbias.report.figures.photos import figure_photos
from bgbias.report.figures.retrieval import figure_retrieval, trusted_queries
from bgbias.report.queries import Answer, FoundPhoto, ShownQuery
from bgbias.report.sheets import Picture, overlay
from bgbias.report.tables import crossing, models, shape_texture
from bgbias.results.rows import MODEL

METHODS = ("plain", "bgaugment")
CORRELATIONS = {"toy00": 0.0, "toy50": 0.5, "toy90": 0.9}


def photo(number: int, size: int = 64) -> np.ndarray:
    return np.random.default_rng(number).integers(60, 200, (size, size, 3), dtype=np.uint8)


def retrieval(*correct: bool) -> ShownQuery:
    found = tuple(FoundPhoto("", right, photo(number)) for number, right in enumerate(correct, 1))
    answers = tuple(Answer(method, 1.0, 1.0, found, found) for method in METHODS)
    return ShownQuery("a", "", photo(0), photo(1), photo(0)[..., 0], answers)


def attribution() -> list[list[Picture]]:
    mask = np.zeros((64, 64), dtype=np.uint8)
    mask[16:48, 16:48] = 255
    flat, sharp = np.full((64, 64), 0.5, dtype=np.float16), (mask / 255).astype(np.float16)
    scores = {"plain": -0.123, "bgaugment": 1.0}
    return [pictures(photo(1), mask, {"plain": flat, "bgaugment": sharp}, scores)] * 2


def table() -> pd.DataFrame:
    rows = []
    for dataset, correlation in CORRELATIONS.items():
        for loss in ("contrastive", "arcface") if dataset == "toy90" else ("contrastive",):
            for method, drop in (("plain", 5 + 40 * correlation), ("bgaugment", 5 + 2 * correlation)):
                model = {"dataset": dataset, "backbone": "toynet", "loss": loss, "method": method}
                for name, value, down, up in (
                    ("clean", 40.0, 9.0, 4.0),
                    ("corrupted", 40 - 0.4 * drop, 1.0, 2.0),
                    ("relative_drop", drop, 3.0, 2.0),
                ):
                    model |= {name: value, f"{name}_low": value - down, f"{name}_high": value + up}
                rows.append(model)
    known = [f"published_{level}{of}" for level in ("clean", "corrupted") for of in ("", "_differs")]
    return pd.DataFrame(rows).assign(**dict.fromkeys(known, np.nan))


def changes() -> pd.DataFrame:
    """The table with what methods change of plain training: a cost on original photos that is not significant, and a gain."""
    frame = table()
    is_plain = frame["method"] == "plain"
    for column, value, p in (("clean_difference", -2.0, 0.2), ("corrupted_difference", 9.0, 0.01)):
        numbers = {"": value, "_low": value - 3, "_high": value + 4, "_p_holm": p}
        frame = frame.assign(
            **{f"{column}{end}": np.where(is_plain, np.nan, n) for end, n in numbers.items()}
        )
    return frame


def seeds() -> pd.DataFrame:
    """Three trainings of every model, whose mean is the table's."""
    rows = []
    for row in table().to_dict("records"):
        for seed, more in enumerate((-6.0, 2.0, 4.0)):
            clean, corrupted = row["clean"] + more, row["corrupted"] + more / 2
            model = {name: row[name] for name in MODEL}
            drop = 100 * (1 - corrupted / clean)
            rows.append(model | {"seed": seed, "clean": clean, "corrupted": corrupted, "relative_drop": drop})
    return pd.DataFrame(rows)


DROPS = drops(dict.fromkeys(examples.CROSSED, 1.0))
SHEETS: dict[str, Callable[[], Figure]] = {
    "retrieval": lambda: figure_retrieval(retrieval(True, False, True)),
    "attribution": lambda: figure_attribution(METHODS, attribution()),
    "photos": lambda: figure_photos([[photo(i) for i in range(4)]] * 3),
    "panels": lambda: _panels.figure(
        _panels.by_network(table().replace({"bgaugment": "attr_frac+bgaugment"}), lambda *_: None), "clean"
    ),
    "masks": lambda: figure_masks({"worst": [tile()] * 2, "smallest": [tile()]}, MaskPolicy()),
}
# A figure, the table that it shows, and which of its numbers.
SHOWN: dict[str, tuple[Callable[[pd.DataFrame], Figure], Callable[[], pd.DataFrame], tuple[str, ...]]] = {
    "change": (figure_change, changes, ("clean_difference", "corrupted_difference")),
    "drop": (figure_drop, table, ("clean", "corrupted", "relative_drop")),
    "calibration": (
        lambda rows: figure_calibration(rows, CORRELATIONS, seeds()),
        table,
        ("clean", "corrupted", "relative_drop"),
    ),
    "seeds": (lambda rows: figure_calibration(table(), CORRELATIONS, rows), seeds, ("relative_drop",)),
    "models": (
        figure_models,
        lambda: models.table(examples.as_they_come(("birds", "shop"))),
        ("clean", "changed"),
    ),
    "worst_of": (
        _panels.figure_worst_of,
        lambda: crossing.table(examples.crossed(), examples.shares(), DROPS),
        ("worst_1", "worst_5", "worst_all"),
    ),
    "shape_share": (
        _panels.figure_shape_share,
        lambda: shape_texture.table(examples.decisions(), examples.LEARNED),
        ("shape_share", *(f"shape_share_seed_{seed}" for seed in SEEDS)),
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_figure_shows_each_number_of_its_table_with_its_interval(name: str) -> None:
    draw, make, columns = SHOWN[name]
    rows = make()
    figure = draw(rows)
    points = [line.get_xydata() for axes in figure.axes for line in axes.lines]
    bars = [path.vertices for axes in figure.axes for of in axes.collections for path in of.get_paths()]
    wanted = {
        name: of
        for name, of in ((f"{c}{e}", e) for c in columns for e in ("", "_low", "_high"))
        if name in rows
    }
    for column, end in wanted.items():
        if name == "calibration" and end and column[:5] in ("clean", "corru"):
            continue  # lines without intervals
        drawn = np.concatenate(bars if end else points).ravel()
        for value in rows[column].dropna():
            assert np.isclose(drawn, value).any(), (column, value)
    labels = [text.get_text() for axes in figure.axes for text in axes.get_yticklabels()]
    called = {"change": "BGAugment, ArcFace", "drop": "+ BGAugment", "models": "mobilenet"}
    assert called.get(name, labels[0]) in labels


@pytest.mark.parametrize("name", [*SHEETS, *SHOWN])
def test_a_figure_is_drawn_with_room_for_its_words(name: str) -> None:
    figure = SHEETS[name]() if name in SHEETS else SHOWN[name][0](SHOWN[name][1]())
    figure.set_dpi(40)
    figure.canvas.draw()
    assert np.asarray(figure.canvas.buffer_rgba())[..., :3].std() > 10
    box = figure.get_tightbbox()
    assert box.x0 > 0
    assert box.x1 < figure.get_figwidth()


def texts(figure: Figure) -> list[str]:
    found = [t.get_text() for axes in figure.axes for t in axes.texts]
    return found + [t.get_text() for t in figure.texts]


def test_same_data_same_bytes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        figure = figures.blank(1, 1)
        figure.add_subplot().plot([0, 1], label="a line")
        figures.save(figure, tmp_path / name, "line")
    first, second = (sorted((tmp_path / name).iterdir()) for name in ("first", "second"))
    # Nothing is left of the temporary files.
    assert [path.name for path in first] == ["line.pdf", "line.png"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert b"CreationDate" not in first[0].read_bytes()
    assert Image.open(first[1]).info["dpi"] == pytest.approx((200, 200), abs=0.1)


def test_right_and_wrong_are_framed_and_marked() -> None:
    figure = figure_retrieval(retrieval(True, True, False))
    found = texts(figure)
    # Two methods, two rows each.
    assert (found.count("✓"), found.count("✗"), found.count("2/3")) == (8, 4, 4)
    frames = [axes.spines["top"].get_edgecolor() for axes in figure.axes]
    assert (frames.count(to_rgba(figures.RIGHT)), frames.count(to_rgba(figures.WRONG))) == (8, 4)


def test_attribution_scores_are_printed_with_a_true_minus_or_as_missing() -> None:
    found = texts(figure_attribution(METHODS, attribution()))
    assert (found.count("−0.12"), found.count("1.00")) == (2, 2)
    flat = np.zeros((32, 32), dtype=np.float16)
    row = pictures(photo(0), np.zeros((32, 32)), {"plain": flat}, {"plain": float("nan")})
    assert "no score" in texts(figure_attribution(["plain"], [row]))


def tile(excluded: bool = False, truth: bool = True, mask: int = 255, **row: object) -> MaskTile:
    alpha = np.zeros((60, 80), np.uint8)
    alpha[10:40, 20:60] = mask
    values = {"image_id": "birds/a photo.jpg", "area": 0.25, "clarity": 0.5, "iou": 0.125} | row
    return MaskTile(photo(0, 80)[:60], alpha, np.roll(alpha, 5, 1) if truth else None, values, excluded)


def test_masks_are_shown_with_what_is_known_of_them_and_excluded_ones_in_red() -> None:
    long = {"image_id": "x/Red_winged_Blackbird_0012_6015.jpg", "iou": float("nan")}
    tiles = [tile(), tile(excluded=True, truth=False, **long), tile(mask=0, truth=False)]
    figure = figure_masks({"worst": tiles}, MaskPolicy())
    said = [axes.get_xlabel() for axes in figure.axes]
    assert said[:2] == ["a photo\n25 % · 0.50 · 0.12", "Red_winge…_0012_6015\n25 % · 0.50"]
    # The mask's outline and, where it is known, the truth's; an empty mask has none.
    assert [len(axes.collections) for axes in figure.axes] == [2, 1, 0]
    frames = [to_hex(axes.spines["top"].get_edgecolor()).upper() for axes in figure.axes]
    assert frames == [contact_sheet.RULE, figures.WRONG, contact_sheet.RULE]
    assert any("area is not 1 % to 95 %" in text for text in texts(figure))
    kept = figure_masks({"worst": [tile()]}, MaskPolicy(keep_all=True))
    assert any("all masks are used" in text for text in texts(kept))


def test_each_mask_stands_under_its_worst_reason() -> None:
    known = {
        "iou": [0.9, 0.2, np.nan, np.nan, np.nan, np.nan, np.nan],
        "clarity": [1, 1, 0.1, 1, 1, 1, 1],
        "area": [0.5, 0.5, 0.5, 0.02, 0.9, 0.04, 0.5],
    }
    masks = pd.DataFrame(known).assign(image_id=list("abcdefg"))
    assert select_doubtful(masks, MaskPolicy(), 1) == {
        "lowest IoU": ["b"],
        "least clear": ["c"],
        "smallest": ["d"],
        "largest": ["e"],
        # .01 and .95 are the bounds: .04 is nearer than .5.
        "nearest to the\npolicy's bounds": ["f"],
    }
    unknown = masks.assign(iou=np.nan, clarity=[0.3, 0.1, 0.2] + [1] * 4)[:3]
    assert select_doubtful(unknown, MaskPolicy(), 2) == {"least clear": ["b", "c"], "smallest": ["a"]}


def test_attributed_pixels_are_brighter_than_others() -> None:
    grey = np.full((8, 8, 3), 128, dtype=np.uint8)
    attributed = np.zeros((4, 4))
    # A map of half the photo's size: one of its pixels is four of the photo's.
    attributed[0, 0] = 1
    shown = overlay(grey, attributed).mean(axis=2)
    assert shown[:2, :2].min() > 2 * shown[2:, 2:].max()


def test_what_is_not_significant_is_grey_and_what_does_not_count_no_series_of_its_own() -> None:
    figure = figure_change(changes()[changes()["loss"] == "contrastive"])
    points = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "o"]
    of_colours = {(line.get_xdata()[0], line.get_color(), line.get_markerfacecolor()) for line in points}
    blue = figures.PALETTE[1]
    assert of_colours == {(-2.0, contact_sheet.MUTED, "none"), (9.0, blue, blue)}
    # Without another loss its name is left out.
    assert {label.get_text() for axes in figure.axes for label in axes.get_yticklabels()} == {"BGAugment"}
    # Negatives that do not count are as good as none: a line has one point at 0.
    shares = shape_texture.table(examples.decisions(), examples.LEARNED)
    idle = shares.loc[[1]].assign(backbone="idle", alpha=0.0)
    (axes,) = _panels.figure_shape_share(pd.concat([shares, idle])).axes
    assert sorted(max((line.get_xdata() for line in axes.get_lines()), key=len)) == [0, 2]


def test_drop_figure_names_every_model_and_shows_papers_numbers_that_compare() -> None:
    differs = ["other photos"] * len(table())
    shown = table().assign(
        published_clean=55.0,
        published_clean_differs=[np.nan, *differs[1:]],
        published_corrupted=33.0,
        published_corrupted_differs=differs,
    )
    figure = figure_drop(shown)
    crosses = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "x"]
    assert [line.get_xdata()[0] for line in crosses] == [55.0]
    labels = [[t.get_text() for t in axes.get_yticklabels()] for axes in figure.axes]
    pair = ["Contrastive", "+ BGAugment"]
    assert [of for of in labels if of] == [pair, pair, [*pair, "ArcFace", "+ BGAugment"]]


def test_contact_sheet_places_pictures_row_by_row() -> None:
    reds = [np.full((8, 8, 3), (value, 0, 0), dtype=np.uint8) for value in (50, 100, 150)]
    sheet = np.asarray(contact_sheet.contact_sheet(reds, columns=2, side=64))
    # Gaps of 4 pixels around squares of 64.
    assert sheet.shape == (140, 140, 3)
    places = ((36, 36), (36, 104), (104, 36), (104, 104))
    assert [sheet[place].tolist() for place in places] == [
        *([red, 0, 0] for red in (50, 100, 150)),
        [255] * 3,
    ]
    mask, wide = np.full((10, 10), 255, dtype=np.uint8), np.zeros((20, 40, 3), dtype=np.uint8)
    assert contact_sheet.contact_sheet([mask, wide], 2, ["mask", "photo"], side=64).height > 64
    with pytest.raises(ValueError, match="2 pictures but 1 labels"):
        contact_sheet.contact_sheet([mask, wide], 2, ["mask"])
    with pytest.raises(UserError, match="no picture"):
        contact_sheet.contact_sheet([], 2)


def test_a_query_is_shown_whose_mask_can_be_trusted() -> None:
    """One of a wrong or tiny mask would stand in front of another background without its object."""
    masks = pd.DataFrame(
        {"image_id": ["a", "b", "c", "d"], "area": [0.4, 0.05, 0.4, 0.4], "clarity": [1, 1, 0.5, np.nan]}
    )
    ids = ["a", "b", "c", "d", "unmasked"]
    usable = np.array([True, True, True, True, False])
    assert trusted_queries(usable, ids, masks).tolist() == [True, False, False, True, False]
    bad = np.array([False, True, True, False, False])
    assert trusted_queries(bad, ids, masks).tolist() == bad.tolist()
