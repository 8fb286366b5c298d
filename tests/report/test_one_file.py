"""A table is a file and a figure is one: a new file is all that the workflow needs to plan, make and print it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from small_study import data_nodes, described, load, record

from bgbias import plugins
from bgbias.engine import graph
from bgbias.engine.node import step
from bgbias.errors import UserError
from bgbias.nodes import figure as figure_node
from bgbias.nodes import table as table_node
from bgbias.report import figures, formats, tables

TABLE = """
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
FIGURE = """
from bgbias.engine.node import StepOutput, step
from bgbias.report import formats
from bgbias.report import style

PLACE = 2.5
ABOUT = "A bar of photos."


def wanted(study):
    return study.grid == "small"


def reads(study):
    return {"table99": StepOutput(step("table", table="table99"), "table_csv")}


def draw(study):
    with style.style():
        drawn = style.blank(2, 1)
        drawn.add_subplot().bar([0], formats.read(reads(study)["table99"].path(study))["photos"])
    return drawn
"""


@pytest.fixture
def raw(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The small study's params.yaml, and one table and one figure more where families find them; no other file is touched."""
    raw = described(tmp_path)
    for name, text in (("tables/photo_counts", TABLE), ("figures/photo_bar", FIGURE)):
        path = tmp_path / f"own/{name}.py"
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    yield raw | {"plugins": [*raw["plugins"], str(tmp_path / "own")]}
    plugins.use()


def test_a_new_table_and_a_new_figure_are_planned_made_and_printed(
    raw: dict[str, Any], tmp_path: Path
) -> None:
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


def test_two_tables_of_one_number_and_a_table_that_is_not_there_are_named(
    raw: dict[str, Any], tmp_path: Path
) -> None:
    load(tmp_path, raw)
    known = ", ".join(f"table{number}" for number in range(1, 10))
    with pytest.raises(UserError, match=f"no table 'table999'; there are: {known}"):
        tables.load("table999")
    (tmp_path / "own/tables/photo_counts_again.py").write_text(TABLE, encoding="utf-8")
    load(tmp_path, raw)
    words = r"photo_counts.py and .*photo_counts_again.py have the same NUMBER, 99"
    with pytest.raises(UserError, match=words):
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
