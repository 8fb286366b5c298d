"""Embeddings of an audit: those that are there stay, what is brought is checked, and a guessed preparation is tried."""

from pathlib import Path

import numpy as np
import pytest
import torch
from miniatures import as_folder
from rankings import random_unit, unit
from torch import nn

from bgbias import seeds
from bgbias.auditing import exchange, workdir
from bgbias.auditing.embedding import equal_vectors, refuse_another_order, refuse_constant
from bgbias.auditing.preparations import compare
from bgbias.auditing.resumable import ResumableRows
from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN, View
from bgbias.images.pixels import encode_png
from bgbias.models.adapters import Options, load
from tests.support.collected import collect


def test_rows_that_are_there_are_there_for_the_next_process(tmp_path: Path) -> None:
    rows = ResumableRows(tmp_path, "vectors", np.float32, (4, 2))
    rows[2] = [1, -2]
    with pytest.raises(ValueError, match="shape"):
        rows[0] = [1, 2, 3]
    again = ResumableRows(tmp_path, "vectors", np.float32, (4, 2))
    assert again.missing == [0, 1, 3]
    np.testing.assert_array_equal(again.values, [[0, 0], [0, 0], [1, -2], [0, 0]])
    # Of as many rows of another array nothing is there.
    assert ResumableRows(tmp_path, "vectors", np.float32, (4, 3)).missing == [0, 1, 2, 3]


COUNT = 60
IDS = [f"{row:02}.jpg" for row in range(COUNT)]


@pytest.mark.parametrize("of_object", [0.0, 0.7, 1.0])
def test_photos_in_another_order_are_refused_wherever_a_model_looks(of_object: float) -> None:
    """At the object so much, and else at the background."""
    random = seeds.generator("vectors", of_object)
    objects, own, others = random_unit(0, 3, COUNT, 16)

    def embed(background: np.ndarray) -> np.ndarray:
        seen = np.hstack([of_object * objects, (1 - of_object) * background])
        return unit(seen + 0.05 * random.normal(size=seen.shape))

    vectors: dict[View, np.ndarray] = {
        (CLEAN, 0): embed(own),
        ("own_inpainted", 0): embed(own),
        ("random_background", 0): embed(others),
        ("random_background", 1): embed(others[::-1]),
        ("only_bg", 0): random_unit(1, COUNT, 32),
    }
    refuse_another_order(vectors, IDS)
    with pytest.raises(UserError, match=r"clean-0 and own_inpainted-0 are not of the same photos .* 00\.jpg"):
        refuse_another_order(vectors | {(CLEAN, 0): vectors[CLEAN, 0][::-1]}, IDS)
    if of_object:  # else no photo is found on another background, in any order
        moved = np.roll(vectors["random_background", 1], 1, axis=0)
        with pytest.raises(UserError, match="clean-0 and random_background-1"):
            refuse_another_order(vectors | {("random_background", 1): moved}, IDS)


def test_one_vector_for_most_photos_is_refused_and_fewer_are_counted() -> None:
    vectors = random_unit(0, COUNT, 8)
    vectors[:20] = vectors[0]
    vectors[30:32] = vectors[30]
    refuse_constant(vectors, "a model")
    assert equal_vectors(vectors) == 22
    vectors[:40] = vectors[0]
    with pytest.raises(UserError, match="a model gives 40 of 60 photos the same embedding"):
        refuse_constant(vectors, "a model")


VIEWS = ((CLEAN, 0), ("only_fg", 0))
ONES = np.ones((3, 4))


@pytest.mark.parametrize(
    ("clean", "others", "words"),
    [
        (np.ones((2, 4)), {}, r"clean-0 are \[2, 4\], where \[3, 4\] is expected"),
        (np.ones(3), {}, r"clean-0 are \[3\], where \[3, D\] is expected"),
        (np.full((3, 4), np.nan), {}, r"clean-0 .* in row 0 of photos.csv"),
        (np.ones((3, 4), complex), {}, "clean-0 are no numbers but complex128"),
        (ONES, {"only_fg-0": np.eye(3, 4, 2)}, r"only_fg-0 .* in row 2 of photos.csv"),
        (ONES, {"no_fg-0": ONES}, r"views\.npz lacks only_fg-0; it has no_fg-0"),
    ],
)
def test_brought_embeddings_that_cannot_be_used_are_told(
    tmp_path: Path, clean: np.ndarray, others: dict[str, np.ndarray], words: str
) -> None:
    paths = tmp_path / "clean.npy", tmp_path / "views.npz"
    np.save(paths[0], clean)
    np.savez(paths[1], **others or {"only_fg-0": ONES})  # type: ignore[arg-type]
    with pytest.raises(UserError, match=words):
        exchange.read(*paths, VIEWS, 3)
    with pytest.raises(UserError, match=r"views\.npz cannot be read as .* \(it holds several arrays\)"):
        exchange.read(*paths[::-1], VIEWS, 3)


def test_saved_embeddings_are_read_again_at_unit_length_with_the_models_look(tmp_path: Path) -> None:
    """And count as an answer to their question on this computer; pictures of another one are not mixed with its own."""
    model = load(lambda batch: [picture.mean((0, 1)) for picture in batch], Options(size=40, resize=44))
    vectors = {view: np.eye(3, 4, k, dtype=np.float32) for k, view in enumerate(VIEWS)}
    with pytest.raises(UserError, match="No pictures were exported for this question"):
        workdir.check_exported("question")
    exchange.write(tmp_path, {view: 2 * array for view, array in vectors.items()}, model, "question")
    clean = tmp_path / "clean.npy"
    found = exchange.read(clean, tmp_path / "views.npz", VIEWS, 3)
    for view in VIEWS:
        np.testing.assert_array_equal(found[view], vectors[view])
    again = exchange.make_stand_in(Options(), clean)
    assert (again.name, again.look) == (model.name, model.look)
    workdir.check_exported("question")
    with pytest.raises(UserError, match=r"--size means nothing to .*model.json, which says how"):
        exchange.make_stand_in(Options(size=32), clean)
    for _ in range(2):
        workdir.begin_export(tmp_path, "question")
    with pytest.raises(UserError, match="holds the pictures of another question; name another folder by"):
        workdir.begin_export(tmp_path, "another")


HALF = "--mean 0.5 0.5 0.5 --std 0.5 0.5 0.5"


class Bright(nn.Module):
    """Trained on colours in -1..1: it knows no others, as if what is brighter were white."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3)).clamp(-1, 1) - 0.5


def test_a_preparation_that_finds_clearly_more_is_named(tmp_path: Path) -> None:
    """Of eight classes of bright colours; a mean colour says as much, however it is scaled."""
    random, files = seeds.generator("bright"), dict[str, bytes]()
    for number in range(8):
        colour = random.integers(190, 250, 3)
        for photo in range(4):
            picture = np.clip(colour + random.integers(-5, 6, (32, 32, 3)), 0, 255).astype(np.uint8)
            files[f"class {number}/{photo}.png"] = encode_png(picture)
    collection = collect(as_folder(tmp_path / "bright", files))
    guessed = load(Bright(), Options(size=32, device="cpu"))
    told = load(Bright(), Options(size=32, mean=(0.5,) * 3, std=(0.5,) * 3, device="cpu"))
    views = np.stack([guessed.look(np.full((40, 40, 3), level, np.uint8)) for level in (30, 200)])
    np.testing.assert_array_equal(guessed.alternatives[HALF](views), told.vectors(views))
    found = compare(guessed, collection)
    assert (found.better, found.photos) == (HALF, 32)
    percent = 100 * found.map_at_r[HALF]
    (sentence,) = found.sentences
    assert f"On 32 photos the model finds clearly more with {HALF}: MAP@R {percent:.1f} %" in sentence
    assert not compare(told, collection).map_at_r, "nothing was guessed"
    mean = load(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), Options(size=32))
    found = compare(mean, collection)
    assert (found.better, found.sentences, len(found.map_at_r)) == (None, [], 4)
