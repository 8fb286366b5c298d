"""A table, a figure, a loss and a method are a file each: what is planned, made, printed and drawn of it is said there alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from miniatures import as_folder
from PIL import Image
from project import ROOT
from small_study import data_nodes, described, load, record

from bgbias import plugins
from bgbias.engine import graph
from bgbias.engine.node import step
from bgbias.errors import UserError
from bgbias.nodes import figure as figure_node
from bgbias.nodes import table as table_node
from bgbias.report import figures, formats, names, style, tables
from bgbias.study import params, plan
from bgbias.study.cell import PLAIN

TABLE = b"""
import pandas as pd

from bgbias.engine import inputs
from bgbias.report import columns as words
from bgbias.report.columns import Column

NUMBER = 99
ABOUT = "How many photos there are."
COLUMNS = (Column("Photos", words.number("photos", 0), "Photos"),)
LEGEND = ("Photos of all splits.",)
HEADLINE = {"photos": "photos counted"}


def reads(study):
    return inputs.photos("squares")


def make(study):
    count = len(pd.read_csv(reads(study)["table"].path(study)))
    model = {"dataset": "squares", "backbone": "pixels", "loss": "contrastive", "method": "plain"}
    return pd.DataFrame([model | {"seeds": 1, "photos": count}])


def caption(study, table, excluded):
    return f"**Photos** of {study.grid}."
"""
FIGURE = b"""
from bgbias.engine.node import StepOutput, step
from bgbias.report import style

PLACE = 2.5
ABOUT = "An axis without photos."


def wanted(study):
    return study.grid == "small"


def reads(study):
    return {"table99": StepOutput(step("table", table="table99"), "table_csv")}


def draw(study):
    drawn = style.blank(2, 1)
    drawn.add_subplot()
    return drawn
"""


@pytest.fixture
def raw(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The small study's params.yaml, and one table and one figure more where families find them; no other file is touched."""
    raw = described(tmp_path)
    as_folder(tmp_path / "own", {"tables/photo_counts.py": TABLE, "figures/photo_bar.py": FIGURE})
    yield raw | {"plugins": [*raw["plugins"], str(tmp_path / "own")]}
    plugins.use()


def test_a_new_table_and_a_figure_are_planned_made_and_printed(raw: dict[str, Any], tmp_path: Path) -> None:
    study = load(tmp_path, raw)
    assert tables.list_enabled(study) == ("table1", "table2", "table3", "table99")
    assert figures.list_enabled(study)[:4] == ("photos", "masks", "photo_bar", "retrieval")
    new = step("table", table="table99")
    assert new in graph.in_order(study)
    assert graph.reads_from(study, step("figure", figure="photo_bar")) == [new]
    data_nodes(study)
    table_node.table(study, "table99")
    text = study.files.at("table_md", table="table99").read_text(encoding="utf-8")
    count = len(study.files.at("table", dataset="squares").read_text(encoding="utf-8").splitlines()) - 1
    assert text == (
        "**Photos** of small.\n\n### squares · pixels · 1 seed\n\n"
        f"|  | Photos |\n| --- | ---: |\n| Contrastive | {count} |\n"
    )
    assert f"photos counted: {count}.0" in study.files.at("table_yaml", table="table99").read_text("utf-8")
    csv = study.files.at("table_csv", table="table99")
    assert formats.show(formats.read(csv), "table99").endswith("Photos of all splits.")
    figure_node.figure(study, "photo_bar")
    assert Image.open(study.files.at("figure_png", figure="photo_bar")).size == (400, 200)
    assert str(csv) in record(study, "figure_record", figure="photo_bar")["inputs"]
    raw["grids"]["other"] = raw["grids"]["small"]
    assert "photo_bar" not in figures.list_enabled(load(tmp_path, raw, "other"))


def test_two_tables_of_one_number_and_a_missing_one_are_named(raw: dict[str, Any], tmp_path: Path) -> None:
    load(tmp_path, raw)
    known = ", ".join(f"table{number}" for number in range(1, 10))
    with pytest.raises(UserError, match=f"no table 'table999'; there are: {known}"):
        tables.load("table999")
    (tmp_path / "own/tables/photo_counts_again.py").write_bytes(TABLE)
    load(tmp_path, raw)
    with pytest.raises(UserError, match=r"photo_counts.py and .*_again.py have the same NUMBER, 99"):
        tables.load("table99")


def test_every_file_read_is_one_that_a_node_makes(raw: dict[str, Any], tmp_path: Path) -> None:
    study = load(tmp_path, raw)
    for family, node in ((tables, "table"), (figures, "figure")):
        for name in family.list_enabled(study):
            files = step(node, **{node: name}).depends(study).files.values()
            assert files, name
            assert all(file.output in file.node.module.OUTPUTS for file in files), name


def test_the_page_says_what_each_table_and_figure_is() -> None:
    modules = [plugins.load(family, n) for family in ("tables", "figures") for n in plugins.names(family)]
    said = [tables.describe(module) for module in modules]
    assert all(text.endswith(".") for text in said)
    assert len(set(said)) == len(said)


# -- names -------------------------------------------------------------------------------------------------------------

LOSS = "from bgbias.training.losses.contrastive import DISTANCE, IMAGES_PER_CLASS, Params, build\n"
METHOD = "from bgbias.training.methods.plain import NEEDS, TRAINS, Method\n"


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[None]:
    """A loss and two methods of somebody's own; a loss and a method say what they are called, and where they stand."""
    titled = 'TITLE = "My THING"\nPLACE = 1.5\n'
    files = {
        "losses/my_loss": LOSS + titled,
        "losses/other_loss": LOSS,
        "methods/thing": METHOD + titled + 'ENTRIES = {"thing_8": "Eight things", "no_thing": "No thing"}\n',
        "methods/other": METHOD,
    }
    plugins.use(as_folder(tmp_path, {f"{name}.py": text.encode() for name, text in files.items()}))
    yield
    plugins.use()


def test_a_new_file_needs_no_entry_elsewhere(mine: None) -> None:
    assert (names.loss("my_loss"), names.loss("other_loss")) == ("My THING", "Other loss")
    assert names.method("thing+bgaugment") == "My THING + BGAugment"
    assert (names.method("thing_8"), names.method("thing_of_mine")) == ("Eight things", "Thing of mine")
    # Also an entry that is not called after its file is one of it.
    assert (names.method("no_thing"), names.family("no_thing+bgaugment")) == ("No thing", "thing")
    of_one_file = [style.colour(name) for name in ("thing", "thing_8", "no_thing", PLAIN)]
    assert len(set(of_one_file)) == len(of_one_file)
    assert style.colour("other") in style.OTHERS


def test_rows_stand_where_their_files_say_and_others_below_as_they_come(mine: None) -> None:
    methods = ["zero", "other", "dcml_code", "thing_8", "thing", "bgaugment", "attr_emb+bgaugment", "plain"]
    rows = pd.DataFrame({"dataset": "d", "backbone": "b", "loss": "my_loss", "method": methods})
    ordered = names.in_order(rows)["method"].tolist()
    assert ordered[:5] == ["plain", "bgaugment", "thing", "thing_8", "dcml_code"]
    assert ordered[5:] == ["zero", "other", "attr_emb+bgaugment"]
    losses = ["unknown", "other_loss", "triplet", "my_loss", "contrastive", "none"]
    rows = pd.DataFrame({"dataset": "d", "backbone": "b", "loss": losses, "method": "plain"})
    assert names.in_order(rows)["loss"].tolist() == [
        "none", "contrastive", "my_loss", "triplet", "unknown", "other_loss",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("loss", "method", "printed"),
    [
        ("contrastive+neg_margin=0.3", "plain", "Contrastive, neg margin 0.3"),
        ("contrastive+train.lr=0.001", "bgaugment", "+ BGAugment"),
        ("arcface", "attr_frac+weight=2+bgaugment", "+ Attribution fraction, weight 2 + BGAugment"),
        ("arcface", "mdprop_2+bgaugment+mtax:5@0.1", "+ MDProp, 2 attacks + BGAugment + MTAX-5 at 0.1"),
        # An entry of params.yaml that no file names has no name but its own.
        ("arcface", "dcml_no_fault", "+ DCML no fault"),
    ],
)
def test_names_of_rows_and_the_settings_they_carry_are_words(loss: str, method: str, printed: str) -> None:
    assert names.row(loss, method) == printed


def test_a_loss_is_said_without_a_plain_row_and_a_part_of_a_dataset_like_the_whole() -> None:
    assert names.row("arcface", "bgaugment", below_plain=False) == "ArcFace + BGAugment"
    assert (names.count(1, "query"), names.count(1487, "query")) == ("1 query", "1,487 queries")
    asked = ("cub200", "cub50", "sop", "toy_090", "my_cub")
    assert [names.dataset(name) for name in asked] == ["CUB200", "CUB50", "SOP", "toy_090", "my_cub"]


def test_each_of_ours_has_a_title_and_a_place_of_its_own() -> None:
    for family in ("losses", "methods"):
        files = [plugins.load(family, name) for name in plugins.names(family)]
        assert len({file.TITLE for file in files}) == len({file.PLACE for file in files}) == len(files)


@pytest.mark.parametrize("grid", params.read(ROOT / "params.yaml")["grids"])
def test_methods_of_a_grid_have_colours_of_their_own_whose_letters_can_be_read(grid: str) -> None:
    methods = {cell.method for cell in plan.cells(params.load(ROOT / "params.yaml", grid))}
    assert len({style.colour(method) for method in methods}) == len(methods)
    shares = np.array([to_rgb(style.ink(method)) for method in methods])
    light = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    assert (1.05 / (light @ [0.2126, 0.7152, 0.0722] + 0.05)).min() >= 4.5
