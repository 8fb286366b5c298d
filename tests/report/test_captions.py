"""What captions and columns say of uncertainty: whom an interval speaks of, and what is marked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd
import pytest
from caption_studies import selected

from bgbias.report import columns as words
from bgbias.report import prose
from bgbias.report.tables import _captions as captions


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """What a template of one line says of a table, of which these columns are printed."""
    monkeypatch.setattr(prose, "FOLDERS", (tmp_path, *prose.FOLDERS))
    prose._environment.cache_clear()

    def filled(line: str, table: pd.DataFrame, columns: Sequence[words.Column] = ()) -> str:
        name = f"{len(list(tmp_path.iterdir()))}.j2"
        (tmp_path / name).write_text(line)
        return captions.from_template(name, columns)(selected(), table, {})

    yield filled
    prose._environment.cache_clear()


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
def test_captions_say_whom_seeds_speak_of(
    seeds: dict[str, int], first: str, told: str, said: Callable[..., str]
) -> None:
    def intervals(classes: int, of: str = "classes") -> str:
        return said(f'{{{{ intervals("{of}") }}}}', table(seeds, classes))

    assert said('{{ title("T") }}', table(seeds)) == first
    narrow = "Too narrow, and p too small, if fewer than 10 classes hold most of an effect (docs/methods.md, section 12)."
    assert intervals(4) == f"{told} Fewer than 5 classes have none. {narrow}"
    # However many classes there are.
    assert intervals(10) == intervals(1000) == f"{told} {narrow}"
    assert "if fewer than 10 persons hold" in intervals(10, "persons")


@pytest.mark.parametrize(
    ("seeds", "classes", "rare"),
    [(2, 5, False), (3, 4, False), (3, 5, True), (4, 9, True), (5, 9, False), (3, 10, False)],
)
def test_captions_say_where_stars_are_too_rare(
    seeds: int, classes: int, rare: bool, said: Callable[..., str]
) -> None:
    rarely = (
        "With fewer than 10 classes and fewer than 5 seeds, stars can be too rare where classes differ symmetrically"
        " (docs/methods.md, section 12)."
    )
    assert said("{{ rare_stars() }}", table({"plain": seeds}, classes)) == rarely * rare


def test_bold_is_said_to_be_what_is_tested(said: Callable[..., str]) -> None:
    assert said("{{ bold() }}", table({"plain": 3})) == (
        "Bold: significantly better than plain (paired, p < 0.05, Holm-corrected for the methods beside one plain model)."
    )


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


def test_a_caption_explains_the_columns_that_are_printed_and_no_others(
    said: Callable[..., str],
) -> None:
    columns = (
        words.Column("± draws", words.number("sd_draws", 1)),
        words.Column("± seeds", words.number("sd_seeds", 1)),
    )
    several = table({"plain": 3, "cured": 3}).assign(sd_draws=[1.0, 2.0], sd_seeds=[3.0, math.nan])
    one = several.assign(sd_seeds=math.nan)
    draws, seeds = (said(f'{{{{ spread["{head}"] }}}}', several) for head in ("± draws", "± seeds"))
    assert draws.startswith("± draws: sample sd over background draws")
    assert said("{{ spreads() }}", several, columns) == f"{draws}; {seeds}."
    assert said("{{ spreads() }}", one, columns) == f"{draws}."
    assert said("{{ spreads() }}", one.assign(sd_draws=math.nan), columns) == ""
    assert [c.head for c in words.select_printed(one, columns)] == ["± draws"]


def test_a_template_is_part_of_the_code_of_the_file_that_fills_it() -> None:
    """Digests count a file that code beside it names: another caption is another table."""
    templates = [template for folder in prose.FOLDERS for template in folder.glob("*.j2")]
    assert len(templates) > 10
    for template in templates:
        beside = template.parent.glob("*.py")
        assert any(f'"{template.name}"' in file.read_text("utf-8") for file in beside), template
