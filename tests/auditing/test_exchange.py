"""Embeddings that come back from elsewhere: those that cannot be used are told with the view, the shape and the row."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bgbias.auditing import exchange, workdir
from bgbias.auditing.config import OF_CLASSES, AuditConfig, Question
from bgbias.errors import UserError
from bgbias.evaluation.across_places import LENT
from bgbias.evaluation.conditions import CLEAN
from bgbias.models.adapters import Options, load

VIEWS = ((CLEAN, 0), ("only_fg", 0))


def with_row(value: float) -> np.ndarray:
    array = np.ones((3, 4))
    array[1] = value
    return array


def test_vectors_have_unit_length(tmp_path: Path) -> None:
    np.save(tmp_path / "clean.npy", np.full((3, 4), 2.0))
    np.savez(tmp_path / "views.npz", **{"only_fg-0": np.eye(3, 4)})
    found = exchange.read(tmp_path / "clean.npy", tmp_path / "views.npz", VIEWS, 3)
    assert found[CLEAN, 0].tolist() == [[0.5] * 4] * 3
    assert found["only_fg", 0].tolist() == np.eye(3, 4).tolist()


@pytest.mark.parametrize(
    ("clean", "other", "words"),
    [
        (np.ones(3), np.ones((3, 4)), r"clean-0 are \[3\], where \[3, D\] is expected"),
        (np.ones((2, 4)), np.ones((3, 4)), r"clean-0 are \[2, 4\], where \[3, 4\] is expected"),
        (np.ones((3, 4)), np.ones((3, 5)), r"only_fg-0 are \[3, 5\], where \[3, 4\] is expected"),
        (with_row(np.nan), np.ones((3, 4)), r"clean-0 .* in row 1 of photos.csv"),
        (np.ones((3, 4)), with_row(0), r"only_fg-0 .* in row 1 of photos.csv"),
        (np.ones((3, 4), complex), np.ones((3, 4)), "clean-0 are no numbers but complex128"),
    ],
)
def test_what_cannot_be_used_is_told(
    tmp_path: Path, clean: np.ndarray, other: np.ndarray, words: str
) -> None:
    np.save(tmp_path / "clean.npy", clean)
    np.savez(tmp_path / "views.npz", **{"only_fg-0": other})
    with pytest.raises(UserError, match=words):
        exchange.read(tmp_path / "clean.npy", tmp_path / "views.npz", VIEWS, 3)


def test_embeddings_that_were_saved_are_read_again_with_the_models_look(tmp_path: Path) -> None:
    """And count as an answer to their question on this computer."""
    model = load(lambda batch: [picture.mean((0, 1)) for picture in batch], Options(size=40, resize=44))
    vectors = {view: np.eye(3, 4, k, dtype=np.float32) for k, view in enumerate(VIEWS)}
    with pytest.raises(UserError, match="No pictures were exported for this question"):
        workdir.check_exported("question")
    exchange.write(tmp_path / "saved", vectors, model, "question")
    clean, views = tmp_path / "saved" / "clean.npy", tmp_path / "saved" / "views.npz"
    found = exchange.read(clean, views, VIEWS, 3)
    for view in VIEWS:
        np.testing.assert_array_equal(found[view], vectors[view])
    again = exchange.make_stand_in(Options(), clean)
    assert (again.name, again.look) == (model.name, model.look)
    workdir.check_exported("question")
    with pytest.raises(UserError, match=r"--size means nothing to .*model.json, which says how"):
        exchange.make_stand_in(Options(size=32), clean)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    clean, views = tmp_path / "clean.npy", tmp_path / "views.npz"
    np.save(clean, np.ones((3, 4)))
    np.savez(views, **{"no_fg-0": np.ones((3, 4))})
    with pytest.raises(UserError, match=r"views\.npz lacks only_fg-0; it has no_fg-0"):
        exchange.read(clean, views, VIEWS, 3)
    with pytest.raises(
        UserError, match=r"views\.npz cannot be read as embeddings \(it holds several arrays\)"
    ):
        exchange.read(views, clean, VIEWS, 3)


def test_pictures_of_another_question_are_not_mixed_with_these(tmp_path: Path) -> None:
    for _ in range(2):
        workdir.begin_export(tmp_path, "this")
    with pytest.raises(
        UserError, match="holds the pictures of another question; name another folder by --export"
    ):
        workdir.begin_export(tmp_path, "another")


def test_photos_without_classes_are_seen_in_no_condition_that_needs_them() -> None:
    assert conditions(labelled=True) >= OF_CLASSES
    assert not conditions(labelled=False) & OF_CLASSES


def test_photos_of_two_places_are_seen_on_backgrounds_of_places() -> None:
    assert conditions(labelled=True, is_across_places=True) - conditions(labelled=True) == set(LENT)


def conditions(labelled: bool, is_across_places: bool = False) -> set[str]:
    collection: Any = SimpleNamespace(labelled=labelled, is_across_places=is_across_places)
    return {name for name, _ in Question(collection, None, SimpleNamespace(), AuditConfig()).views}
