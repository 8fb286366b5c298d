"""Pages show published results as their files have them, and whatever they ask for in vain is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from bgbias.errors import UserError
from bgbias.report import formats, pages
from bgbias.results import publication

ROOT = Path(__file__).resolve().parents[2]
ROW = "demo_90/contrastive/plain"


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.Series:
    """A row of the demo's published table, in a project whose only results are those."""
    shutil.copytree(ROOT / publication.RESULTS / "demo", tmp_path / publication.RESULTS / "demo")
    monkeypatch.chdir(tmp_path)
    table = publication.read("demo").table("table1").set_index(["dataset", "loss", "method"])
    return table.loc["demo_90", "contrastive", "plain"]


def answer(question: str) -> str:
    return pages.answer(question, pages.MACROS)


def test_the_readme_has_the_numbers_of_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert pages.filled_readme(text) == text, "make publish"
    asked = pages.ANSWER.search(text)
    assert asked
    assert pages.filled_readme(text.replace(f"{asked[3]}<!-- end", "old<!-- end")) == text


def test_a_number_stands_with_its_interval_and_a_table_whole_or_in_chosen_columns_and_rows(
    plain: pd.Series,
) -> None:
    drop, low, high = (plain[f"relative_drop{end}"] for end in ("", "_low", "_high"))
    question = f'number("demo", "table1", "{ROW}", "relative_drop", 1)'
    assert answer(question) == f"{drop:.1f} [{low:.1f}, {high:.1f}]"
    published = publication.read("demo")
    title, legend = published.caption("table2").split("\n\n")
    rows_alone = formats.markdown(published.table("table2"), "table2", title).removeprefix(title)
    whole = answer('table("demo", "table2")')
    assert whole == f'{title}\n\n??? note "How to read this table"\n\n    {legend}{rows_alone}'
    chosen = "table1: Clean = MAP@R | Drop, %; table2: Score; seeds: Drop, % = each"
    head, rule, *rows = answer(f'columns("demo", "{chosen}", "{ROW}, demo_00")').strip().splitlines()
    assert head == "| dataset | training | MAP@R | Drop, % | Score | each |"
    assert rule == "| --- | --- | ---: | ---: | ---: | ---: |"
    assert [row.split(" | ")[:2] for row in rows] == [
        ["| demo_90", "Plain"],
        ["| demo_00", "Plain"],
        ["| demo_00", "BGAugment"],
    ]
    assert f"| {plain['clean']:.1f} [" in rows[0]
    assert rows[0].split(" | ")[-1].count(",") == 2  # three seeds
    each_seed = answer('table("demo", "seeds")')
    assert len(each_seed.strip().splitlines()) == 2 + len(published.table("table1"))


def test_rows_that_are_a_method_and_more_stand_in_the_methods_row(plain: pd.Series) -> None:
    folder = publication.RESULTS / "demo"
    more = pd.read_csv(folder / "table1.csv", keep_default_na=False, na_values=[""])
    attacked = more.assign(method=more["method"] + "+mtax:5@0.1", clean=12.34, clean_low=1.0, clean_high=20.0)
    pd.concat([more, attacked]).to_csv(folder / "table1.csv", index=False)
    chosen = "table1: Drop, %; table1+mtax:5@0.1: Clean = under it"
    head, _, *rows = answer(f'columns("demo", "{chosen}", "{ROW}")').strip().splitlines()
    assert head.endswith("| Drop, % | under it |")
    (row,) = rows
    assert f" {plain['relative_drop']:.1f} [" in row
    assert "12.3" in row.split(" | ")[-1]
    with pytest.raises(UserError, match=r"table1\.csv has no row '\.\.\.\+stax'"):
        answer(f'columns("demo", "table1+stax: Clean = under it", "{ROW}")')


def test_a_link_is_what_shows_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs/results").mkdir(parents=True)
    (tmp_path / "README.md").write_text(
        "![x](docs/results/demo/drop.png) ![x](docs/results/other_demo/x.png)"
    )
    (tmp_path / "docs/results/page.md").write_text("![x](demo/change.png) [page](demo.md)")
    assert pages.shown_figures("demo") == ["change", "drop"]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ('table("dmeo", "table1")', "no published results of a grid 'dmeo'"),
        ('table("demo", "table9")', "has no table9.csv; it has: table1, table2, table3, seeds"),
        (
            'number("demo", "table1", "demo_90", "clean", 1)',
            "names 2 rows; write one of: demo_90/tiny/contrastive/plain,",
        ),
        (
            'number("demo", "table1", "demo_90/triplet/plain", "clean", 1)',
            "There is no row 'demo_90/triplet/plain'; near it:",
        ),
        (f'number("demo", "table1", "{ROW}", "claen", 1)', "has no column claen; near it: clean,"),
        ('columns("demo", "table1: Claen")', "table1 has no column 'Claen'; it has: Corrupted |"),
        ('columns("demo", "table1: ± seeds")', "table1 has 2 columns '± seeds'"),
        ('tabel("demo", "table1")', "not written like any"),
    ],
)
def test_a_question_for_what_is_not_there_is_named(plain: pd.Series, question: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        answer(question)
    assert words in str(error.value)
