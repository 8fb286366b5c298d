"""Embeddings of an audit: what is missing comes in one stream, what no working model gives is refused, and a guess is tried."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from in_memory import table
from PIL import Image
from torch import nn

from bgbias import seeds
from bgbias.auditing import embedding
from bgbias.auditing.embedding import (
    equal_vectors,
    refuse_another_order,
    refuse_constant,
)
from bgbias.auditing.photos import PhotoCollection, choose, look_at
from bgbias.auditing.preparations import compare
from bgbias.auditing.resumable import ResumableRows, count_missing
from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN, View
from bgbias.models.adapters import Options, load
from bgbias.models.adapters._calls import USUAL, BatchSize

ASKED: list[View] = [("clean", 0), ("random_background", 1)]
AT_ONCE = USUAL // len(ASKED)  # photos
PHOTOS = 3 * AT_ONCE + 5


class Stub:
    """Photos whose views are numbers, and which remember who asked."""

    def __init__(self) -> None:
        self.table = table({f"photo {row}": row for row in range(PHOTOS)})
        self.asked: list[tuple[int, Sequence[int]]] = []

    def views(
        self, asked: Sequence[View], workers: int, rows: Sequence[int]
    ) -> Generator[np.ndarray, None, None]:
        self.asked.append((workers, rows))
        yield from (np.array([row, draw, 1.0]) for row in rows for _, draw in asked)


def test_a_gap_is_filled_from_one_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "workers", lambda device, photos: photos // 10)
    told = list[int]()
    monkeypatch.setattr(embedding, "showing", lambda count, label: nullcontext(told.append))
    model = SimpleNamespace(
        device="cuda", name="model", dim=3, embed=lambda views: views, batch=BatchSize(), workers=None
    )
    photos = Stub()
    there = ResumableRows(tmp_path, embedding.VIEWS, np.float32, (len(ASKED), PHOTOS, 3), axis=1)
    there[range(AT_ONCE, 2 * AT_ONCE)] = 0
    views = embedding.embed_views(model, photos, ASKED, tmp_path)  # type: ignore[arg-type]
    missing = [*range(AT_ONCE), *range(2 * AT_ONCE, PHOTOS)]
    assert photos.asked == [(len(missing) // 10, missing)]
    assert told == [AT_ONCE, AT_ONCE, 5]
    for view in ASKED:
        expected = np.array([[row, view[1], 1.0] for row in range(PHOTOS)])
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        expected[AT_ONCE : 2 * AT_ONCE] = 0  # was said to be there
        np.testing.assert_allclose(views[view], expected, rtol=1e-6)
    assert count_missing(tmp_path, embedding.VIEWS, PHOTOS) == 0


def test_rows_that_are_there_are_there_for_the_next_process(tmp_path: Path) -> None:
    rows = ResumableRows(tmp_path, "vectors", np.float32, (4, 2))
    assert rows.missing == [0, 1, 2, 3]
    rows[2] = [1, -2]
    again = ResumableRows(tmp_path, "vectors", np.float32, (4, 2))
    assert again.missing == [0, 1, 3]
    np.testing.assert_array_equal(again.values, [[0, 0], [0, 0], [1, -2], [0, 0]])
    # Of as many rows of another array nothing is there.
    assert ResumableRows(tmp_path, "vectors", np.float32, (4, 3)).missing == [0, 1, 2, 3]


def test_a_row_that_could_not_be_filled_is_missing(tmp_path: Path) -> None:
    rows = ResumableRows(tmp_path, "vectors", np.float32, (2, 2))
    with pytest.raises(ValueError, match="shape"):
        rows[0] = [1, 2, 3]
    assert rows.missing == [0, 1]


COUNT = 60
IDS = [f"{row:02}.jpg" for row in range(COUNT)]


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def views(of_object: float) -> dict[View, np.ndarray]:
    """Of a model that looks at the object so much, and else at the background."""
    random = seeds.generator("vectors", of_object)
    objects, own, others = (unit(random.normal(size=(COUNT, 16))) for _ in range(3))

    def seen(background: np.ndarray) -> np.ndarray:
        noise = 0.05 * random.normal(size=(COUNT, 32))
        return unit(np.hstack([of_object * objects, (1 - of_object) * background]) + noise)

    return {
        (CLEAN, 0): seen(own),
        ("own_inpainted", 0): seen(own),
        ("random_background", 0): seen(others),
        ("random_background", 1): seen(others[::-1]),
        ("only_bg", 0): unit(random.normal(size=(COUNT, 32))),
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
    vectors = unit(seeds.generator("ties").normal(size=(COUNT, 8)))
    refuse_constant(vectors, "a model")
    assert equal_vectors(vectors) == 0
    vectors[:20] = vectors[0]
    vectors[30:32] = vectors[30]
    refuse_constant(vectors, "a model")
    assert equal_vectors(vectors) == 22
    vectors[:40] = vectors[0]
    with pytest.raises(UserError, match="a model gives 40 of 60 photos the same embedding"):
        refuse_constant(vectors, "a model")


HALF = "--mean 0.5 0.5 0.5 --std 0.5 0.5 0.5"


class Bright(nn.Module):
    """Trained on colours in -1..1: it knows no others, as if what is brighter were white."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3)).clamp(-1, 1) - 0.5


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> PhotoCollection:
    """Eight classes of bright colours."""
    place, random = tmp_path_factory.mktemp("bright"), seeds.generator("bright")
    for number in range(8):
        colour = random.integers(190, 250, 3)
        for photo in range(4):
            picture = np.clip(colour + random.integers(-5, 6, (32, 32, 3)), 0, 255).astype(np.uint8)
            path = place / f"class {number}" / f"{photo}.png"
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(picture).save(path)
    return look_at(choose(str(place), None, None, None, None))


def test_a_preparation_that_finds_clearly_more_is_named(collection: PhotoCollection) -> None:
    model = load(Bright(), Options(size=32, device="cpu"))
    found = compare(model, collection)
    assert found.better == HALF
    assert found.photos == 32
    (sentence,) = found.sentences
    assert (
        f"On 32 photos the model finds clearly more with {HALF}: MAP@R {100 * found.map_at_r[HALF]:.1f} %"
        in sentence
    )
    assert compare(model, collection) == found


def test_the_numbers_are_those_of_a_model_that_is_told(collection: PhotoCollection) -> None:
    told = load(Bright(), Options(size=32, mean=(0.5,) * 3, std=(0.5,) * 3, device="cpu"))
    guessed = load(Bright(), Options(size=32, device="cpu"))
    views = np.stack([guessed.look(np.full((40, 40, 3), level, np.uint8)) for level in (30, 200)])
    np.testing.assert_array_equal(guessed.alternatives[HALF](views), told.vectors(views))
    assert not compare(told, collection).map_at_r, "nothing was guessed"


def test_a_preparation_that_finds_as_much_is_not_named(collection: PhotoCollection) -> None:
    """A mean colour says as much, however it is scaled."""
    found = compare(load(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), Options(size=32)), collection)
    assert found.better is None
    assert not found.sentences
    assert len(found.map_at_r) == 4


def test_photos_without_classes_say_nothing(collection: PhotoCollection, tmp_path: Path) -> None:
    Image.new("RGB", (40, 40), "red").save(tmp_path / "one.png")
    Image.new("RGB", (40, 40), "blue").save(tmp_path / "two.png")
    unlabelled = look_at(choose(str(tmp_path), None, None, None, None))
    assert not compare(load(Bright(), Options(size=32)), unlabelled).map_at_r
