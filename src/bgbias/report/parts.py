"""Parts of pages that a script of docs/ writes from a table it made: ``<!-- kind name -->...<!-- end -->``.

What pages say of a grid's published results has marks of its own (``report/pages.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from bgbias.errors import UserError


@dataclass(frozen=True)
class Parts:
    """All parts of one ``kind``, which is the marks' first word.

    ``pages`` have them; ``made`` tells what stands between the marks, by the marks' second words; both are places below a root.
    ``command`` writes the pages anew.
    """

    kind: str
    pages: tuple[Path, ...]
    made: Callable[[Path], Mapping[str, str]]
    command: str

    @cached_property
    def mark(self) -> re.Pattern[str]:
        """A part: the mark that begins it, its name, what it says, the mark that ends it."""
        return re.compile(rf"(<!-- {self.kind} (\w+) -->\n?)(.*?)(<!-- end -->)", re.DOTALL)

    def wanted(self, root: Path) -> dict[Path, str]:
        """The pages with every part as it is made. Raises UserError if a page asks for a part that is not."""
        made = self.made(root)

        def part(found: re.Match[str]) -> str:
            if (name := found[2]) not in made:
                raise UserError(
                    f"{page} asks for a part '{self.kind} {name}'; there are: {', '.join(sorted(made))}."
                )
            return found[1] + made[name] + found[4]

        pages = {}
        for page in self.pages:
            pages[page] = self.mark.sub(part, (root / page).read_text(encoding="utf-8"))
        return pages

    def differing(self, root: Path) -> dict[Path, str]:
        """The pages that do not say what is made, each with the text that does."""
        wanted = self.wanted(root)
        return {page: text for page, text in wanted.items() if (root / page).read_text("utf-8") != text}

    def check(self, root: Path) -> int:
        """Name pages that do not say what is made; the exit status of a check."""
        found = self.differing(root)
        for page in found:
            print(f"{page} does not say what the tables of docs do; write it anew: {self.command}")
        return int(bool(found))

    def write(self, root: Path) -> None:
        """Write the pages that differ, and name them."""
        for page, text in self.differing(root).items():
            (root / page).write_text(text, encoding="utf-8")
            print(page)


def markdown(frame: pd.DataFrame, left: int = 1) -> str:
    """A table as it is shown; columns behind the first ``left`` ones hold numbers, and are set right."""
    ruled = ["---"] * left + ["---:"] * (frame.shape[1] - left)
    lines = [list(frame.columns), ruled, *frame.to_numpy().tolist()]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
