"""Tables as CSV, Markdown, LaTeX, page and in the terminal: every row, every digit that is kept, nothing that breaks them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import golden
import pandas as pd
import pytest
from caption_studies import selected
from handmade_results import attribution, study

from bgbias.report import captions, formats
from bgbias.report.tables import attribution as where_models_look
from bgbias.report.tables import retrieval
from bgbias.results import published

PUBLISHED = Path(__file__).resolve().parents[2] / "data" / "published"
MODEL = {"dataset": "cub50", "backbone": "timm:vit", "loss": "arcface"}


@pytest.fixture(scope="module")
def known() -> pd.DataFrame:
    return published.read(PUBLISHED)


def test_captions_say_which_photos_were_drawn_and_excluded() -> None:
    table = where_models_look.table(attribution({("plain", 0): [0.1, 0.2]}))
    some = selected(attribution=SimpleNamespace(images=256))
    caption = captions.write(where_models_look, some, table, {"cub200": 4, "sop": 0})
    assert "keyed subset of at most 256 test photos" in caption
    assert "CUB200 4" in caption
    assert "SOP" not in caption


def test_web_page_holds_the_rows_of_the_markdown_table(known: pd.DataFrame) -> None:
    table = retrieval.table(*study(), known)
    text = formats.html(table, "table1", "What **a < b** & c is.")
    assert "<p>What <b>a &lt; b</b> &amp; c is.</p>" in text
    page = ElementTree.fromstring(re.search("<table>.*</table>", text, re.DOTALL)[0])  # type: ignore[index]
    (head,) = page.iterfind("thead/tr")
    body = [[_text(cell) for cell in row] for row in page.iterfind("tbody/tr")]
    printed = [line for line in formats.markdown(table, "table1", "").splitlines() if line.startswith("|")]
    rows = [[cell.strip().replace("**", "") for cell in line.strip("|").split(" | ")] for line in printed]
    assert [_text(cell) for cell in head] == [name.replace(", ", "") for name in rows[0]]
    assert [row for row in body if len(row) > 1] == rows[2:]


def _text(cell: ElementTree.Element) -> str:
    return "".join(cell.itertext())


def test_latex_is_as_somebody_has_read_it(known: pd.DataFrame) -> None:
    table = retrieval.table(*study(), known)
    text = formats.latex(table, "table1", captions.write(retrieval, selected("published"), table, {}))
    golden.check(Path(__file__).parent / "golden/table1.tex", text)
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    # A blank line inside \caption stops LaTeX; a character it does not know, too.
    assert "\n\n" not in text
    assert text.isascii()


def test_latex_escapes() -> None:
    assert formats._narrow("Embedding layer forgot") == ["Embedding", "layer", "forgot"]
    assert formats.escape(r"50% of a_b & c#d $e {f} ~g ^h \i") == (
        r"50\% of a\_b \& c\#d \$e \{f\} \textasciitilde{}g \textasciicircum{}h \textbackslash{}i"
    )
    assert formats.escape("−1 ± 2 – <3 ≥4") == r"$-$1 $\pm$ 2 -- $<$3 $\geq$4"


def test_numbers_are_named_by_model_and_what_they_measure() -> None:
    table = pd.DataFrame(
        [
            MODEL
            | {"method": "plain", "clean": 60.5, "corrupted": 40.25, "relative_drop": 33.5, "queries": 9},
            MODEL | {"method": "bgaugment", "clean": 59.0, "corrupted": 58.0, "relative_drop": math.nan},
        ]
    )
    assert formats.headline(table, "table1") == {
        "cub50": {
            "timm:vit": {
                "arcface": {
                    "plain": {"MAP@R clean": 60.5, "MAP@R corrupted": 40.25, "relative drop": 33.5},
                    # What is unknown is left out: a difference to it is none.
                    "bgaugment": {"MAP@R clean": 59.0, "MAP@R corrupted": 58.0},
                }
            }
        }
    }


def test_names_of_files_in_a_caption_are_not_in_bold() -> None:
    made = retrieval.table(*study())
    told = "Made in part by earlier code (train: photos/__init__.py changed)."
    once = formats.markdown(made, "table1", told).partition("\n\n")[0]
    assert once == r"Made in part by earlier code (train: photos/\_\_init\_\_.py changed)."
    # What is published was printed once, and is printed again.
    assert formats.markdown(made, "table1", once).partition("\n\n")[0] == once
