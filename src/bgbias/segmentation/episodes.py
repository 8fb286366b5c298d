"""Episodes of one-shot segmentation: a test photo, others of its class, and as many of one other class
(docs/methods.md, section 7).

They are drawn by names alone, the same ones for every model. All tasks share an episode, so that they differ by what they are
told and not by the photo: one shot takes the first photo of a class, five take all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bgbias import seeds
from bgbias.errors import UserError

if TYPE_CHECKING:
    from bgbias.photos.table import ImageTable

SHOTS = 5
CENTRE = "centre"  # no model at all
# One-way: a pair; two-way: triplets with one photo, or each of SHOTS, of both classes.
TASKS = ("one_way_1", "two_way_1", "two_way_5")


@dataclass(frozen=True)
class Episode:
    """Ids of a test photo, of ``SHOTS`` others of its class, and of ``SHOTS`` photos of another class."""

    test: str
    positives: tuple[str, ...]
    negatives: tuple[str, ...]

    @property
    def photos(self) -> tuple[str, ...]:
        """All of them, in this order."""
        return (self.test, *self.positives, *self.negatives)


def draw(table: ImageTable, judged: Collection[str], count: int) -> list[Episode]:
    """At most ``count`` episodes, each of another test photo; these are drawn from ``judged``, supports from the whole table.

    A class of fewer than ``SHOTS`` photos supports nothing, one of as many tests nothing. Nothing to draw is an error.
    """
    members: dict[int, list[str]] = defaultdict(list)
    for name, label in sorted(zip(table.ids, table.labels.tolist(), strict=True)):
        members[label].append(name)
    members = {label: names for label, names in members.items() if len(names) >= SHOTS}
    photos = zip(table.ids, table.keys, table.labels.tolist(), strict=True)
    possible = {
        (seeds.key(*key), name): label
        for name, key, label in photos
        if name in judged and len(members.get(label, ())) > SHOTS
    }
    if not possible or len(members) < 2:
        raise UserError(
            f"There is no episode to draw: it takes a test photo whose object is known, {SHOTS} others of its class and"
            f" {SHOTS} of another class. Give the test split more photos a class, or set segmentation.episodes to null."
        )
    order = sorted(possible, key=lambda photo: seeds.number(seeds.key("episode", photo[0])))
    episodes = []
    for key, name in order[:count]:
        drawn, label = seeds.generator("supports", key), possible[key, name]
        others = [other for other in members[label] if other != name]
        labels = sorted(members.keys() - {label})
        strangers = members[labels[int(drawn.integers(len(labels)))]]
        positives, negatives = (
            tuple(group[i] for i in drawn.choice(len(group), SHOTS, replace=False))
            for group in (others, strangers)
        )
        episodes.append(Episode(name, positives, negatives))
    return episodes
