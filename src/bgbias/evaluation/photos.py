"""The photos of one evaluation, decoded once each and seen in every view."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bgbias import plugins
from bgbias.backgrounds.draws import Pool
from bgbias.compute.workers import make_in_workers
from bgbias.evaluation import conditions
from bgbias.evaluation.conditions import View
from bgbias.images import pixels
from bgbias.images.composite import CutOut
from bgbias.photos.picture_cache import Pictures, check_mask
from bgbias.photos.places import Places
from bgbias.photos.table import ImageTable


@dataclass(frozen=True)
class EvaluationPhotos:
    """A split as evaluation shows it to a model with this short side and crop, with what its conditions need. ``same_view``:
    photos that show what another one of the split shows, by name.
    """

    table: ImageTable
    photos: Pictures
    size: int
    masks: Pictures | None = None
    usable: frozenset[str] = frozenset()
    backgrounds: Pool | None = None
    inpainted: Pictures | None = None
    same_view: Mapping[str, str] = field(default_factory=dict)
    second_masks: Pictures | None = None

    def clean(self, image_id: str) -> np.ndarray:
        """The centre crop, uint8 [S, S, 3]."""
        return pixels.centre_crop(self.photos.get(image_id), self.size)

    def mask(self, image_id: str) -> np.ndarray:
        """The mask's centre crop, uint8 [S, S]; a mask of another size than its photo's is an error."""
        if self.masks is None:
            raise ValueError("these photos were opened without masks")
        mask = self.masks.get(image_id)
        check_mask(image_id, mask.shape, self.photos.get(image_id).shape)
        return pixels.centre_crop(mask, self.size)

    def photo(self, row: int) -> Photo:
        """The photo in a row of the table."""
        return Photo(self, row, *self._named[row])

    def views(
        self, views: Sequence[View], workers: int = 1, rows: Sequence[int] | None = None
    ) -> Generator[np.ndarray, None, None]:
        """For each photo in turn, the views that are asked for, uint8 [S, S, 3] each; of the table's ``rows`` alone if given.

        Where a condition needs masks, a photo without a trusted one stays as it is. ``workers`` processes make the views, in
        the same order; one worker is this process. A condition that needs what these photos were opened without is a ValueError.
        """
        self.require(views)
        modules = [(plugins.load("conditions", name), draw) for name, draw in views]
        if any(hasattr(condition, "donor") for condition, _ in modules):
            _ = self.originals  # once, and not in each of the workers

        def of_photo(row: int) -> Iterator[np.ndarray]:
            photo = self.photo(row)
            for condition, draw in modules:
                is_kept = "masks" in condition.NEEDS and not photo.trusted
                yield photo.view if is_kept else condition.view(photo, draw)

        selected = range(len(self.table)) if rows is None else rows
        made: Iterator[Iterable[np.ndarray]] = map(of_photo, selected)
        if workers > 1:
            made = make_in_workers(lambda n: [*of_photo(selected[n])], len(selected), workers)
        yield from itertools.chain.from_iterable(made)

    def require(self, views: Sequence[View]) -> None:
        """ValueError if these photos were opened without what a condition needs."""
        for need in sorted(conditions.needs(name for name, _ in views)):
            if getattr(self, need) is None:
                raise ValueError(f"these photos were opened without {need}")

    def with_masks(self, views: Sequence[View]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Photo by photo, for each view: what a mask of it is called, the picture uint8 [S, S, 3], and the mask uint8 [S, S] that
        it was made with; nothing is object where there is none.
        """
        stream = self.views(views)
        for photo in map(self.photo, range(len(self.table))):
            for condition, draw in views:
                picture = next(stream)
                mask = photo.mask if photo.trusted else np.zeros(picture.shape[:2], np.uint8)
                yield f"{condition}/{draw}/{photo.image_id}", picture, mask

    def donors(self, views: Sequence[View]) -> dict[View, np.ndarray]:
        """Of the views with another photo's background: that photo's row, int64 [N]; a photo's own where it lends itself."""
        donors = {}
        for name, draw in views:
            if donor := getattr(plugins.load("conditions", name), "donor", None):
                photos = map(self.photo, range(len(self.table)))
                rows = [donor(photo, draw).row if photo.trusted else photo.row for photo in photos]
                donors[name, draw] = np.array(rows, np.int64)
        return donors

    @cached_property
    def originals(self) -> np.ndarray:
        """The first row that looks the same, by its pixels or ``same_view``, int64 [N]: a photo's own, unless it is a copy."""
        first: dict[bytes, int] = {}
        pictures = (self.clean(self.same_view.get(image_id, image_id)) for image_id in self.table.ids)
        sums = (hashlib.sha256(picture.tobytes()).digest() for picture in pictures)
        return np.array([first.setdefault(digest, row) for row, digest in enumerate(sums)], np.int64)

    @cached_property
    def places(self) -> Places | None:
        """Where the photos were taken; None unless some class was seen in two places."""
        names = self.table.places
        return None if names is None else Places.of(names, self.table.labels, self.table.keys)

    @cached_property
    def trusted(self) -> np.ndarray:
        """The rows of photos with a trusted mask, int64 [n]."""
        return np.flatnonzero(np.isin(self.table.ids, list(self.usable)))

    @cached_property
    def trusted_of_class(self) -> dict[int, np.ndarray]:
        """The same by class, in the order of the classes' numbers; none where a class has none."""
        labels = self.table.labels
        return {int(label): self.trusted[labels[self.trusted] == label] for label in np.unique(labels)}

    @cached_property
    def _named(self) -> list[tuple[str, tuple[str, str], int]]:
        return list(zip(self.table.ids, self.table.keys, self.table.labels.tolist(), strict=True))


@dataclass(frozen=True)
class Photo:
    """A photo as conditions get it; its pictures are read when they are asked for, and the split's others are at hand. ``key``
    (key_set, key_item) names all that is drawn for it.
    """

    split: EvaluationPhotos
    row: int
    image_id: str
    key: tuple[str, str]
    label: int

    @property
    def trusted(self) -> bool:
        return self.image_id in self.split.usable

    @cached_property
    def view(self) -> np.ndarray:
        """The centre crop, uint8 [S, S, 3]."""
        return self.split.clean(self.image_id)

    @cached_property
    def mask(self) -> np.ndarray:
        """The mask's centre crop, uint8 [S, S], as soft as it came."""
        return self.split.mask(self.image_id)

    @property
    def second_mask(self) -> np.ndarray:
        """The same by another segmentation model; needs ``second_masks``."""
        assert self.split.second_masks is not None  # NEEDS says so
        return pixels.centre_crop(self.split.second_masks.get(self.image_id), self.split.size)

    @cached_property
    def surroundings(self) -> np.ndarray:
        """The view without its object: where that stood, what may have stood behind it, uint8 [S, S, 3]; needs ``inpainted``."""
        assert self.split.inpainted is not None  # NEEDS says so
        return pixels.centre_crop(self.split.inpainted.get(self.image_id), self.split.size)

    def background(self, draw: int) -> np.ndarray:
        """The background that its key and the number of a draw name, uint8 [S, S, 3]; needs ``backgrounds``."""
        pool = self.split.backgrounds
        assert pool is not None  # NEEDS says so
        return pool.picture(pool.draw(self.key, draw), self.split.size)

    def lender(self, donor: Callable[[Photo, int], Photo], draw: int) -> Photo:
        """The photo whose surroundings a condition's ``donor`` takes in a draw."""
        return donor(self, draw)

    @cached_property
    def foreground(self) -> CutOut:
        """The object, cut out once for all the backgrounds that it is put before."""
        return CutOut(self.view, self.mask)
