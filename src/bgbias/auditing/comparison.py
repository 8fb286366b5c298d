"""Finished audits compared: which model to take, and whether that is more than chance.

Audits of the same photos, masks and backgrounds form a group, whoever made them and wherever; models are
compared within one (``results.comparison``).
"""

import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, cast

import pandas as pd
from markupsafe import escape

from bgbias.attribution.settings import GRADIENTS, OCCLUSION
from bgbias.auditing.finished import Audit
from bgbias.auditing.output import replace_nan
from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.files.atomic import as_json, write_text
from bgbias.report import html, prose
from bgbias.results import comparison, decomposition
from bgbias.results.comparison import ModelComparison
from bgbias.results.rows import read_estimate, records
from bgbias.results.uncertainty import FEWEST_HARD, SIGNIFICANT, UNKNOWN
from bgbias.version import VERSION

SENTENCES, TERMINAL = "choice.j2", "comparison.j2"
FILES = ("comparison.html", "comparison.json", "models.csv", "pairs.csv")
SCHEMA = 2
SHOWN = 8  # queries, half of them where either model finds more
STEPS = dict(zip(decomposition.STEPS, ("pasting", "own background", "class's backgrounds"), strict=True))
# What another place costs, and how much of that the background carries (results/places.py).
PLACES = {"natural": "another place, % of MAP@R", "carried": "carried by the background, %"}
WAYS = (GRADIENTS, OCCLUSION)
SCORED_BY = "attribution_by_"  # and the way, whose scores compare with one another alone
# What two audits have in common whose queries can be paired, and where audit.json says it.
ALIKE = {
    "photos": ("photos", "digest"),
    "masks": ("masks", "key"),
    "backgrounds": ("backgrounds", "digest"),
    "backgrounds a photo": ("asked", "draws"),
    "sizes of masks that are trusted": ("asked", "policy"),
}


@dataclass(frozen=True)
class ComparedAudits:
    """Audits of the same photos, by the names of their models: ``print`` shows what the terminal shows,
    ``save(folder)`` writes the page, and ``models`` and ``comparison`` hold the numbers.
    """

    audits: Mapping[str, Audit]
    fewest_hard: ClassVar[int] = FEWEST_HARD

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
        """``ModelComparison.models`` with each model's attribution score, in a column for each way to make maps, seconds
        a photo, and ``PLACES`` where known.
        """
        models = self.comparison.models
        audits = [self.audits[name] for name in models["model"]]
        places = {
            f"{name}{end}": [math.nan if value is None else value for value in values]
            for name in PLACES
            for end, key in (("", "value"), ("_low", "low"), ("_high", "high"))
            if any(values := [((a.numbers.get("places") or {}).get(name) or {}).get(key) for a in audits])
        }
        scores = [(a.estimate("attribution").value, a.numbers["attribution"]["how"]) for a in audits]
        by_way = {
            f"{SCORED_BY}{way}": [score if how == way else math.nan for score, how in scores] for way in WAYS
        }
        return models.assign(
            **places,
            **by_way,
            seconds_a_photo=[a.seconds_a_photo for a in audits],
        )

    @property
    def numbers(self) -> dict[str, Any]:
        """All numbers for a program (docs/audit.md)."""
        choice, stability = self.comparison.choice, self.comparison.stability
        numbers = {
            "schema": SCHEMA,
            "bgbias": VERSION,
            "photos": {key: self.about[key] for key in ("name", "photos", "classes", "digest")},
            "choice": vars(choice),
            "stability": stability
            and {
                f"{name}{end}": getattr(tau, field)
                for name, tau in vars(stability).items()
                for end, field in (("", "value"), ("_low", "low"), ("_high", "high"))
            },
            "models": records(self.models),
            "pairs": records(self.comparison.pairs),
        }
        return cast("dict[str, Any]", replace_nan(numbers))

    @property
    def files(self) -> dict[str, str]:
        """The files of ``FILES``, but for the page."""
        return {
            "comparison.json": as_json(self.numbers),
            "models.csv": self.models.to_csv(index=False),
            "pairs.csv": self.comparison.pairs.to_csv(index=False),
        }

    def disputed(self) -> list[dict[str, Any]]:
        """The queries on which the model to take and the next one differ most on other backgrounds; none where there is one
        model alone.

        Each has its ``image_id``, ``class_name``, its pictures ``photo`` and ``elsewhere``, encoded, and of both models the
        ``answers``: MAP@R, 0..1, ``clean`` and ``changed``, and what they find ``first`` on either: its class, whether that is
        right, and its picture, if it was kept.
        """
        names = self.models.loc[~self.models["is_reference"], "model"].tolist()[:2]
        if len(names) < 2:
            return []
        levels = self.comparison.queries
        more = (levels[names[0]]["changed"] - levels[names[1]]["changed"]).dropna().sort_index()
        photos = {name: self.audits[name].to_frame().set_index("image_id") for name in names}
        class_of = photos[names[0]]["class_name"].to_dict()
        with zipfile.ZipFile(BytesIO(self.audits[names[0]].pictures)) as file:
            pictures = {name: file.read(name) for name in file.namelist()}
        more = more[[f"{CLEAN}/{image_id}" in pictures for image_id in more.index]]
        ranked = more[more != 0].sort_values(kind="stable", ascending=False)
        worse = ranked[ranked < 0].index[: -SHOWN // 2 - 1 : -1]

        def answer(name: str, image_id: str) -> dict[str, Any]:
            matches = photos[name].loc[image_id, ["first_clean", "first_changed"]].astype(str)
            first = [
                (class_of[other], class_of[other] == class_of[image_id], pictures.get(f"{CLEAN}/{other}"))
                for other in matches
            ]
            clean, changed = (float(levels[name][level][image_id]) for level in comparison.LEVELS)
            return {"model": name, "clean": clean, "changed": changed, "first": first}

        return [
            {
                "image_id": image_id,
                "class_name": class_of[image_id],
                "photo": pictures[f"{CLEAN}/{image_id}"],
                "elsewhere": pictures[f"{RANDOM_BACKGROUND}/{image_id}"],
                "answers": [answer(name, image_id) for name in names],
            }
            for image_id in [*ranked[ranked > 0].index[: SHOWN // 2], *worse]
        ]

    @property
    def headline(self) -> str:
        """Which model to take, and whether that is more than chance."""
        choice = self.comparison.choice
        best = next(row for row in records(self.models) if row["model"] == choice.best)
        changed = read_estimate(best, "changed")
        return " ".join(
            prose.fill_macro(SENTENCES, "headline", choice=choice, changed=changed, at_chance=self.at_chance)
        )

    @property
    def details(self) -> list[str]:
        """What else to know before one is taken: who is ahead on original photos, and whether the order of the drops holds."""
        choice = self.comparison.choice
        candidates = [row for row in records(self.models) if not row["is_reference"]]
        return prose.fill_macro(
            SENTENCES,
            "details",
            choice=choice,
            at_chance=self.at_chance,
            on_original=max(candidates, key=lambda row: row["clean"]) if len(candidates) > 1 else None,
            stability=self.comparison.stability,
            trusted_tau=comparison.TRUSTED_TAU,
        )

    @property
    def at_chance(self) -> list[str]:
        """The models that find hardly more than chance on original photos, so that their drop says nothing."""
        return [
            n
            for n, audit in self.audits.items()
            if audit.finds_hardly_more_than_chance and not audit.is_reference
        ]

    @property
    def guessed(self) -> list[str]:
        """That the preparation of photos was assumed, of which models; nothing where it is known of all."""
        names = [name for name, audit in self.audits.items() if audit.numbers["model"]["guesses"]]
        return prose.fill_macro(SENTENCES, "guessed", names=names)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row a model: its estimates, the ``steps`` of its drop, and how far its MAP@R on other backgrounds is above that of
        the best one (``against``), and whether that is significant; None of the best one.
        """
        differences = comparison.differences(self.comparison.pairs, self.comparison.choice.best)
        against = {name: (difference, difference.p < SIGNIFICANT) for name, difference in differences.items()}
        at_chance = self.at_chance
        return [
            row
            | {name: read_estimate(row, name) for name in ("clean", "changed", "drop")}
            | {"steps": {name: read_estimate(row, name) for name in STEPS if name in row}}
            | {"places": {name: read_estimate(row, name) for name in PLACES if name in row}}
            | ({"drop": UNKNOWN} if row["model"] in at_chance else {})
            | {"against": against.get(row["model"])}
            for row in records(self.models)
        ]

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.audits)} models on {self.about['name']}: {self.headline}>"

    def __str__(self) -> str:
        """What the terminal shows."""
        return prose.lines(TERMINAL, group=self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def save(self, folder: Path | str) -> None:
        """The files of ``FILES``, the page last."""
        folder = Path(folder)
        for name, file in self.files.items():
            write_text(folder / name, file)
        write_text(folder / FILES[0], render([self]))


def render(groups: Sequence[ComparedAudits]) -> str:
    """``comparison.html``, which needs no other file: a section for each group of audits of the same photos."""
    values = {
        "groups": groups,
        "steps": STEPS,
        "places": PLACES,
        "ways": {f"{SCORED_BY}{way}": way for way in WAYS},
        "trusted_tau": comparison.TRUSTED_TAU,
        "version": VERSION,
    }
    return html.render("comparison.html", values)


def read(folders: Sequence[Path]) -> dict[str, Audit]:
    """Finished audits by their models' names, and by as much of their folders' paths as tells them apart
    where two models are called alike; what holds none, and one without classes, is a UserError.
    """
    audits = {folder: Audit.load(folder) for folder in dict.fromkeys(f.resolve() for f in folders)}
    for folder, audit in audits.items():
        if audit.numbers["drop"] is None:
            raise UserError(f"{folder} is of photos without classes: nobody knows which model finds more.")
    names = [audit.name for audit in audits.values()]
    depth, called = 0, dict[str, Audit]()
    while len(called) < len(audits):
        depth += 1
        called = {
            name if names.count(name) == 1 else f"{name} ({'/'.join(folder.parts[-depth:])})": audit
            for (folder, audit), name in zip(audits.items(), names, strict=True)
        }
    return called


def compare(audits: Mapping[str, Audit]) -> ComparedAudits:
    """Audits of the same photos, masks and backgrounds; others are a UserError that names the first
    difference, and so is a single one.
    """
    (first, one), *others = audits.items()
    if not others:
        raise UserError(f"There is one audit, of {first}; name two or more to compare them.")
    for name, other in others:
        for what, (entry, key) in ALIKE.items():
            if one.numbers[entry].get(key) != other.numbers[entry].get(key):
                raise UserError(
                    f"The audits of {first} and {name} cannot be compared: their {what} differ. Audit both in"
                    f" one command: bgbias audit PHOTOS --model ... --model ..."
                )
    return ComparedAudits(audits)


def group(audits: Mapping[str, Audit]) -> list[ComparedAudits]:
    """Those that are alike together, in the order of their first."""
    groups: dict[str, dict[str, Audit]] = {}
    for name, audit in audits.items():
        alike = [audit.numbers[entry].get(key) for entry, key in ALIKE.values()]
        groups.setdefault(as_json({"alike": alike}), {})[name] = audit
    return [ComparedAudits(members) for members in groups.values()]
