"""What captions and columns say of uncertainty: whom an interval speaks of, and what is marked."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from bgbias.report import columns as words
from bgbias.report.tables import _captions as captions


def table(seeds: dict[str, int], classes: int = 16) -> pd.DataFrame:
    """Models by how many seeds they were trained with."""
    return pd.DataFrame(
        [{"method": method, "seeds": count, "classes": classes} for method, count in seeds.items()]
    )


OF_METHOD = "over classes and training seeds, for the method trained again and other classes of this kind"
OF_MODELS = "over classes alone, for these models and other classes of this kind"


@pytest.mark.parametrize(
    ("seeds", "first", "told"),
    [
        (
            {"plain": 1, "cured": 1},
            "**T: one training seed, which speaks of these models and not of the methods.**",
            f"[low, high]: 95 % {OF_MODELS}.",
        ),
        (
            {"plain": 2, "cured": 2},
            "**T: two training seeds, which speak of these models and not of the methods.**",
            f"[low, high]: 95 % {OF_MODELS}.",
        ),
        ({"plain": 3, "cured": 5}, "**T.**", f"[low, high]: 95 % {OF_METHOD}."),
        (
            {"plain": 3, "cured": 1},
            "**T: some rows are of one training seed, which speaks of these models and not of the methods.**",
            f"[low, high]: 95 % {OF_METHOD}; {OF_MODELS} (rows of fewer than 3 seeds).",
        ),
        # Whatever was not trained has no seeds to speak of.
        (
            {"pretrained": 1, "plain": 3},
            "**T.**",
            f"[low, high]: 95 % {OF_METHOD}; {OF_MODELS} (rows of fewer than 3 seeds).",
        ),
        ({"pretrained": 1}, "**T.**", f"[low, high]: 95 % {OF_MODELS}."),
    ],
    ids=["one", "two", "three and more", "mixed", "not trained too", "none trained"],
)
def test_captions_say_whom_seeds_speak_of(seeds: dict[str, int], first: str, told: str) -> None:
    assert captions.title("T", table(seeds)) == first
    narrow = "Too narrow, and p too small, if fewer than 10 classes hold most of an effect (docs/methods.md, section 12)."
    assert captions.intervals(table(seeds, 4)) == f"{told} Fewer than 5 classes have none. {narrow}"
    # However many classes there are.
    assert (
        captions.intervals(table(seeds, 10)) == captions.intervals(table(seeds, 1000)) == f"{told} {narrow}"
    )
    of_persons = captions.intervals(table(seeds, 10), "persons")
    assert "if fewer than 10 persons hold" in of_persons


@pytest.mark.parametrize(
    ("seeds", "classes", "rare"),
    [(2, 5, False), (3, 4, False), (3, 5, True), (4, 9, True), (5, 9, False), (3, 10, False)],
)
def test_captions_say_where_stars_are_too_rare(seeds: int, classes: int, rare: bool) -> None:
    rarely = (
        " With fewer than 10 classes and fewer than 5 seeds, stars can be too rare where classes differ symmetrically"
        " (docs/methods.md, section 12)."
    )
    assert captions.rare_stars(table({"plain": seeds}, classes)) == rarely * rare


def test_bold_is_said_to_be_what_is_tested() -> None:
    assert "Holm-corrected p ≥ 0.05" in captions.BOLD


@pytest.mark.parametrize(
    ("p", "ends", "shown"),
    [
        (0.049, (1.2, 3.4), "+2.3 [1.2, 3.4] *"),
        (0.05, (-0.2, 4.8), "+2.3 [−0.2, 4.8]"),
        (math.nan, (math.nan, math.nan), "+2.3"),
    ],
    ids=["more than chance", "chance", "unknown"],
)
def test_a_star_is_a_corrected_p_below_one_in_twenty(p: float, ends: tuple[float, float], shown: str) -> None:
    row = {"gain": 2.3, "gain_low": ends[0], "gain_high": ends[1], "gain_p": 0.001, "gain_p_holm": p}
    assert words.against_plain("gain", 1)(row) == shown


def test_plain_itself_has_neither_number_nor_star() -> None:
    row = dict.fromkeys(("gain", "gain_low", "gain_high", "gain_p_holm"), math.nan)
    assert words.against_plain("gain", 1)(row) == words.NOTHING


def test_a_caption_explains_the_columns_that_are_printed_and_no_others() -> None:
    columns = (
        words.Column("± draws", words.number("sd_draws", 1)),
        words.Column("± seeds", words.number("sd_seeds", 1)),
    )
    several = pd.DataFrame({"sd_draws": [1.0, 2.0], "sd_seeds": [3.0, math.nan]})
    one = several.assign(sd_seeds=math.nan)
    draws, seeds = (captions.SPREADS[head] for head in ("± draws", "± seeds"))
    assert captions.spreads(several, columns) == f" {draws}; {seeds}."
    assert captions.spreads(one, columns) == f" {draws}."
    assert captions.spreads(one.assign(sd_draws=math.nan), columns) == ""
    assert [c.head for c in words.printed(one, columns)] == ["± draws"]
