"""Controls take the object or its background away; whose background comes instead depends on names alone."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest
from scipy.ndimage import distance_transform_edt

from bgbias import plugins, seeds
from bgbias.errors import UserError
from bgbias.evaluation import embeddings, scores
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.files.store import writing
from bgbias.images import inpainting, pixels
from bgbias.photos import picture_cache
from bgbias.photos.table import COLUMNS, ImageTable

SIDE, CROP = 40, 32
CLASSES = (3, 3, 3, 5, 5, 8, 8, 8, 8)
UNTRUSTED, ALONE = 7, 3  # photo 7 has no trusted mask; photo 3 is the only trusted one of its class
CONTROLS = ("only_fg", "no_fg", "only_bg", "own_inpainted", "mixed_same", "mixed_rand", "mixed_next")


def picture(n: int, *shape: int) -> np.ndarray:
    return seeds.generator("controls", n, shape).integers(0, 256, shape, dtype=np.uint8)


def mask(n: int) -> np.ndarray:
    """A soft disc somewhere near the middle."""
    y, x = np.mgrid[:SIDE, : SIDE + 4]
    away = np.hypot(y - 18 - n % 3, x - 20 - n % 4)
    return np.rint(255 * np.clip((9 - away) / 4, 0, 1)).astype(np.uint8)


@pytest.fixture
def split(tmp_path: Path) -> EvaluationPhotos:
    with writing(tmp_path / "photos.zip") as photos, writing(tmp_path / "masks.zip") as masks:
        for n in range(len(CLASSES)):
            photos.add(f"{n}.png", pixels.encode_png(picture(n, SIDE, SIDE + 4, 3)))
            masks.add(f"{n}.png", pixels.encode_png(mask(n)))
    rows = [[f"{n}.png", c, "class", "test", "own|test", str(100 + n)] for n, c in enumerate(CLASSES)]
    table = ImageTable(pd.DataFrame(rows, columns=list(COLUMNS)))
    folder = tmp_path / "prepared"
    opened = picture_cache.pictures(tmp_path / "photos.zip", SIDE, folder)
    opened_masks = picture_cache.pictures(tmp_path / "masks.zip", SIDE, folder, "L")
    filled = picture_cache.combined("inpainted", folder, opened, opened_masks, inpainting.remove_object)
    trusted = frozenset(f"{n}.png" for n in range(len(CLASSES)) if n not in (UNTRUSTED, 4))
    return EvaluationPhotos(table, opened, CROP, opened_masks, trusted, inpainted=filled)


def cropped(whole: np.ndarray) -> np.ndarray:
    top, left = (SIDE - CROP) // 2, (SIDE + 4 - CROP) // 2
    return whole[top : top + CROP, left : left + CROP]


def behind(n: int) -> np.ndarray:
    """The photo without its object, by its definition: a hole that reaches 7 pixels beyond the object, filled by Telea."""
    hole = distance_transform_edt(mask(n) <= 127) <= 7
    return cropped(cv2.inpaint(picture(n, SIDE, SIDE + 4, 3), hole.astype(np.uint8), 3, cv2.INPAINT_TELEA))


def pasted(n: int, background: np.ndarray) -> np.ndarray:
    soft = cropped(mask(n))[..., None] / 255
    return np.rint(soft * cropped(picture(n, SIDE, SIDE + 4, 3)) + (1 - soft) * background)


def seen(split: EvaluationPhotos, condition: str, draw: int = 0) -> list[np.ndarray]:
    return list(split.views([(condition, draw)]))


def test_the_object_alone_and_the_photo_without_it_are_mixed_with_grey(split: EvaluationPhotos) -> None:
    for n, (alone, without) in enumerate(zip(seen(split, "only_fg"), seen(split, "no_fg"), strict=True)):
        photo, soft = cropped(picture(n, SIDE, SIDE + 4, 3)).astype(float), cropped(mask(n))[..., None] / 255
        if n in (UNTRUSTED, 4):
            assert np.array_equal(alone, photo)
            continue
        assert np.abs(alone - (soft * photo + (1 - soft) * 127.5)).max() <= 0.501
        assert np.abs(without - ((1 - soft) * photo + soft * 127.5)).max() <= 0.501


def test_own_background_is_filled_where_the_object_stood(split: EvaluationPhotos) -> None:
    for n, (alone, own) in enumerate(zip(seen(split, "only_bg"), seen(split, "own_inpainted"), strict=True)):
        if n not in (UNTRUSTED, 4):
            np.testing.assert_array_equal(alone, behind(n))
            np.testing.assert_allclose(own, pasted(n, behind(n)), atol=1e-9)


@pytest.mark.parametrize("draw", [0, 3])
@pytest.mark.parametrize("condition", ["mixed_same", "mixed_rand", "mixed_next"])
def test_donors_are_those_that_names_say(split: EvaluationPhotos, condition: str, draw: int) -> None:
    trusted = [n for n in range(len(CLASSES)) if n not in (UNTRUSTED, 4)]
    following = {3: 5, 5: 8, 8: 3}
    for n, view in enumerate(seen(split, condition, draw)):
        if n not in trusted:
            np.testing.assert_array_equal(view, cropped(picture(n, SIDE, SIDE + 4, 3)))
            continue
        candidates = {
            "mixed_same": [m for m in trusted if CLASSES[m] == CLASSES[n] and m != n],
            "mixed_rand": [m for m in trusted if CLASSES[m] != CLASSES[n]],
            "mixed_next": [m for m in trusted if CLASSES[m] == following[CLASSES[n]]],
        }[condition]
        name = f"own|test|{condition}|{draw}|{100 + n}".encode()
        u = int.from_bytes(hashlib.sha256(name).digest()[:8], "big")
        # Nobody else of its class: in front of its own.
        donor = candidates[u % len(candidates)] if candidates else n
        assert candidates or (condition, n) == ("mixed_same", ALONE)
        np.testing.assert_allclose(view, pasted(n, behind(donor)), atol=1e-9)


@pytest.mark.parametrize("condition", ["mixed_same", "mixed_rand", "mixed_next"])
def test_a_copy_lends_no_background_to_its_original(tmp_path: Path, condition: str) -> None:
    """Photos 0, 1 and 3 are one, of two classes."""
    with writing(tmp_path / "photos.zip") as store:
        for n, shown in enumerate((0, 0, 2, 0, 4, 5)):
            store.add(f"{n}.png", pixels.encode_png(picture(shown, SIDE, SIDE, 3)))
    rows = [[f"{n}.png", n // 3, "class", "test", "own|test", str(n)] for n in range(6)]
    table = ImageTable(pd.DataFrame(rows, columns=list(COLUMNS)))
    opened = picture_cache.pictures(tmp_path / "photos.zip", SIDE, tmp_path)
    photos = EvaluationPhotos(table, opened, CROP, usable=frozenset(table.ids))
    assert photos.originals.tolist() == [0, 0, 2, 0, 4, 5]
    assert replace(photos, same_view={"4.png": "2.png"}).originals.tolist() == [0, 0, 2, 0, 2, 5]
    donors = np.array(list(photos.donors([(condition, draw) for draw in range(20)]).values()))
    for n, candidates in enumerate(
        {
            "mixed_same": ([2], [2], [0, 1], [4, 5], [3, 5], [3, 4]),
            "mixed_rand": ([4, 5], [4, 5], [3, 4, 5], [2], [0, 1, 2], [0, 1, 2]),
            "mixed_next": ([4, 5], [4, 5], [3, 4, 5], [2], [0, 1, 2], [0, 1, 2]),
        }[condition]
    ):
        assert sorted(set(donors[:, n])) == candidates


def test_another_number_of_threads_shows_the_same(split: EvaluationPhotos) -> None:
    asked = [(name, draw) for name in CONTROLS for draw in (0, 1)]
    for one, several in zip(split.views(asked), split.views(asked, workers=3), strict=True):
        np.testing.assert_array_equal(one, several)


def test_nothing_of_an_objects_rim_is_left() -> None:
    """Soft edges reach beyond the mask's half: whatever colour the object has, what fills its place is the same."""
    photo, soft = picture(0, SIDE, SIDE + 4, 3), mask(0)
    repainted = np.where(soft[..., None] > 0, 255 - photo, photo)
    assert not np.array_equal(repainted, photo)
    np.testing.assert_array_equal(
        inpainting.remove_object(photo, soft), inpainting.remove_object(repainted, soft)
    )


def test_a_photo_that_is_all_object_leaves_grey() -> None:
    photo = picture(1, 12, 12, 3)
    assert np.unique(inpainting.remove_object(photo, np.full((12, 12), 255, np.uint8))).tolist() == [128]


def test_a_condition_without_what_it_needs_is_refused(split: EvaluationPhotos) -> None:
    unfilled = EvaluationPhotos(split.table, split.photos, CROP, split.masks, split.usable)
    with pytest.raises(ValueError, match="without inpainted"):
        list(unfilled.views([("own_inpainted", 0)]))


def test_filled_photos_are_made_once_and_again_with_other_masks(tmp_path: Path) -> None:
    for name, levels in (("masks", 255), ("others", 0)):
        with writing(tmp_path / f"{name}.zip") as store:
            store.add("a.png", pixels.encode_png(np.full((SIDE, SIDE), levels, np.uint8)))
    with writing(tmp_path / "photos.zip") as store:
        for name in "ab":
            store.add(f"{name}.png", pixels.encode_png(picture(0, SIDE, SIDE, 3)))
    photos = picture_cache.pictures(tmp_path / "photos.zip", SIDE, tmp_path)
    calls = []

    def make(photo: np.ndarray, mask: np.ndarray) -> np.ndarray:
        calls.append(int(mask.max()))
        return photo - mask[..., None]

    for name in ("masks", "masks", "others"):
        masks = picture_cache.pictures(tmp_path / f"{name}.zip", SIDE, tmp_path, "L")
        made = picture_cache.combined("made", tmp_path, photos, masks, make)
        assert made.ids == ["a.png"]
    assert calls == [255, 0]
    np.testing.assert_array_equal(made.get("a.png"), photos.get("a.png"))


def test_a_mask_of_another_size_is_told(tmp_path: Path) -> None:
    for name, shape in (("photos", (SIDE, SIDE, 3)), ("masks", (SIDE, SIDE + 9))):
        with writing(tmp_path / f"{name}.zip") as store:
            store.add("a.png", pixels.encode_png(picture(0, *shape)))
    photos = picture_cache.pictures(tmp_path / "photos.zip", SIDE, tmp_path)
    masks = picture_cache.pictures(tmp_path / "masks.zip", SIDE, tmp_path, "L")
    with pytest.raises(UserError, match=r"The mask of 'a\.png' is \(40, 49\), its photo \(40, 40\)"):
        picture_cache.combined("made", tmp_path, photos, masks, inpainting.remove_object)


def test_every_control_says_what_it_is() -> None:
    files = [plugins.load("conditions", name) for name in CONTROLS]
    assert len({file.TITLE for file in files}) == len(CONTROLS)
    assert all("masks" in file.NEEDS for file in files)


def test_who_follows_the_background_is_counted(split: EvaluationPhotos) -> None:
    """The nearest clean photo is of the class that lent the background, and not of the object's."""
    draws = 2
    donors = split.donors([("clean", 0), ("mixed_rand", 0), ("mixed_rand", 1)])
    assert list(donors) == [("mixed_rand", 0), ("mixed_rand", 1)]
    labels, usable = np.array(CLASSES), np.isin(np.arange(len(CLASSES)), split.trusted)
    for draw in range(draws):
        for row in split.trusted:
            donor = plugins.load("conditions", "mixed_rand").donor(split.photo(int(row)), draw)
            assert donors["mixed_rand", draw][row] == donor.row
            assert donor.label != labels[row]
        assert (donors["mixed_rand", draw][~usable] == np.flatnonzero(~usable)).all()
    vectors = seeds.generator("vectors").normal(size=(1 + draws, len(CLASSES), 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    views = {("clean", 0): vectors[0]} | {("mixed_rand", d): vectors[1 + d] for d in range(draws)}
    queries = scores.score_queries(Embeddings(split.table.ids, labels, usable, views, donors), {})
    own = queries[(queries["setting"] == "query") & (queries["condition"] == "mixed_rand")]
    assert queries.drop(index=own.index)["nearest_of_donor"].isna().all()
    for line in own.itertuples():
        row = split.table.ids.index(str(line.image_id))
        similar = vectors[0] @ vectors[1 + int(line.draw)][row]
        donor = donors["mixed_rand", line.draw][row]
        similar[[row, donor]] = -2
        assert line.nearest_of_donor == float(labels[similar.argmax()] == labels[donor])
    assert 0 < own["nearest_of_donor"].mean() < 1


def test_donors_are_kept_with_the_embeddings(tmp_path: Path) -> None:
    views = {("clean", 0): np.eye(3, dtype=np.float32), ("mixed_rand", 0): np.eye(3, dtype=np.float32)}
    donors = {("mixed_rand", 0): np.array([2, 0, 1])}
    kept = Embeddings(["a", "b", "c"], np.arange(3), np.ones(3, bool), views, donors)
    for originals in (np.arange(3), np.array([0, 0, 2])):
        replace(kept, originals=originals).write(tmp_path / "embeddings.npz")
        again = embeddings.read(tmp_path / "embeddings.npz")
        assert list(again.views) == list(views)
        assert list(again.donors) == list(donors)
        assert again.donors["mixed_rand", 0].tolist() == [2, 0, 1]
        assert (again.originals is None) == (originals[1] == 1)  # without copies, as ever
    assert again.originals is not None
    assert again.originals.tolist() == [0, 0, 2]
    assert embeddings.side_by_side([again, again]).originals is again.originals
