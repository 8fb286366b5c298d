"""Figures: files that exist, say what the data say, and have the same bytes for the same data."""

from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import table_examples as examples
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from table_inputs import SEEDS, drops, queries, results

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
from bgbias.report.tables import crossing, models, retrieval, shape_texture
from bgbias.results.rows import tabulate_seeds
from bgbias.results.uncertainty import SIGNIFICANT

METHODS = ("plain", "bgaugment")
CORRELATIONS = {"toy00": 0.0, "toy50": 0.5, "toy90": 0.9}


def photo(number: int, size: int = 64) -> np.ndarray:
    return np.random.default_rng(number).integers(60, 200, (size, size, 3), dtype=np.uint8)


def shown_query(*correct: bool) -> ShownQuery:
    found = tuple(FoundPhoto("", right, photo(number)) for number, right in enumerate(correct, 1))
    answers = tuple(Answer(method, 1.0, 1.0, found, found) for method in METHODS)
    return ShownQuery("a", "", photo(0), photo(1), photo(0)[..., 0], answers)


def attribution() -> list[list[Picture]]:
    mask = np.zeros((64, 64), dtype=np.uint8)
    mask[16:48, 16:48] = 255
    flat, sharp = np.full((64, 64), 0.5, dtype=np.float16), (mask / 255).astype(np.float16)
    scores = {"plain": -0.123, "bgaugment": 1.0}
    return [pictures(photo(1), mask, {"plain": flat, "bgaugment": sharp}, scores)] * 2


def tile(excluded: bool = False, truth: bool = True, mask: int = 255, **row: object) -> MaskTile:
    alpha = np.zeros((60, 80), np.uint8)
    alpha[10:40, 20:60] = mask
    values = {"image_id": "birds/a photo.jpg", "area": 0.25, "clarity": 0.5, "iou": 0.125} | row
    return MaskTile(photo(0, 80)[:60], alpha, np.roll(alpha, 5, 1) if truth else None, values, excluded)


@cache
def values() -> pd.DataFrame:
    """Of toys of three correlations, the last ones with another loss too; what BGAugment changes grows with the correlation."""
    parts = [
        queries({"plain": 1.0, "bgaugment": 1 - correlation / 3}).assign(dataset=dataset)
        for dataset, correlation in CORRELATIONS.items()
    ]
    return pd.concat([*parts, parts[-1].assign(loss="arcface")])


@cache
def table() -> pd.DataFrame:
    return retrieval.table(results(values()), values())


def trainings() -> pd.DataFrame:
    return tabulate_seeds(results(values()))


DROPS = drops(dict.fromkeys(examples.CROSSED, 1.0))
SHEETS: dict[str, Callable[[], Figure]] = {
    "retrieval": lambda: figure_retrieval(shown_query(True, False, True)),
    "attribution": lambda: figure_attribution(METHODS, attribution()),
    "photos": lambda: figure_photos([[photo(i) for i in range(4)]] * 3),
    "panels": lambda: _panels.figure(
        _panels.by_network(table().replace({"bgaugment": "attr_frac+bgaugment"}), lambda *_: None), "clean"
    ),
    "masks": lambda: figure_masks({"worst": [tile()] * 2, "smallest": [tile()]}, MaskPolicy()),
}
LEVELS = ("clean", "corrupted", "relative_drop")
# A figure, the table that it shows, and which of its numbers.
SHOWN: dict[str, tuple[Callable[[pd.DataFrame], Figure], Callable[[], pd.DataFrame], tuple[str, ...]]] = {
    "change": (figure_change, table, ("clean_difference", "corrupted_difference")),
    "drop": (figure_drop, table, LEVELS),
    "calibration": (lambda rows: figure_calibration(rows, CORRELATIONS, trainings()), table, LEVELS),
    "seeds": (lambda rows: figure_calibration(table(), CORRELATIONS, rows), trainings, ("relative_drop",)),
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
    for column, end in product(columns, ("", "_low", "_high")):
        has_line_alone = name == "calibration" and column in ("clean", "corrupted")
        if f"{column}{end}" not in rows or (end and has_line_alone):
            continue
        drawn = np.concatenate(bars if end else points).ravel()
        for value in rows[f"{column}{end}"].dropna():
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


def test_right_and_wrong_are_framed_and_marked() -> None:
    figure = figure_retrieval(shown_query(True, True, False))
    found = texts(figure)
    # Two methods, two rows each.
    assert (found.count("✓"), found.count("✗"), found.count("2/3")) == (8, 4, 4)
    frames = [axes.spines["top"].get_edgecolor() for axes in figure.axes]
    assert (frames.count(to_rgba(figures.RIGHT)), frames.count(to_rgba(figures.WRONG))) == (8, 4)


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
    selected = select_doubtful(masks, MaskPolicy(), 1)
    # By IoU, clarity, smallness, largeness and the policy's bounds, .01 and .95: .04 is nearer than .5.
    assert list(selected.values()) == [["b"], ["c"], ["d"], ["e"], ["f"]]


def test_attributed_pixels_are_brighter_than_others() -> None:
    attributed = np.zeros((4, 4))
    # A map of half the photo's size: one of its pixels is four of the photo's.
    attributed[0, 0] = 1
    shown = overlay(np.full((8, 8, 3), 128, dtype=np.uint8), attributed).mean(axis=2)
    assert shown[:2, :2].min() > 2 * shown[2:, 2:].max()


def test_what_is_not_significant_is_grey_and_what_does_not_count_no_series_of_its_own() -> None:
    rows = table().query("loss == 'contrastive'")
    figure = figure_change(rows)
    points = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "o"]
    expected = {
        (row[column], figures.PALETTE[1] if row[f"{column}_p_holm"] < SIGNIFICANT else contact_sheet.MUTED)
        for row in rows.query("method != 'plain'").to_dict("records")
        for column in ("clean_difference", "corrupted_difference")
    }
    assert {(line.get_xdata()[0], line.get_color()) for line in points} == expected
    assert len({colour for _, colour in expected}) == 2
    # Without another loss its name is left out.
    assert {label.get_text() for axes in figure.axes for label in axes.get_yticklabels()} == {"BGAugment"}
    # Negatives that do not count are as good as none: a line has one point at 0.
    shares = shape_texture.table(examples.decisions(), examples.LEARNED)
    idle = shares.loc[[1]].assign(backbone="idle", alpha=0.0)
    (axes,) = _panels.figure_shape_share(pd.concat([shares, idle])).axes
    assert sorted(max((line.get_xdata() for line in axes.get_lines()), key=len)) == [0, 2]


def test_the_drop_stands_beside_papers_numbers_that_compare() -> None:
    differs = [np.nan, *["other photos"] * (len(table()) - 1)]
    shown = table().assign(published_clean=55.0, published_clean_differs=differs)
    axes = figure_drop(shown).axes
    assert [line.get_xdata()[0] for of in axes for line in of.lines if line.get_marker() == "x"] == [55.0]


def test_contact_sheet_places_pictures_row_by_row() -> None:
    reds = [np.full((8, 8, 3), (value, 0, 0), dtype=np.uint8) for value in (50, 100, 150)]
    sheet = np.asarray(contact_sheet.contact_sheet(reds, 2, ["1", "2", "3"], side=64))
    # Gaps of 4 pixels around squares of 64, below which labels of 12 stand.
    places = ((36, 36), (36, 104), (116, 36), (116, 104))
    assert [sheet[place].tolist() for place in places] == [*(red[0, 0].tolist() for red in reds), [255] * 3]
    with pytest.raises(UserError, match="no picture"):
        contact_sheet.contact_sheet([], 2, [])


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
