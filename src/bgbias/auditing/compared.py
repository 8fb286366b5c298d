"""Finished audits side by side: which model to take, and whether that is more than chance.

Audits of the same photos, masks and backgrounds form a group, whoever made them and wherever; models are
compared within one (``results.comparison``).
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bgbias.auditing.finished import Audit
from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.files.atomic import write_json, write_text
from bgbias.results import comparison
from bgbias.results.comparison import Comparison
from bgbias.version import VERSION

SCHEMA = 1
FILES = ("comparison.html", "comparison.json", "models.csv", "pairs.csv")
# What two audits have in common whose queries can be paired, and where audit.json says it.
ALIKE = {
    "photos": ("photos", "digest"),
    "masks": ("masks", "key"),
    "backgrounds": ("backgrounds", "digest"),
    "backgrounds a photo": ("asked", "draws"),
    "sizes of masks that are trusted": ("asked", "policy"),
}
SHOWN = 8  # queries, half of them where either model finds more


@dataclass(frozen=True)
class Answered:
    """How a model answers a query: its MAP@R, 0..1, as it is and in front of other backgrounds, and the
    classes of what it finds first, with their pictures, encoded; no picture is kept of some photos.
    """

    model: str
    clean: float
    changed: float
    first: tuple[tuple[str, bool, bytes | None], ...]


@dataclass(frozen=True)
class Disputed:
    """A query that two models answer differently, as it is and elsewhere, encoded."""

    image_id: str
    class_name: str
    photo: bytes
    elsewhere: bytes
    answers: tuple[Answered, Answered]


@dataclass(frozen=True)
class ComparedAudits:
    """Audits of the same photos, by the names of their models."""

    audits: Mapping[str, Audit]

    @property
    def about(self) -> dict[str, Any]:
        """What all of them say of their photos."""
        photos: dict[str, Any] = next(iter(self.audits.values())).numbers["photos"]
        return photos

    @cached_property
    def comparison(self) -> Comparison:
        """Of all models that were asked with classes; references are no candidates."""
        references = [name for name, audit in self.audits.items() if audit.is_reference]
        return comparison.compare({n: a.queries for n, a in self.audits.items()}, references)

    @cached_property
    def models(self) -> pd.DataFrame:
        """``Comparison.models`` with each model's attribution score and seconds a photo."""
        models = self.comparison.models
        of = [self.audits[name] for name in models["model"]]
        return models.assign(
            attribution=[a.estimate("attribution").value for a in of],
            attribution_by=[a.numbers["attribution"]["how"] for a in of],
            seconds_a_photo=[a.seconds_a_photo for a in of],
        )

    def as_json(self) -> dict[str, Any]:
        """All numbers for a program (docs/audit.md)."""
        found = self.comparison
        return {
            "schema": SCHEMA,
            "bgbias": VERSION,
            "photos": {key: self.about[key] for key in ("name", "photos", "classes", "digest")},
            "choice": vars(found.choice),
            "stability": None
            if found.stability is None
            else {
                "of_classes": _known(found.stability.of_classes.value),
                "of_draws": _known(found.stability.of_draws),
            },
            "models": _records(self.models),
            "pairs": _records(found.pairs),
        }

    def disputed(self) -> list[Disputed]:
        """The queries on which the model to take and the next one differ most in front of other
        backgrounds; none where there is one model alone.
        """
        names = [row["model"] for row in _records(self.models) if not row["is_reference"]][:2]
        if len(names) < 2:
            return []
        levels = self.comparison.queries
        more = (levels[names[0]]["changed"] - levels[names[1]]["changed"]).dropna().sort_index()
        photos = self.audits[names[0]].to_frame().set_index("image_id")["class_name"]
        with zipfile.ZipFile(BytesIO(self.audits[names[0]].pictures)) as pictures:
            there = set(pictures.namelist())
            more = more[[f"{CLEAN}/{image_id}" in there for image_id in more.index]]
            ranked = more[more != 0].sort_values(kind="stable", ascending=False)
            chosen = [
                *ranked[ranked > 0].index[: SHOWN // 2],
                *ranked[ranked < 0].index[: -SHOWN // 2 - 1 : -1],
            ]

            def read(name: str) -> bytes | None:
                return pictures.read(name) if name in there else None

            return [
                Disputed(
                    image_id,
                    photos[image_id],
                    pictures.read(f"{CLEAN}/{image_id}"),
                    pictures.read(f"{RANDOM_BACKGROUND}/{image_id}"),
                    tuple(self._answer(name, image_id, photos, read) for name in names),  # type: ignore[arg-type]
                )
                for image_id in chosen
            ]

    def _answer(self, name: str, image_id: str, class_of: pd.Series, read: Any) -> Answered:
        row = self.audits[name].to_frame().set_index("image_id").loc[image_id]
        found = [row["first_clean"], row["first_changed"]]
        first = tuple(
            (class_of[other], class_of[other] == class_of[image_id], read(f"{CLEAN}/{other}"))
            for other in found
        )
        levels = self.comparison.queries.loc[image_id, name]
        return Answered(name, float(levels["clean"]), float(levels["changed"]), first)

    def __repr__(self) -> str:
        from bgbias.auditing import comparison_page

        answer = comparison_page.headline(self)
        return f"<Comparison of {len(self.audits)} models on {self.about['name']}: {answer}>"

    def __str__(self) -> str:
        """What the terminal shows."""
        from bgbias.auditing import comparison_page

        return "\n".join(comparison_page.lines(self))

    def _repr_html_(self) -> str:
        from markupsafe import escape

        return f"<pre>{escape(str(self))}</pre>"

    def save(self, folder: Path | str) -> None:
        """The files of ``FILES``, the page last."""
        from bgbias.auditing import comparison_page

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


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(k): _known(v) for k, v in row.items()} for row in frame.to_dict("records")]


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
