"""An audit in words. ``text.j2`` has the sentences, ``verdict.j2`` the lines of the terminal; here is what they ask."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from bgbias.auditing import workplace
from bgbias.auditing.findings import Findings, without_common_folder
from bgbias.auditing.masker import BY_HAND
from bgbias.auditing.measured import Measured
from bgbias.auditing.preparations import PreparationTrial
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, RANDOM_BACKGROUND, SYMMETRIC
from bgbias.report import prose
from bgbias.report.queries import UNSURE
from bgbias.results import conflict, correlation
from bgbias.results.decomposition import DROP, PATH
from bgbias.results.rows import MAP_AT_R, PRECISION_AT_1, records
from bgbias.results.uncertainty import FEWEST_CLASSES, Estimate

SENTENCES, TERMINAL = "text.j2", "verdict.j2"
WORST = 10  # classes
FEWEST_QUERIES = 20  # fewer say next to nothing
# Times chance, and of the way from chance to 1: a model below both finds hardly more than chance.
HARDLY_TIMES, HARDLY_WAY = 2, 0.1
HALF = 0.5  # a class that loses more than this share of its MAP@R is counted
LENT = PATH[2]  # the condition whose backgrounds come from another photo of the class
MANY_UNSURE = 0.1  # of the queries have an unsure mask: the verdict hangs on masks
STEP_TITLES = {
    "pasting": "cutting out and pasting",
    "own_background": "the photo's own background",
    "class_background": "typical backgrounds of the class",
    DROP: "together",
}
# In the order in which people read them: each step of the drop goes from one to the next.
LEVEL_TITLES = {
    CLEAN: "original photos",
    "own_inpainted": "object on its own background, filled",
    "mixed_same": "on a background of its class",
    RANDOM_BACKGROUND: "on other backgrounds",
    "mixed_rand": "on a background of another class",
    "only_fg": "object alone, on grey",
    "no_fg": "object greyed out",
    "only_bg": "background alone, filled",
}


@dataclass(frozen=True)
class AuditFacts:
    """What the templates ask of an audit beside its numbers; shares are 0..1."""

    audit: Measured
    unsure_below: ClassVar[float] = UNSURE
    fewest_queries: ClassVar[int] = FEWEST_QUERIES
    fewest_classes: ClassVar[int] = FEWEST_CLASSES

    @property
    def findings(self) -> Findings:
        """The numbers that need classes; there are some."""
        assert self.audit.findings is not None
        return self.audit.findings

    def estimate(self, table: str, **where: str) -> Estimate:
        """The value with its interval of the one row of a table of ``Findings`` in which these columns have these values."""
        rows: pd.DataFrame = getattr(self.findings, table)
        for column, value in where.items():
            rows = rows[rows[column] == value]
        (row,) = records(rows)
        return Estimate(row["value"], row["low"], row["high"], row.get("p", math.nan))

    def drop(self, setting: str = QUERY_ONLY, unit: str = "relative") -> Estimate:
        """The drop of MAP@R: ``relative`` or in ``points``; unknown without labels."""
        if self.audit.findings is None:
            return Estimate(math.nan)
        return self.estimate("drops", setting=setting, unit=unit)

    def level(self, condition: str, setting: str = SYMMETRIC, metric: str = MAP_AT_R) -> Estimate:
        """A metric in a condition; by default MAP@R with queries and gallery alike."""
        return self.estimate("levels", metric=metric, setting=setting, condition=condition)

    def step(self, name: str, setting: str = QUERY_ONLY) -> Estimate:
        """The points of MAP@R that a part of the drop costs."""
        return self.estimate("steps", step=name, setting=setting)

    @property
    def change(self) -> Estimate:
        """The relative drop, or the rise where MAP@R rises: what sentences say after a verb."""
        drop = self.drop()
        if drop.value < 0:
            return Estimate(-drop.value, -drop.high, -drop.low)
        # Student's t does not know that no more than all can be lost.
        return Estimate(drop.value, drop.low, min(drop.high, 1.0))

    @property
    def queries(self) -> int:
        """Photos with a trusted mask and, where there are classes, another photo to find."""
        found = self.audit.findings
        return len(self.audit.usable) if found is None else int(found.photos["lost"].notna().sum())

    @property
    def finds_hardly_more_than_chance(self) -> bool:
        """Whether MAP@R on original photos is close to that of a random order: no drop says anything then."""
        clean, chance = self.level(CLEAN).value, self.findings.by_chance
        return clean < min(HARDLY_TIMES * chance, chance + HARDLY_WAY * (1 - chance))

    @property
    def first_matches(self) -> tuple[float, float]:
        """How often the first match is right, on original photos and on other backgrounds; NaN where that was not measured."""
        before, after = (self.level(c, QUERY_ONLY, PRECISION_AT_1) for c in (CLEAN, RANDOM_BACKGROUND))
        return before.value, after.value

    @property
    def largest_class(self) -> tuple[str, int, int] | None:
        """The class that most queries are of, if one is, how many, and how many queries there are."""
        sizes = self.findings.classes.set_index("class_name")["queries"]
        largest, every = int(sizes.max()), int(sizes.sum())
        if len(sizes) < FEWEST_CLASSES or 2 * largest <= every:
            return None
        return without_common_folder(sizes.index)[str(sizes.idxmax())], largest, every

    @property
    def has_many_unsure_masks(self) -> bool:
        """Whether the verdict hangs on masks that are unsure."""
        surely = self.audit.surely
        return surely is not None and surely.others >= MANY_UNSURE * (self.queries - surely.drawn)

    @property
    def losing_half(self) -> int:
        """How many classes lose more than half of their MAP@R."""
        return int((self.findings.classes["relative"] > HALF).sum())

    @property
    def without_a_lender(self) -> int:
        """How many queries have no photo of their class to borrow a background from."""
        photos = self.findings.photos
        return int(photos[LENT].isna().sum()) if LENT in photos else 0

    @property
    def is_drawn(self) -> bool:
        """Whether all masks were drawn by hand."""
        return self.audit.masker.endswith(BY_HAND)

    @property
    def guesses(self) -> list[str]:
        """What was guessed of the model and may make all numbers wrong, the most telling first."""
        return [*better_preparation(self.audit.preparations), *self.audit.model.guesses]

    @property
    def model(self) -> list[str]:
        """Which model, how it prepares photos, and what was done to load it."""
        model = self.audit.model
        look = () if any(str(model.look) in line for line in model.told) else (f"photos: {model.look}",)
        return [workplace.without_folders(line) for line in (model.name, *look, *model.told)]

    @property
    def conflict_of_errors(self) -> float:
        """What ``cue_conflict`` would be if queries that do not find their own class first found all others alike: it grows as
        classes are fewer. Unknown where that was not measured.
        """
        rows, classes = self.findings.levels, len(self.findings.classes)
        measured = (rows["condition"] == conflict.CONDITION) & (rows["setting"] == QUERY_ONLY)
        right = rows.loc[measured & (rows["metric"] == PRECISION_AT_1), "value"]
        if not len(right) or classes < 2:
            return math.nan
        wrong = (1 - float(right.iloc[0])) / (classes - 1)
        return wrong / (wrong + float(right.iloc[0]))

    @property
    def score_and_loss(self) -> tuple[float, int]:
        """Spearman's rank correlation of queries' attribution score with the MAP@R that they lose, and of how many; NaN for
        fewer than ten.
        """
        if self.audit.findings is None:
            return math.nan, 0
        lost, scores = self.findings.photos, self.audit.looks.scores
        both = lost[["image_id", "lost"]].merge(scores[["image_id", "score"]]).dropna()
        return correlation.spearman(both["score"].to_numpy(), both["lost"].to_numpy()), len(both)

    @property
    def levels(self) -> list[tuple[str, str]]:
        """The conditions in the order in which people read them, others last, each with its title."""
        return [(name, LEVEL_TITLES.get(name, name)) for name in in_order(self.findings.levels["condition"])]

    @property
    def losing_classes(self) -> list[dict[str, Any]]:
        """The classes that lose most, each with a ``name`` that fits into a line of the terminal."""
        classes = self.findings.classes
        short = without_common_folder(classes["class_name"])
        rows = records(classes.head(WORST))
        return [row | {"name": " ".join(short[row["class_name"]].split())} for row in rows]


def in_order(conditions: Iterable[str]) -> list[str]:
    """Conditions in the order in which people read them, others last."""
    ranks = {name: rank for rank, name in enumerate(LEVEL_TITLES)}
    return sorted(dict.fromkeys(conditions), key=lambda name: ranks.get(name, len(ranks)))


def sentences(audit: Measured, about: str) -> list[str]:
    """What a macro of ``text.j2`` says of an audit: ``verdict``, ``evidence``, ``masks``, ``advice``."""
    return prose.fill_macro(SENTENCES, about, a=AuditFacts(audit))


def verdict(audit: Measured) -> str:
    """The answer in a sentence or two, with its interval."""
    return " ".join(sentences(audit, "verdict"))


def terminal(audit: Measured) -> str:
    """The lines of the terminal."""
    return prose.lines(
        TERMINAL,
        a=AuditFacts(audit),
        verdict=verdict(audit),
        evidence=sentences(audit, "evidence"),
        step_titles=STEP_TITLES,
        shares=shares(audit),
        attribution_scale=attribution_scale(),
    )


def shares(audit: Measured) -> str:
    """Shares of variance in words; nothing where they were not measured."""
    if audit.shares is None:
        return ""
    return " ".join(prose.fill_macro(SENTENCES, "shares", shares=audit.shares))


def attribution_scale() -> str:
    """What the numbers of an attribution score mean."""
    return " ".join(prose.fill_macro(SENTENCES, "attribution_scale"))


def better_preparation(trial: PreparationTrial) -> list[str]:
    """That another preparation of photos is better; nothing where none is."""
    return prose.fill_macro(SENTENCES, "better_preparation", trial=trial)
