"""Test photos as models see them, clean and on other backgrounds, each with the mask of its object."""

from collections.abc import Iterator, Sequence

import numpy as np

from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND, View
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.files.store import ImageStore
from bgbias.masks import policy as masking
from bgbias.masks.settings import MaskPolicy


def views_of(draws: int) -> tuple[View, ...]:
    """The photo as it is, and on so many other backgrounds."""
    return ((CLEAN, 0), *((RANDOM_BACKGROUND, draw) for draw in range(draws)))


def name(view: View, image_id: str) -> str:
    """What the mask of a photo in a view is called."""
    return f"{view[0]}/{view[1]}/{image_id}"


def pictures(photos: EvaluationPhotos, views: Sequence[View]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Photo by photo: the name of each view's mask, the picture uint8 [S, S, 3], and the mask uint8 [S, S] that it was made
    with; nothing is object where there is none.
    """
    stream = photos.views(views)
    for row, image_id in enumerate(photos.table.ids):
        photo = photos.photo(row)
        for view in views:
            picture = next(stream)
            mask = photo.mask if photo.trusted else np.zeros(picture.shape[:2], np.uint8)
            yield name(view, image_id), picture, mask


def masked_views(
    photos: EvaluationPhotos, view: View, masks: ImageStore, policy: MaskPolicy
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Each photo with the mask found in its view, as the policy uses it; None outside its areas."""
    for mask_name, picture, _ in pictures(photos, [view]):
        mask = masks.array(mask_name, "L")
        trusted = policy.keep_all or policy.min_area <= mask.mean() / 255 <= policy.max_area
        yield picture, masking.as_used(mask, policy) if trusted else None
