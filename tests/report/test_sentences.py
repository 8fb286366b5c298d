"""Every branch of the templates that say what numbers mean: verdicts, advice, what masks do, and whom captions speak of.

The sentences lie in golden/sentences.md: tests/support/golden.py says how they are written anew.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import golden
import numpy as np
import pandas as pd
import pytest
from table_inputs import STUDY

from bgbias.report import captions, comparisons, grid_photos, prose
from bgbias.report import columns as words
from bgbias.report.columns import Row
from bgbias.report.comparisons import LossBlock
from bgbias.results.background_baseline import Leak
from bgbias.results.rows import MODEL
from bgbias.results.uncertainty import Estimate

NOTHING = Estimate(1.0, -3.0, 5.0, 0.5)
UP, DOWN = Estimate(5.0, 3.0, 7.0, 0.01), Estimate(-5.0, -7.0, -3.0, 0.01)


def model(method: str = "plain", seeds: int = 3, hits: float = 50.0, **estimates: Estimate) -> Row:
    """What Tables 1 and 3 have of a model: estimates by their columns, levels that do not matter, and no difference but these."""
    levels = dict.fromkeys(("corrupted", "clean", "relative_drop", "ref"), Estimate(50.0, 40.0, 60.0))
    row: Row = {"method": method, "seeds": seeds, "p_at_1_corrupted": hits}
    for name, of in (levels | estimates).items():
        row |= {name: of.value, f"{name}_low": of.low, f"{name}_high": of.high, f"{name}_p_holm": of.p}
    return row


def changed(
    gain: Estimate, drop: Estimate, method: str = "bgaugment", paid: Estimate = NOTHING, **more: Any
) -> Row:
    """A model that is compared with plain training."""
    of = {"corrupted_difference": gain, "clean_difference": paid, "relative_drop_change": drop}
    return model(method, **of, **more)


def lost(value: float, of_queries: Estimate | None = None, seeds: int = 3) -> Row:
    """A plain model that loses so many percent, and so many where only queries change."""
    more = {"query_only_relative_drop": of_queries} if of_queries else {}
    return model("plain", seeds, relative_drop=Estimate(value, value - 5, value + 5), **more)


def block(*models: Row, of: str = "data") -> LossBlock:
    return LossBlock((of, "tiny", "contrastive"), of, list(models), [])


PLAIN, UNBIASED = lost(33.0), lost(-4.0)
TWO = lost(33.0, Estimate(21.0, 15.0, 27.0))
MIXED = {"corrupted_over_bgaugment": DOWN, "ref_gain": UP}
VERDICTS: dict[str, list[tuple[Row, ...]]] = {
    "plain alone": [(PLAIN,)],
    "both helped": [(PLAIN, changed(UP, DOWN))],
    "a gain and its price": [(PLAIN, changed(UP, NOTHING, paid=DOWN))],
    "nothing shown": [(PLAIN, changed(NOTHING, NOTHING))],
    "one of two": [(PLAIN, changed(NOTHING, NOTHING), changed(UP, NOTHING, "other"))],
    "two of three": [
        (TWO, changed(UP, DOWN), changed(NOTHING, NOTHING, "none"), changed(UP, NOTHING, "other"))
    ],
    "a mixture": [(PLAIN, changed(UP, DOWN), changed(UP, DOWN, "bgaugment_and_other", **MIXED))],
    "attribution stays": [(PLAIN, changed(UP, DOWN, "other", ref_gain=NOTHING))],
    # Where nothing is lost there is nothing to cure, and no comparison to count.
    "several comparisons": [
        (TWO, changed(NOTHING, DOWN)),
        (lost(40.0, Estimate(30.0, 25.0, 35.0)), changed(UP, DOWN), changed(NOTHING, DOWN, "other")),
        (UNBIASED, changed(UP, DOWN)),
    ],
    "no drop": [(UNBIASED,)],
    "one seed": [(lost(33.0, seeds=1), changed(UP, DOWN))],
    "nothing trained": [(model("pretrained", 1),)],
    "less lost as less is found": [(PLAIN, changed(DOWN, DOWN))],
    "too few classes of one": [(PLAIN,), (model(relative_drop=Estimate(33.0)),)],
    "no plain model": [(model("bgaugment"),)],
    "too few classes": [(model(relative_drop=Estimate(33.0)),)],
}
ADVICE: dict[str, list[Row]] = {
    "the best of two that gain": [
        model(hits=68.7, relative_drop=Estimate(33.0, 28.0, 38.0)),
        changed(UP, UP, "mine", hits=88.0, corrupted=Estimate(50.0)),
        changed(UP, UP, hits=91.3, corrupted=Estimate(60.0)),
    ],
    # Where only drops are reduced the better retriever is named, not the smaller drop.
    "drops alone": [
        PLAIN,
        changed(NOTHING, Estimate(-30.0, -32.0, -28.0, 0.01), "smaller", corrupted=Estimate(40.0)),
        changed(NOTHING, Estimate(-10.0, -12.0, -8.0, 0.01), "better", corrupted=Estimate(60.0)),
    ],
    "nothing helps": [PLAIN, changed(NOTHING, NOTHING)],
    "less lost as less is found": [PLAIN, changed(DOWN, DOWN)],
    "nothing to cure": [UNBIASED],
    "too few classes": [model(relative_drop=Estimate(33.0))],
}


def cures(p: float = 0.001) -> pd.DataFrame:
    """Table 7: what brings most back may cost more than it brings."""
    rows = [
        # method, corrupted, gain there, its p, gain on clean photos, its p
        ("plain", 30.0, np.nan, np.nan, np.nan, np.nan),
        ("plain+grey", 38.4, 8.4, p, -14.4, 0.01),
        ("plain+leace", 45.0, 15.0, 0.2, 1.0, 0.9),
        ("bgaugment+grey", 60.0, 9.0, p, -1.0, 0.9),
        ("plain+cropped", 31.0, 1.0, 40 * p, 0.5, 0.9),
    ]
    gains = [f"{name}_gain{end}" for name in ("corrupted", "clean") for end in ("", "_p_holm")]
    table = pd.DataFrame(rows, columns=["method", "corrupted", *gains])
    for column in ("corrupted_gain", "clean_gain"):
        table[f"{column}_low"], table[f"{column}_high"] = table[column] - 1, table[column] + 1
    return table.assign(dataset="data", backbone="tiny", loss="contrastive", ms=667.4, index="made again")


CURES = {
    "the balanced and the strongest": cures(),
    "the strongest alone": cures().query("method != 'plain+cropped'"),
    "none that helps": cures(0.5),
    "none": cures().query("method == 'plain'"),
}
MASKS = {
    "more": Estimate(6.0, 2.0, 10.0, 0.01),
    "less": Estimate(-6.0, -10.0, -2.0, 0.01),
    "no proof": Estimate(6.0, -2.0, 14.0, 0.2),
}


SEEDS: dict[str, dict[str, int]] = {
    "one seed": {"plain": 1, "cured": 1},
    "three and more": {"plain": 3, "cured": 5},
    "mixed": {"plain": 3, "cured": 1},
    "one and two": {"plain": 1, "cured": 2},
    # Whatever was not trained has no seeds to speak of.
    "not trained too": {"pretrained": 1, "plain": 3},
    "none trained": {"pretrained": 1},
}


def table(seeds: dict[str, int], classes: int = 16) -> pd.DataFrame:
    """Models by how many seeds they were trained with."""
    return pd.DataFrame([{"method": method, "seeds": n, "classes": classes} for method, n in seeds.items()])


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a template of one line says of a table, of which these columns are printed."""
    folders = (tmp_path, *prose.FOLDERS)
    monkeypatch.setattr(prose, "_environment", lambda: prose.environment(folders))

    def filled(line: str, of: pd.DataFrame) -> str:
        (tmp_path / "line.j2").write_text(line)
        return captions.write(SimpleNamespace(CAPTION="line.j2", COLUMNS=()), STUDY, of, {})

    return filled


def test_sentences_are_those_that_somebody_has_read(said: Callable[..., str]) -> None:
    parts: dict[str, list[str]] = {}
    for name, models in VERDICTS.items():
        blocks = [block(*of, of=f"data {n}") for n, of in enumerate(models)]
        parts[f"Verdict: {name}"] = list(comparisons.verdict(blocks))
    for name, of in ADVICE.items():
        parts[f"Advice: {name}"] = list(comparisons.advice([block(*of)], {}))
    for name, of_cures in CURES.items():
        parts[f"Cures: {name}"] = list(comparisons.advice([block(PLAIN)], {"table7": of_cures}))
    own = dict(zip(MODEL, ("data", "tiny", "contrastive", "plain"), strict=True))
    for name, difference in MASKS.items():
        table10 = pd.DataFrame([own | model(drop_more=difference)])
        parts[f"Masks: {name}"] = list(comparisons.by_masks([block(PLAIN)], {"table10": table10}))
    for name, seeds in SEEDS.items():
        lines = ('{{ title("T") }}', "{{ intervals() }}")
        parts[f"Caption: {name}"] = [said(line, table(seeds)) for line in lines]
    parts["Caption: few classes"] = [said("{{ intervals() }}", table({"plain": 1}, classes=4))]
    parts["Caption: persons"] = [said('{{ intervals("persons") }}', table({"plain": 3}))]
    parts["Caption: rare stars"] = [said("{{ rare_stars() }}", table({"plain": 3}, classes=5))]
    golden.check(
        Path(__file__).parent / "golden/sentences.md",
        "\n\n".join("\n\n".join([f"## {name}", *filter(None, of)]) for name, of in parts.items()) + "\n",
    )


def test_captions_say_where_stars_are_too_rare(said: Callable[..., str]) -> None:
    cases = [(seeds, classes) for seeds in (2, 3, 4, 5) for classes in (4, 5, 9, 10)]
    rare = [case for case in cases if said("{{ rare_stars() }}", table({"plain": case[0]}, case[1]))]
    assert rare == [(3, 5), (3, 9), (4, 5), (4, 9)]


@pytest.mark.parametrize(
    ("value", "low", "high", "p", "shown", "bold"),
    [
        (2.3, 1.2, 3.4, 0.049, "+2.3 [1.2, 3.4] *", True),
        (-2.3, -3.4, -1.2, 0.049, "−2.3 [−3.4, −1.2] *", False),
        (2.3, -0.2, 4.8, 0.05, "+2.3 [−0.2, 4.8]", False),
        (2.3, np.nan, np.nan, np.nan, "+2.3", False),
        (np.nan, np.nan, np.nan, np.nan, words.NOTHING, False),
    ],
)
def test_a_star_is_a_corrected_p_below_one_in_twenty_and_bold_what_is_better_by_it(
    value: float, low: float, high: float, p: float, shown: str, bold: bool
) -> None:
    row = {"gain": value, "gain_low": low, "gain_high": high, "gain_p": 0.001, "gain_p_holm": p}
    column = words.Column("Gain", words.against_plain("gain", 1), gain="gain")
    assert (column.text(row), column.is_bold(row)) == (shown, bold)


def test_a_template_is_part_of_the_code_of_the_file_that_fills_it() -> None:
    """Digests count a file that code beside it names: another caption is another table."""
    templates = [template for folder in prose.FOLDERS for template in folder.glob("*.j2")]
    assert len(templates) > 10
    for template in templates:
        beside = template.parent.glob("*.py")
        assert any(f'"{template.name}"' in file.read_text("utf-8") for file in beside), template


def test_the_four_fields_hold_what_was_tested_and_nothing_else() -> None:
    untested, before = model(relative_drop=Estimate(30.0)), PLAIN | {"method": "pretrained"}
    models = (("a", PLAIN), ("a", UNBIASED), ("b", PLAIN), ("c", UNBIASED), ("d", PLAIN), ("e", untested))
    leaking, not_shown = Leak(0.1, Estimate(0.5, 0.4, 0.6)), Leak(0.1, Estimate(0.0, -0.1, 0.1))
    leaks = {"a": leaking, "b": not_shown, "c": not_shown, "d": Leak(0.1, Estimate(0.5)), "e": leaking}
    assert grid_photos.four([block(before, own, of=name) for name, own in models], leaks) == {
        (True, True): ["a: Plain (1 of 2 cases)"],
        (True, False): ["a: Plain (1 of 2 cases)"],
        (False, True): ["b: Plain 33 %"],
        (False, False): ["c: Plain −4 %"],
    }


def test_photos_are_shown_of_models_that_were_trained_where_there_are_some() -> None:
    untrained = block(model("pretrained", 1, relative_drop=Estimate(60.0, 50.0, 70.0)))
    trained = block(PLAIN)
    assert grid_photos.find_largest_drop([untrained, trained]) is trained
    assert grid_photos.find_largest_drop([untrained]) is untrained
