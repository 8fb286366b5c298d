"""Published results: pages show them as their files have them and name what they ask for in vain; made again, each number is
identical, within the interval, or different.
"""

from pathlib import Path

import pandas as pd
import pytest
from miniatures import as_folder
from project import ROOT

from bgbias.errors import UserError
from bgbias.report import formats, pages
from bgbias.report import reproduction as repeat
from bgbias.report.names import NOT_TRAINED
from bgbias.results import publication
from bgbias.results.rows import MODEL, Model
from bgbias.study import plan
from bgbias.study.params import load

ROW = "demo_90/contrastive/plain"
PLAIN: Model = ("demo_90", "tiny", "contrastive", "plain")
CURED: Model = (*PLAIN[:3], "bgaugment")
Tables = dict[str, pd.DataFrame]


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture
def tables() -> Tables:
    """The demo's published tables."""
    published = publication.read("demo")
    return {name: published.table(name) for name in (*published.tables, publication.SEEDS)}


def answer(question: str) -> str:
    return pages.answer(question, pages.MACROS)


def test_a_number_has_its_interval_and_a_table_stands_whole_or_in_chosen_columns(tables: Tables) -> None:
    plain = tables["table1"].set_index(MODEL).loc[PLAIN]
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
    minutes = f"{published.origin['minutes']} minutes of steps"
    assert minutes in answer('origin("demo")')
    assert len(answer('table("demo", "seeds")').strip().splitlines()) == 2 + len(published.table("table1"))


def test_rows_that_are_a_method_and_more_stand_in_the_methods_row() -> None:
    attacked = publication.read("attacks").table("table9").query("loss == 'contrastive'").set_index("method")
    chosen = "table1: Drop, %; table9+mtax:5@0.1: MAP@R = under it"
    head, _, row = answer(f'columns("attacks", "{chosen}", "contrastive/plain")').strip().splitlines()
    assert head.endswith("| Drop, % | under it |")
    assert row.split(" | ")[-1].startswith(f"{attacked.at['plain+mtax:5@0.1', 'map_at_r']:.1f} [")
    with pytest.raises(UserError, match=r"table9\.csv has no row '\.\.\.\+sta'"):
        answer('columns("attacks", "table9+sta: MAP@R = under it", "contrastive/plain")')


def test_a_link_is_what_shows_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = b"![x](docs/results/demo/drop.png) ![x](docs/results/other_demo/x.png)"
    page = b"![x](demo/change.png) [page](demo.md)"
    monkeypatch.chdir(as_folder(tmp_path, {"README.md": readme, "docs/results/page.md": page}))
    assert pages.shown_figures("demo") == ["change", "drop"]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ('table("dmeo", "table1")', "no published results of a grid 'dmeo'"),
        ('table("demo", "table9")', "has no table9.csv; it has: table1, table2, table3, seeds"),
        ('number("demo", "table1", "demo_90", "clean", 1)', "names 2 rows; write one of: demo_90/tiny/"),
        ('number("demo", "table1", "demo_90/triplet/plain", "clean", 1)', "no row 'demo_90/triplet/plain'"),
        (f'number("demo", "table1", "{ROW}", "claen", 1)', "has no column claen; near it: clean,"),
        ('columns("demo", "table1: Claen")', "table1 has no column 'Claen'; it has: Corrupted |"),
        ('columns("demo", "table1: ± seeds")', "table1 has 2 columns '± seeds'"),
        ('tabel("demo", "table1")', "not written like any"),
    ],
)
def test_a_question_for_what_is_not_there_is_named(question: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        answer(question)
    assert words in str(error.value)


# -- made again --------------------------------------------------------------------------------------------------------


def again(tables: Tables, name: str, column: str, change: float, seed: int | None = None) -> Tables:
    """The tables with one number of ``PLAIN`` changed by so much, its interval with it."""
    table = tables[name].copy()
    here = (table[MODEL] == list(PLAIN)).all(axis=1)
    here &= table["seed"] == seed if seed is not None else True
    with_ends = [c for c in (column, f"{column}_low", f"{column}_high") if c in table]
    table.loc[here, with_ends] += change
    return tables | {name: table}


def not_identical(found: list[repeat.Comparison]) -> list[tuple[str, str, str]]:
    return [(one.table, one.number, one.verdict) for one in found if one.verdict != repeat.IDENTICAL]


@pytest.mark.parametrize(
    ("table", "column", "share", "seed", "verdict", "of_all"),
    [
        ("table1", "clean", 1.4, None, "within the interval", "within the interval"),
        ("table1", "clean", 2.3, None, "different", "within the interval"),
        ("table1", "clean", 2.8, None, "different", "different"),
        ("table1", "clean_sd_seeds", 9, None, "without an interval", "within the interval"),
        ("table1", "queries", 1, None, "different", "different"),
        ("seeds", "clean", 9, 2, "without an interval", "within the interval"),
    ],
)
def test_another_number_is_judged_by_both_intervals(
    tables: Tables, table: str, column: str, share: float, seed: int | None, verdict: str, of_all: str
) -> None:
    """``share``: of the half of the interval, if there is one. Two of one width have 1.41 halves of one as their spread."""
    row = tables["table1" if table == "seeds" else table].set_index(MODEL).loc[PLAIN]
    half = row[f"{column}_high"] - row[column] if f"{column}_high" in row and table != "seeds" else 1
    found = repeat.compare(tables, again(tables, table, column, share * half, seed))
    assert not_identical(found) == [(table, column + (f", seed {seed}" if table == "seeds" else ""), verdict)]
    assert repeat.verdict(found) == of_all


def test_numbers_are_identical_or_more_of_them_outside_than_chance_allows(tables: Tables) -> None:
    found = repeat.compare(tables, again(tables, "table1", "clean", 1e-9))
    assert repeat.sentence(found) == f"identical: all {len(found)} numbers are as printed."
    assert len({(one.model, one.table, one.number) for one in found}) == len(found) > 250
    # An interval of another width is not the same.
    assert not_identical(repeat.compare(tables, again(tables, "table1", "clean_low", -1))) == [
        ("table1", "clean", "within the interval")
    ]
    published = tables["table1"]
    moved = published[MODEL].copy()
    for column in ("clean", "corrupted", "relative_drop"):
        ends = [column, f"{column}_low", f"{column}_high"]
        moved[ends] = published[ends].add(1.6 * (published[column] - published[f"{column}_low"]), axis=0)
    found = repeat.compare({"table1": published[list(moved)]}, {"table1": moved})
    assert {verdict for *_, verdict in not_identical(found)} == {"different"}
    assert repeat.sentence(found).startswith("different: of ")
    told = repeat.format_comparisons(found).splitlines()
    assert max(map(len, told)) <= 110
    assert sum(line.startswith("── demo_90/tiny/contrastive/") for line in told) == 2


def test_a_row_that_is_gone_is_different_unless_others_were_asked_for(tables: Tables) -> None:
    less = {name: table[table["method"] == "bgaugment"] for name, table in tables.items()}
    assert repeat.verdict(repeat.compare(tables, less)) == "different"
    # The star of a row alone is not looked at.
    less["table3"] = less["table3"].assign(corrupted_difference_p_holm=0.9)
    assert repeat.verdict(found := repeat.compare(tables, less, [CURED])) == "identical"
    assert {one.model for one in found} == {CURED}


def test_a_row_is_made_with_the_plain_one_that_it_is_compared_with() -> None:
    demo = load(Path("params.yaml"), "demo")
    alone = plan.cells(repeat.row_of(demo, PLAIN))
    assert {(*c.name.split("/")[:4],) for c in alone} == {PLAIN}
    assert [cell.seed for cell in alone] == [0, 1, 2]
    assert {c.method for c in plan.cells(repeat.row_of(demo, CURED))} == {"plain", "bgaugment"}
    birds = load(Path("params.yaml"), "cub50")
    for method in NOT_TRAINED[1:]:
        assert not plan.trained_models(repeat.row_of(birds, ("cub50", "mobilenet_v2_tf", "none", method)))
    folds = load(Path("params.yaml"), "dcml_tables")
    row = repeat.row_of(folds, ("cub200", "bn_inception", "cosface", "dcml_code+512d"))
    assert {c.method for c in plan.cells(row)} == {"plain", "plain+512d", "dcml_code", "dcml_code+512d"}


def test_sections_of_settings_that_have_changed_are_named() -> None:
    demo = load(Path("params.yaml"), "demo")
    now = publication.settings_digests(demo)
    before = {name: digest for name, digest in now.items() if name != "train"} | {"losses": "0", "gone": "1"}
    for settings, changed in ((now, []), (before, ["gone", "losses", "train"])):
        published = publication.Publication(Path("nowhere"), {"settings": settings})
        assert publication.changed_sections(published, demo) == changed
