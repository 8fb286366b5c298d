"""Finished audits of the same photos side by side, as numbers: what each model finds, and where two differ."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import Any, cast

import pandas as pd

from bgbias.auditing.finished import Audit
from bgbias.auditing.saved import without_nan
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.results import comparison
from bgbias.results.comparison import ModelComparison
from bgbias.results.rows import records
from bgbias.version import VERSION

SCHEMA = 1
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
class SideBySide:
    """Audits of the same photos, by the names of their models."""

    audits: Mapping[str, Audit]

    @property
    def about(self) -> dict[str, Any]:
        """What all of them say of their photos."""
        photos: dict[str, Any] = next(iter(self.audits.values())).numbers["photos"]
        return photos

    @cached_property
    def comparison(self) -> ModelComparison:
        """Of all models that were asked with classes; references are no candidates."""
        references = [name for name, audit in self.audits.items() if audit.is_reference]
        return comparison.compare({n: a.queries for n, a in self.audits.items()}, references)

    @cached_property
    def models(self) -> pd.DataFrame:
        """``ModelComparison.models`` with each model's attribution score and seconds a photo."""
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
        told = {
            "schema": SCHEMA,
            "bgbias": VERSION,
            "photos": {key: self.about[key] for key in ("name", "photos", "classes", "digest")},
            "choice": vars(found.choice),
            "stability": found.stability
            and {
                "of_classes": found.stability.of_classes.value,
                "of_draws": found.stability.of_draws,
            },
            "models": records(self.models),
            "pairs": records(found.pairs),
        }
        return cast("dict[str, Any]", without_nan(told))

    def disputed(self) -> list[Disputed]:
        """The queries on which the model to take and the next one differ most in front of other
        backgrounds; none where there is one model alone.
        """
        names = [row["model"] for row in records(self.models) if not row["is_reference"]][:2]
        if len(names) < 2:
            return []
        levels = self.comparison.queries
        more = (levels[names[0]]["changed"] - levels[names[1]]["changed"]).dropna().sort_index()
        photos = dict(self.audits[names[0]].to_frame()[["image_id", "class_name"]].to_numpy().tolist())
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

    def _answer(
        self,
        name: str,
        image_id: str,
        class_of: Mapping[str, str],
        read: Callable[[str], bytes | None],
    ) -> Answered:
        of_photos = self.audits[name].to_frame().set_index("image_id")
        found = [str(of_photos.loc[image_id, column]) for column in ("first_clean", "first_changed")]
        first = tuple(
            (class_of[other], class_of[other] == class_of[image_id], read(f"{CLEAN}/{other}"))
            for other in found
        )
        levels = self.comparison.queries[name]
        clean, changed = (float(levels[level][image_id]) for level in comparison.LEVELS)
        return Answered(name, clean, changed, first)
