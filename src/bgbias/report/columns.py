"""Kinds of printed columns: from a table's numbers to words."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from bgbias.results.rows import records
from bgbias.results.uncertainty import SIGNIFICANT

NOTHING = "–"
MARK = "*"  # a difference that is more than chance
Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A printed column: its head, a row's text, its shorter head on a terminal (none: no room there).

    ``gain`` names the table's difference from plain that decides on bold (``is_bold``). If the table has no value in any of its
    columns ``known``, there is nothing to say, and the column is left out.
    """

    head: str
    text: Callable[[Row], str]
    terminal: str = ""
    gain: str = ""
    known: tuple[str, ...] = ()

    def is_bold(self, row: Row) -> bool:
        """Whether a row's number is significantly better than plain's."""
        return bool(self.gain) and row[f"{self.gain}_p_holm"] < SIGNIFICANT and row[self.gain] > 0


@dataclass(frozen=True)
class Number:
    """A table's ``column`` in words, with its ``sign``, the ``ends`` of its interval, or a star."""

    column: str
    digits: int
    sign: bool = False
    ends: bool = False
    starred: bool = False

    def __call__(self, row: Row) -> str:
        value = row[self.column]
        low, high = (row[f"{self.column}_{end}"] if self.ends else math.nan for end in ("low", "high"))
        text = with_interval(value, low, high, self.digits, self.sign)
        is_marked = self.starred and row[f"{self.column}_p_holm"] < SIGNIFICANT
        return f"{text} {MARK}" if is_marked else text


number = Number  # a number as it is; with its sign if it is a difference


def interval(column: str, digits: int) -> Number:
    """A number and the ends of its interval, if it has one."""
    return Number(column, digits, ends=True)


def against_plain(column: str, digits: int) -> Number:
    """A difference from plain with its interval, and a mark where it is more than chance."""
    return Number(column, digits, sign=True, ends=True, starred=True)


def published_number(name: str, digits: int) -> Callable[[Row], str]:
    """A paper's number; in brackets where it was found in another way than ours."""

    def text(row: Row) -> str:
        value, spread = row[f"published_{name}"], row[f"published_{name}_sd"]
        entry = format_number(value, digits) + ("" if math.isnan(spread) else f" ± {spread:.{digits}f}")
        return f"({entry})" if isinstance(row[f"published_{name}_differs"], str) else entry

    return text


def significant(column: str) -> Callable[[Row], str]:
    """Two significant digits: steps take milliseconds here and seconds there."""

    def text(row: Row) -> str:
        value = row[column]
        # A curve's seconds are rounded: of a very short epoch nothing is left.
        digits = 1 - math.floor(math.log10(value)) if value > 0 else 3
        return format_number(value, max(0, digits))

    return text


def select_printed(table: pd.DataFrame, columns: Sequence[Column]) -> list[Column]:
    """The columns of a table that is printed by ``columns``, without those about which it has nothing to say."""
    rows = records(table)
    return [
        column
        for column in columns
        if (not column.known or table.reindex(columns=list(column.known)).notna().any(axis=None))
        and any(column.text(row) != NOTHING for row in rows)
    ]


def format_number(value: float, digits: int = 1, sign: bool = False) -> str:
    """A number with a true minus sign, and none before zero; a dash where there is none."""
    if math.isnan(value):
        return NOTHING
    return f"{value:{'+' if sign else ''}z.{digits}f}".replace("-", "−")


def with_interval(value: float, low: float, high: float, digits: int, sign: bool = False) -> str:
    """A number and its interval, if it has one."""
    text = format_number(value, digits, sign)
    ends = f" [{format_number(low, digits)}, {format_number(high, digits)}]"
    return text if math.isnan(low) else text + ends
