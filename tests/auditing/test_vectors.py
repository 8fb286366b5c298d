"""Embeddings that no working model gives are refused, and so are those in another order than the photos."""

from __future__ import annotations

import numpy as np
import pytest

from bgbias import seeds
from bgbias.auditing.embedding import equal_vectors, refuse_another_order, refuse_constant
from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN, View

PHOTOS = 60
IDS = [f"{row:02}.jpg" for row in range(PHOTOS)]


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def views(of_object: float) -> dict[View, np.ndarray]:
    """Of a model that looks at the object so much, and else at the background."""
    random = seeds.generator("vectors", of_object)
    objects, own, others = (unit(random.normal(size=(PHOTOS, 16))) for _ in range(3))

    def seen(background: np.ndarray) -> np.ndarray:
        noise = 0.05 * random.normal(size=(PHOTOS, 32))
        return unit(np.hstack([of_object * objects, (1 - of_object) * background]) + noise)

    return {
        (CLEAN, 0): seen(own),
        ("own_inpainted", 0): seen(own),
        ("random_background", 0): seen(others),
        ("random_background", 1): seen(others[::-1]),
        ("only_bg", 0): unit(random.normal(size=(PHOTOS, 32))),
    }


@pytest.mark.parametrize("of_object", [0.0, 0.3, 0.7, 1.0])
def test_models_that_look_anywhere_are_taken(of_object: float) -> None:
    refuse_another_order(views(of_object), IDS)


@pytest.mark.parametrize("of_object", [0.0, 0.5, 1.0])
def test_photos_in_another_order_are_refused_by_name(of_object: float) -> None:
    vectors = views(of_object)
    with pytest.raises(UserError, match=r"clean-0 and own_inpainted-0 are not of the same photos .* 00\.jpg"):
        refuse_another_order(vectors | {(CLEAN, 0): vectors[CLEAN, 0][::-1]}, IDS)


def test_one_view_in_another_order_is_refused_where_others_show_the_object() -> None:
    vectors = views(0.7)
    wrong = vectors | {("random_background", 1): np.roll(vectors["random_background", 1], 1, axis=0)}
    with pytest.raises(UserError, match="clean-0 and random_background-1"):
        refuse_another_order(wrong, IDS)


def test_one_vector_for_most_photos_is_refused_and_fewer_are_counted() -> None:
    vectors = unit(seeds.generator("ties").normal(size=(PHOTOS, 8)))
    refuse_constant(vectors, "a model")
    assert equal_vectors(vectors) == 0
    vectors[:20] = vectors[0]
    vectors[30:32] = vectors[30]
    refuse_constant(vectors, "a model")
    assert equal_vectors(vectors) == 22
    vectors[:40] = vectors[0]
    with pytest.raises(UserError, match="a model gives 40 of 60 photos the same embedding"):
        refuse_constant(vectors, "a model")
