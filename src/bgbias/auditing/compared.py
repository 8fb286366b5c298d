"""Finished audits compared: which model to take, and whether that is more than chance.

Audits of the same photos, masks and backgrounds form a group, whoever made them and wherever; models are
compared within one (``results.comparison``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bgbias.auditing import comparison_page
from bgbias.auditing.finished import Audit
from bgbias.auditing.side_by_side import SideBySide
from bgbias.errors import UserError
from bgbias.files.atomic import write_json, write_text

FILES = ("comparison.html", "comparison.json", "models.csv", "pairs.csv")
# What two audits have in common whose queries can be paired, and where audit.json says it.
ALIKE = {
    "photos": ("photos", "digest"),
    "masks": ("masks", "key"),
    "backgrounds": ("backgrounds", "digest"),
    "backgrounds a photo": ("asked", "draws"),
    "sizes of masks that are trusted": ("asked", "policy"),
}


class ComparedAudits(SideBySide):
    """Audits of the same photos, by the names of their models: ``print`` shows what the terminal shows,
    ``save(folder)`` writes the page, and ``models`` and ``comparison`` hold the numbers.
    """

    def __repr__(self) -> str:
        answer = comparison_page.headline(self)
        return f"<Comparison of {len(self.audits)} models on {self.about['name']}: {answer}>"

    def __str__(self) -> str:
        """What the terminal shows."""
        return "\n".join(comparison_page.lines(self))

    def _repr_html_(self) -> str:
        from markupsafe import escape

        return f"<pre>{escape(str(self))}</pre>"

    def save(self, folder: Path | str) -> None:
        """The files of ``FILES``, the page last."""
        folder = Path(folder)
        write_json(folder / "comparison.json", self.as_json())
        write_text(folder / "models.csv", self.models.to_csv(index=False))
        write_text(folder / "pairs.csv", self.comparison.pairs.to_csv(index=False))
        write_text(folder / "comparison.html", comparison_page.render([self]))


def read(folders: Sequence[Path]) -> dict[str, Audit]:
    """Finished audits by their models' names, and by their folders' too where two models are called
    alike; what holds none, and one without classes, is a UserError.
    """
    audits = {folder: Audit.load(folder) for folder in dict.fromkeys(f.resolve() for f in folders)}
    for folder, audit in audits.items():
        if audit.numbers["drop"] is None:
            raise UserError(f"{folder} is of photos without classes: nobody knows which model finds more.")
    names = [audit.name for audit in audits.values()]
    return {
        name if names.count(name) == 1 else f"{name} ({folder.name})": audit
        for (folder, audit), name in zip(audits.items(), names, strict=True)
    }


def compare(audits: Mapping[str, Audit]) -> ComparedAudits:
    """Audits of the same photos, masks and backgrounds; others are a UserError that names the first
    difference, and so is a single one.
    """
    (first, one), *others = audits.items()
    if not others:
        raise UserError(f"There is one audit, of {first}; name two or more to compare them.")
    for name, other in others:
        for what in _differences(one, other):
            raise UserError(
                f"The audits of {first} and {name} cannot be compared: their {what} differ. Audit both in"
                f" one command: bgbias audit PHOTOS --model ... --model ..."
            )
    return ComparedAudits(audits)


def group(audits: Mapping[str, Audit]) -> list[ComparedAudits]:
    """Those that are alike together, in the order of their first."""
    groups: list[dict[str, Audit]] = []
    for name, audit in audits.items():
        for some in groups:
            if not any(_differences(next(iter(some.values())), audit)):
                some[name] = audit
                break
        else:
            groups.append({name: audit})
    return [ComparedAudits(some) for some in groups]


def _differences(one: Audit, other: Audit) -> Iterator[str]:
    for what, (entry, key) in ALIKE.items():
        if one.numbers[entry].get(key) != other.numbers[entry].get(key):
            yield what
