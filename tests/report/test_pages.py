"""Pages show published results as their files have them, and whatever they ask for in vain is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from bgbias.errors import UserError
from bgbias.report import formats, pages
from bgbias.results import publication

ROOT = Path(__file__).resolve().parents[2]
PAGE = Path("docs/page.md")
ROW = "demo_90/contrastive/plain"


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.Series:
    """A row of the demo's published table, in a project whose only results are those."""
    shutil.copytree(ROOT / publication.RESULTS / "demo", tmp_path / publication.RESULTS / "demo")
    monkeypatch.chdir(tmp_path)
    table = publication.read("demo").table("table1").set_index(["dataset", "loss", "method"])
    return table.loc["demo_90", "contrastive", "plain"]


def written(text: str) -> str:
    return pages.written(PAGE, text, publication.read)


def said(mark: str) -> str:
    """What stands between the ends of a mark, once it is written."""
    text = written(f"It is <!-- from {mark} -->old<!-- end -->.")
    return text.removeprefix(f"It is <!-- from {mark} -->").removesuffix("<!-- end -->.")


def test_the_projects_own_pages_are_as_their_files_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for page in pages.pages():
        text = page.read_text(encoding="utf-8")
        assert pages.written(page, text, publication.read) == text, f"{page}: make publish"
        for grid, file in pages.shown_figures(page, text):
            assert file in publication.read(grid).made["files"], (
                f"{page} shows {file}: make publish GRID={grid}"
            )
    assert [publication.read(grid).damaged() for grid in publication.grids()] == [[]] * len(
        publication.grids()
    )


def test_a_number_stands_in_running_text(plain: pd.Series) -> None:
    drop, low, high = (plain[f"relative_drop{end}"] for end in ("", "_low", "_high"))
    assert said(f"demo table1 {ROW} relative_drop .0") == f"{drop:.0f}"
    assert said(f"demo table1 {ROW} relative_drop .1[]") == f"{drop:.1f} [{low:.1f}, {high:.1f}]"
    assert said(f"demo table1 {ROW} relative_drop +.2") == f"+{drop:.2f}"
    assert said("demo made cores") == str(publication.read("demo").made["cores"])
    seeds = publication.read("demo").table("seeds").set_index(["dataset", "loss", "method", "seed"])
    of_seed = seeds.loc["demo_90", "contrastive", "plain", 1]["clean"]
    assert said(f"demo seeds {ROW}/1 clean .1") == f"{of_seed:.1f}"
    # A mark may stand over two lines, and what is written is written again alike.
    text = f"It is <!-- from demo table1\n{ROW} clean .1 -->?<!-- end -->."
    assert written(written(text)) == written(text)


def test_a_table_stands_whole_or_in_chosen_columns_and_rows(plain: pd.Series) -> None:
    published = publication.read("demo")
    caption = published.caption("table2")
    assert caption.startswith(published.made["captions"]["table2"])
    assert (
        said("demo table2").strip() == formats.markdown(published.table("table2"), "table2", caption).strip()
    )
    asked = f"demo {ROW}, demo_00: table1: Clean = MAP@R | Drop, %; table2: Score; seeds: Drop, % = each"
    head, rule, *rows = said(asked).strip().splitlines()
    assert head == "| dataset | training | MAP@R | Drop, % | Score | each |"
    assert rule == "| --- | --- | ---: | ---: | ---: | ---: |"
    assert [row.split(" | ")[:2] for row in rows] == [
        ["| demo_90", "Plain"],
        ["| demo_00", "Plain"],
        ["| demo_00", "BGAugment"],
    ]
    assert f"| **{plain['clean']:.1f}** [" in rows[0]
    assert rows[0].split(" | ")[-1].count(",") == 2  # three seeds
    assert len(said("demo seeds").strip().splitlines()) == 2 + len(published.table("table1"))


def test_notes_on_code_stand_once_a_page(plain: pd.Series) -> None:
    path = publication.RESULTS / "demo" / publication.MADE
    made = yaml.safe_load(path.read_text(encoding="utf-8"))
    note = "Made in part by earlier code, which was accepted as computing the same (train: 4 files)."
    made["captions"] = {name: f"**{name}.** About it.\n\n{note}" for name in made["captions"]}
    path.write_text(yaml.safe_dump(made), encoding="utf-8")
    text = written("".join(f"<!-- from demo table{n} -->?<!-- end -->\n\n" for n in (1, 2, 3)))
    assert text.count(note) == 1
    assert text.index("**table1.**") < text.index(note) < text.index("**table2.**")
    made["captions"]["table2"] = made["captions"]["table2"].replace(
        "4 files", "5 files"
    )  # another note stays
    path.write_text(yaml.safe_dump(made), encoding="utf-8")
    assert written(text).count("Made in part") == 2
    assert written(written(text)) == written(text)


def test_rows_that_are_a_method_and_more_stand_in_the_methods_row(plain: pd.Series) -> None:
    folder = publication.RESULTS / "demo"
    more = pd.read_csv(folder / "table1.csv", keep_default_na=False, na_values=[""])
    seen = more.assign(method=more["method"] + "+mtax:5@0.1", clean=12.34, clean_low=1.0, clean_high=20.0)
    pd.concat([more, seen]).to_csv(folder / "table1.csv", index=False)
    head, _, *rows = (
        said(f"demo {ROW}: table1: Drop, %; table1+mtax:5@0.1: Clean = under it").strip().splitlines()
    )
    assert head.endswith("| Drop, % | under it |")
    (row,) = rows
    assert f" {plain['relative_drop']:.1f} [" in row
    assert "12.3" in row.split(" | ")[-1]
    with pytest.raises(UserError, match=r"table1\.csv has no row '\.\.\.\+stax'"):
        said(f"demo {ROW}: table1+stax: Clean = under it")


def test_a_link_is_what_shows_a_figure() -> None:
    text = "![Drop](demo/drop.png) [other](../assets/demo/drop.png) [page](demo.md) ![x](../results/cub50/pareto.png)"
    assert list(pages.shown_figures(Path("docs/results/page.md"), text)) == [
        ("demo", "drop.png"),
        ("cub50", "pareto.png"),
    ]
    assert list(pages.shown_figures(Path("README.md"), "![x](docs/results/demo/drop.png)")) == [
        ("demo", "drop.png")
    ]


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ("dmeo table1", "no published results of a grid 'dmeo'"),
        ("demo table9", "has no table9.csv; it has: table1, table2, table3, seeds"),
        ("demo table1 demo_90/plain clean .1", "names 2 rows; write one of: demo_90/tiny/contrastive/plain,"),
        ("demo table1 demo_90/triplet/plain clean .1", "There is no row 'demo_90/triplet/plain'; near it:"),
        (f"demo table1 {ROW} claen .1", "table1.csv has no column claen; near it: clean,"),
        (f"demo table1 {ROW} clean 1", "not written like any"),
        ("demo table1: Claen", "table1 has no column 'Claen'; it has: Corrupted |"),
        ("demo table1: ± seeds", "table1 has 2 columns '± seeds'"),
        ("demo made hours", "made.yaml has no hours; near it: "),
    ],
)
def test_a_mark_that_asks_for_what_is_not_there_is_named(plain: pd.Series, mark: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        said(mark)
    assert str(error.value).startswith(f"{PAGE}: the mark '{mark}': ")
    assert words in str(error.value)


def test_marks_that_would_be_lost_on_readers_are_refused(plain: pd.Series) -> None:
    number = f"<!-- from demo table1 {ROW} clean .1 -->"
    with pytest.raises(UserError, match="It begins a line, which Markdown takes for HTML"):
        written(f"Plain training has\n{number}1<!-- end -->.")
    with pytest.raises(UserError, match="of 2 marks 1 have an end"):
        written(f"a {number}1 and {number}2<!-- end -->")
