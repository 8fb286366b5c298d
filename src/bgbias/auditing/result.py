"""All that an audit measured, and what sentences, tables and pages ask of it. ``text.j2`` has the sentences, ``verdict.j2`` the
lines of the terminal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from bgbias.auditing import workdir
from bgbias.auditing.attribution_scores import NOWHERE, Looks, ShownPhoto
from bgbias.auditing.config import Question
from bgbias.auditing.findings import AcrossSessions, Findings, strip_common_folder
from bgbias.auditing.finished import find_estimate, is_hardly_more
from bgbias.auditing.mask_range import MaskRange
from bgbias.auditing.masker import BY_HAND
from bgbias.auditing.preparations import PreparationTrial
from bgbias.auditing.prepared_photos import PreparedPhotos
from bgbias.auditing.slices import LeftOut, Third
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, RANDOM_BACKGROUND, SYMMETRIC
from bgbias.evaluation.crossing import Shares
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.models.adapters import Adapted
from bgbias.photos.query_gallery import QueryGallerySplit
from bgbias.report import prose
from bgbias.report.html import jpeg
from bgbias.report.queries import UNSURE, ShownQuery
from bgbias.results import conflict, correlation
from bgbias.results.background_baseline import Leak
from bgbias.results.decomposition import PATH
from bgbias.results.rows import MAP_AT_R, PRECISION_AT_1, records
from bgbias.results.uncertainty import FEWEST_CLASSES, FEWEST_HARD, Estimate, at_most_all
from bgbias.settings import read_yaml

SENTENCES, TERMINAL = "text.j2", "verdict.j2"
WORST = 10  # classes
FEWEST_QUERIES = 20  # fewer say next to nothing
HALF = 0.5  # a class that loses more than this share of its MAP@R is counted
LENT = PATH[2]  # the condition whose backgrounds come from another photo of the class
MANY_UNSURE = 0.1  # of the queries have an unsure mask: the verdict hangs on masks
TITLES: dict[str, dict[str, str]] = read_yaml(Path(__file__).with_name("titles.yaml"))
MASKS = 8
AT_ONCE = 256  # queries whose gallery is compared
PICTURES, PICTURE = 1000, 112  # photos that are kept for comparisons, and their side in pixels


def select_doubtful(prepared: PreparedPhotos) -> tuple[ShownPhoto, ...]:
    """The photos whose masks are least clear; none where clarity tells nothing or somebody drew them."""
    rows = prepared.qualities.dropna(subset=["clarity"])
    least = rows[rows["clarity"] < 1].sort_values(["clarity", "image_id"]).head(MASKS)
    photos, masks = prepared.photos, prepared.masks
    return tuple(
        ShownPhoto(i, photos.get(i), masks.get(i), float(clarity))
        for i, clarity in zip(least["image_id"], least["clarity"], strict=True)
    )


def find_first_matches(embeddings: Embeddings) -> pd.DataFrame:
    """A row a photo: its image id, and that of the photo which it finds first as it is (``first_clean``)
    and on the first random background (``first_changed``), in the gallery as it is.
    """
    labels, gallery = embeddings.labels, np.asarray(embeddings.views[CLEAN, 0])
    among = embeddings.given or QueryGallerySplit.all_among_all(len(labels))
    ids = np.array(embeddings.ids, object)
    matches = pd.DataFrame({"image_id": ids})
    for name, condition in (("first_clean", CLEAN), ("first_changed", RANDOM_BACKGROUND)):
        queries, first = embeddings.views[condition, 0], []
        for rows in np.array_split(np.arange(len(ids)), -(-len(ids) // AT_ONCE)):
            near = np.where(among.searched(rows, labels), queries[rows] @ gallery.T, -np.inf)
            first.append(ids[near.argmax(axis=1)])
        matches[name] = np.concatenate(first)
    return matches


def make_pictures(findings: Findings, photos: EvaluationPhotos) -> dict[str, bytes]:
    """JPEGs of the queries, of at most ``PICTURES``, by lot: ``clean/<image id>``, and
    ``random_background/<image id>`` on the first random background.
    """
    queries = photos.table.rows(photos.table.frame["image_id"].isin(findings.photos["image_id"]))
    files = {}
    for image_id in queries.keyed("audit pictures", PICTURES).ids:
        row = photos.table.ids.index(image_id)
        elsewhere = next(photos.views([(RANDOM_BACKGROUND, 0)], rows=range(row, row + 1)))
        for condition, view in ((CLEAN, photos.clean(image_id)), (RANDOM_BACKGROUND, elsewhere)):
            files[f"{condition}/{image_id}"] = jpeg(view, PICTURE)
    return files


@dataclass(frozen=True)
class AuditResult:
    """What was measured, and what templates ask of it; from ``findings`` on, what needs labels. Shares are 0..1.

    ``masker``: who made the masks. ``qualities``: a row a mask. ``remarks``: of masks. ``ties``: photos
    whose clean embedding is also another's. For a person: ``queries``, a photo of each class that loses
    most (``portraits``), and masks that are least clear (``doubtful``). For comparisons: which photo each
    query finds ``first``, and ``pictures`` of photos, encoded, by name. ``seconds_a_photo``: what
    preparing and embedding one takes, on this machine.
    """

    question: Question
    model: Adapted
    masker: str
    shift: pd.DataFrame
    qualities: pd.DataFrame
    usable: frozenset[str]
    doubtful: tuple[ShownPhoto, ...]
    remarks: tuple[str, ...]
    ties: int
    shares: Shares | None = None
    looks: Looks = NOWHERE
    findings: Findings | None = None
    queries: dict[str, list[ShownQuery]] = field(default_factory=dict)
    portraits: dict[str, str] = field(default_factory=dict)
    thirds: tuple[Third, ...] = ()
    surely: LeftOut | None = None
    better: tuple[LeftOut, ...] = ()
    leak: Leak | None = None
    sessions: AcrossSessions | None = None
    mask_range: MaskRange | None = None
    first: pd.DataFrame | None = None
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    seconds_a_photo: float = math.nan
    preparations: PreparationTrial = field(default_factory=PreparationTrial)

    step_titles: ClassVar[dict[str, str]] = TITLES["steps"]
    unsure_below: ClassVar[float] = UNSURE
    fewest_queries: ClassVar[int] = FEWEST_QUERIES
    fewest_classes: ClassVar[int] = FEWEST_CLASSES
    fewest_hard: ClassVar[int] = FEWEST_HARD

    def sentences(self, about: str) -> list[str]:
        """What a macro of ``text.j2`` says: ``verdict``, ``evidence``, ``masks``, ``advice``, ``shares``."""
        return prose.fill_macro(SENTENCES, about, a=self)

    @property
    def verdict(self) -> str:
        """The answer in a sentence or two, with its interval."""
        return " ".join(self.sentences("verdict"))

    @property
    def terminal(self) -> str:
        """The lines of the terminal."""
        return prose.lines(TERMINAL, a=self)

    @property
    def labelled(self) -> Findings:
        """The numbers that need classes; there are some."""
        assert self.findings is not None
        return self.findings

    def drop(self, setting: str = QUERY_ONLY, unit: str = "relative") -> Estimate:
        """The drop of MAP@R: ``relative`` or in ``points``; unknown without labels."""
        return find_estimate(self.findings.drops if self.findings else (), setting=setting, unit=unit)

    def level(self, condition: str, setting: str = SYMMETRIC, metric: str = MAP_AT_R) -> Estimate:
        """A metric in a condition; by default MAP@R with queries and gallery alike."""
        return find_estimate(self.labelled.levels, metric=metric, setting=setting, condition=condition)

    def step(self, name: str, setting: str = QUERY_ONLY) -> Estimate:
        """The points of MAP@R that a part of the drop costs."""
        return find_estimate(self.labelled.steps, step=name, setting=setting)

    @staticmethod
    def unsigned(drop: Estimate) -> Estimate:
        """A relative drop, or the rise where MAP@R rises: what sentences say beside a verb."""
        if drop.value < 0:
            return Estimate(-drop.value, -drop.high, -drop.low)
        return at_most_all(drop)

    @property
    def query_count(self) -> int:
        """Photos with a trusted mask and, where there are classes, another photo to find."""
        findings = self.findings
        return len(self.usable) if findings is None else int(findings.photos["lost"].notna().sum())

    @property
    def finds_hardly_more_than_chance(self) -> bool:
        """Whether MAP@R on original photos is close to that of a random order: no drop says anything then."""
        return is_hardly_more(self.level(CLEAN).value, self.labelled.by_chance)

    @property
    def has_something_to_lose(self) -> bool:
        """Whether classes are known, and the model finds more than by chance."""
        is_known = self.findings is not None and not math.isnan(self.drop().value)
        return is_known and not self.finds_hardly_more_than_chance

    @property
    def largest_class(self) -> tuple[str, int, int] | None:
        """The class that most queries are of, if one is, how many, and how many queries there are."""
        sizes = self.labelled.classes.set_index("class_name")["queries"]
        largest, every = int(sizes.max()), int(sizes.sum())
        if len(sizes) < FEWEST_CLASSES or 2 * largest <= every:
            return None
        return strip_common_folder(sizes.index)[str(sizes.idxmax())], largest, every

    @property
    def has_many_unsure_masks(self) -> bool:
        """Whether the verdict hangs on masks that are unsure."""
        surely = self.surely
        return surely is not None and surely.others >= MANY_UNSURE * (self.query_count - surely.drawn)

    @property
    def losing_half(self) -> int:
        """How many classes lose more than half of their MAP@R."""
        return int((self.labelled.classes["relative"] > HALF).sum())

    @property
    def without_a_lender(self) -> int:
        """How many queries have nobody to find where the photo that lends its background is left out."""
        photos = self.labelled.photos
        return int(photos.loc[photos["lost"].notna(), LENT].isna().sum()) if LENT in photos else 0

    @property
    def is_drawn(self) -> bool:
        """Whether all masks were drawn by hand."""
        return self.masker.endswith(BY_HAND)

    @property
    def guesses(self) -> list[str]:
        """What was guessed of the model and may make all numbers wrong, the most telling first."""
        return [*self.preparations.sentences, *self.model.guesses]

    @property
    def model_lines(self) -> list[str]:
        """Which model, how it prepares photos, and what was done to load it."""
        model = self.model
        look = () if any(str(model.look) in line for line in model.notes) else (f"photos: {model.look}",)
        sentences = (" ".join(map(workdir.strip_folders, line.split(" "))) for line in (*look, *model.notes))
        return [workdir.strip_folders(model.name), *sentences]

    @property
    def conflict_of_errors(self) -> float:
        """What ``cue_conflict`` would be if queries that do not find their own class first found all others alike: it grows as
        classes are fewer. Unknown where that was not measured.
        """
        right, classes = (
            self.level(conflict.CONDITION, QUERY_ONLY, PRECISION_AT_1).value,
            self.labelled.classes,
        )
        if math.isnan(right) or len(classes) < 2:
            return math.nan
        wrong = (1 - right) / (len(classes) - 1)
        return wrong / (wrong + right)

    @property
    def score_and_loss(self) -> tuple[float, int]:
        """Spearman's rank correlation of queries' attribution score with the MAP@R that they lose, and of how many; NaN for
        fewer than ten.
        """
        if self.findings is None:
            return math.nan, 0
        lost, scores = self.labelled.photos, self.looks.scores
        both = lost[["image_id", "lost"]].merge(scores[["image_id", "score"]]).dropna()
        return correlation.spearman(both["score"].to_numpy(), both["lost"].to_numpy()), len(both)

    @property
    def levels(self) -> list[tuple[str, str]]:
        """The conditions in the order in which people read them, each with its title."""
        conditions = {row["condition"] for row in self.labelled.levels}
        return [(name, title) for name, title in TITLES["levels"].items() if name in conditions]

    @property
    def losing_classes(self) -> list[dict[str, Any]]:
        """The classes that lose most, each with a ``name`` that fits into a line of the terminal."""
        classes = self.labelled.classes
        short = strip_common_folder(classes["class_name"])
        rows = records(classes.head(WORST))
        return [row | {"name": " ".join(short[row["class_name"]].split())} for row in rows]
