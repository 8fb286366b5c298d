"""The masks of an audit's photos: those that somebody drew, those that are kept from before, and those that are to be made."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from bgbias.auditing.masker import NamedMasker
from bgbias.auditing.photos import PhotoCollection
from bgbias.auditing.prepared import Prepared
from bgbias.errors import UserError
from bgbias.images import drawn_masks, pixels
from bgbias.masks import quality
from bgbias.masks.policy import Mask

AT_ONCE = 16  # photos in memory, decoded
BY_HAND = "drawn by hand"
FIRST = 8  # photos to warm up by: as many as the networks take at once
TRIED = 8  # photos by whose time that of all is told


class Masks:
    """Of every photo of ``collection``; ``masker`` None: each came with its own."""

    def __init__(self, collection: PhotoCollection, masker: NamedMasker | None) -> None:
        self._collection, self._masker = collection, masker
        self._kept = masker.kept(collection.upright) if masker else None

    @property
    def missing(self) -> list[str]:
        """Photos whose masks are to be made; nothing is decoded for it."""
        return [
            i
            for i in self._collection.table.ids
            if not self._collection.has_truth(i) and not self._is_kept(i)
        ]

    @property
    def makers(self) -> str:
        """Who made them."""
        ids = self._collection.table.ids
        drawn = sum(map(self._collection.has_truth, ids))
        if self._masker is None:
            return f"{drawn} {BY_HAND}"
        named = self._masker.name
        return f"{drawn} {BY_HAND}, {len(ids) - drawn} by {named}" if drawn else named

    def seconds_each(self) -> float:
        """What a mask takes, of a few of those that are missing, which are there now; next to 0 if all are."""
        missing = self.missing[: FIRST + TRIED]
        self._make(missing[:FIRST])
        began = time.perf_counter()
        self._make(missing[FIRST:])
        return (time.perf_counter() - began) / max(1, len(missing) - FIRST)

    def make(self, ids: Sequence[str], done: Callable[[int], None]) -> None:
        """Mask photos and keep each mask; two photos of the same bytes have one. ``done`` is told how many more are there."""
        for start in range(0, len(ids), AT_ONCE):
            some = ids[start : start + AT_ONCE]
            self._make(some)
            done(len(some))

    def of(self, image_id: str) -> Mask | None:
        """A photo's own, else the masker's; None where there is neither."""
        drawn = self._collection.truth(image_id)
        if drawn is not None:
            return Mask(drawn_masks.decode_mask(drawn, f"mask of {image_id}"), math.nan)
        return self._kept.read(self._sum(image_id)) if self._kept else None

    def _make(self, ids: Sequence[str]) -> None:
        new = {self._sum(i): i for i in ids if not self._is_kept(i)}
        if new and self._kept is not None:
            photos = [pixels.decode(self._collection.read(i), i) for i in new.values()]
            for key, mask in zip(new, self._network(photos), strict=True):
                self._kept.keep(key, mask)

    @cached_property
    def _network(self) -> Callable[[Sequence[np.ndarray]], list[Mask]]:
        assert self._masker is not None
        return self._masker.make()

    def _is_kept(self, image_id: str) -> bool:
        # Without a masker there is nothing to wait for.
        return self._kept is None or self._sum(image_id) in self._kept

    def _sum(self, image_id: str) -> str:
        return self._collection.sums[image_id][0]


def trusted(prepared: Prepared, usable: frozenset[str], ids: Sequence[str]) -> tuple[str, ...]:
    """What is to be said of masks; none that can be trusted is an error."""
    masks, count = prepared.qualities, len(ids)
    empty, full = int(masks["empty"].sum()), int(masks["full"].sum())
    why = (
        (empty, "whose mask is empty"),
        (full, "whose mask covers the whole photo"),
        (count - len(masks), "without one"),
    )
    lost = ", ".join(f"{number} {what}" for number, what in why if number)
    if len(usable) < 2:
        raise UserError(
            f"Of {count} photos {len(usable)} have a mask that can be trusted: {lost}. Name another masker by --masker, or draw"
            " masks and name their folder by --masks."
        )
    told = []
    if len(usable) < count:
        told.append(
            f"{count - len(usable)} of {count} photos cannot be queries, since the object is not known: {lost}"
        )
    seen = prepared.masks
    unseen = sum(seen.get(i).mean() / 255 < quality.EMPTY_BELOW for i in usable)
    if unseen:
        told.append(
            f"of {unseen} {'photo' if unseen == 1 else 'photos'} the model sees next to nothing of the object: it lies outside of"
            " the crop (--squash)"
        )
    return tuple(told)
