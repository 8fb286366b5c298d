"""What conditions and crossings make of photos: a pure function of names, the same for every model, batch and process."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import cv2
import numpy as np
import pytest
import torch
from in_memory import Pictures, hash_number, split
from rankings import embedded, map_at_r, order, random_unit
from scipy.ndimage import distance_transform_edt
from torch import Tensor
from torch.nn.functional import normalize

from bgbias import plugins, seeds
from bgbias.backgrounds.draws import Pool
from bgbias.errors import UserError
from bgbias.evaluation import across_places, conditions, crossing, device_views, embedding, embeddings
from bgbias.evaluation.crossing import CrossedEmbeddings, shares
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.files.store import writing
from bgbias.images import pixels
from bgbias.images.inpainting import remove_object
from bgbias.models.settings import How
from bgbias.photos import picture_cache
from bgbias.photos.crops import DeviceCrops
from bgbias.photos.places import Places

SIDE, CROP = 40, 32
CLASSES = (3, 3, 3, 5, 5, 8, 8, 8, 8)
ALL = range(len(CLASSES))
UNTRUSTED, ALONE = (4, 7), 3  # without a trusted mask; the only trusted one of its class
TRUSTED = [n for n in ALL if n not in UNTRUSTED]
POOL = ((90, 131), (140, 77), (64, 64), (71, 200))
PLACES = list("aabaaabab")
MIXED = ("mixed_same", "mixed_rand", "mixed_next")


class Means:
    """In a model's place: what sees a picture's mean colour, at unit length."""

    @staticmethod
    def preprocess(x: Tensor) -> Tensor:
        return x.float()

    def __call__(self, x: Tensor) -> Tensor:
        return normalize(x.mean(dim=(2, 3)), dim=1)


def noise(purpose: str, n: int, *shape: int) -> np.ndarray:
    return seeds.generator(purpose, n).integers(0, 256, shape, dtype=np.uint8)


def picture(n: int) -> np.ndarray:
    return noise("picture", n, SIDE, SIDE + 4, 3)


def mask(n: int) -> np.ndarray:
    """A soft disc somewhere near the middle."""
    y, x = np.mgrid[:SIDE, : SIDE + 4]
    away = np.hypot(y - 18 - n % 3, x - 20 - n % 4)
    return np.rint(255 * np.clip((9 - away) / 4, 0, 1)).astype(np.uint8)


@pytest.fixture(scope="module")
def photos() -> EvaluationPhotos:
    """Nine photos of three classes at two places, and four backgrounds of several shapes."""
    pool = [noise("pool", n, *shape, 3) for n, shape in enumerate(POOL)]
    made = split([picture(n) for n in ALL], CLASSES, CROP, [mask(n) for n in ALL], trusted=TRUSTED, pool=pool)
    vars(made)["places"] = Places.of(PLACES, made.table.labels, made.table.keys)
    return made


def see(photos: EvaluationPhotos, condition: str, draw: int = 0) -> list[np.ndarray]:
    return list(photos.views([(condition, draw)]))


def crop(whole: np.ndarray) -> np.ndarray:
    top, left = (SIDE - CROP) // 2, (SIDE + 4 - CROP) // 2
    return whole[top : top + CROP, left : left + CROP]


def fill(n: int) -> np.ndarray:
    """The photo without its object, by its definition: a hole that reaches 7 pixels beyond the object, filled by Telea."""
    hole = distance_transform_edt(mask(n) <= 127) <= 7
    return crop(cv2.inpaint(picture(n), hole.astype(np.uint8), 3, cv2.INPAINT_TELEA))


def paste(n: int, background: np.ndarray | float) -> np.ndarray:
    soft = crop(mask(n))[..., None] / 255
    return soft * crop(picture(n)) + (1 - soft) * background


def background(place: int, key: int) -> np.ndarray:
    """The part of a picture of the pool that a key draws."""
    box, flip = pixels.random_box(np.random.default_rng(key), *POOL[place])
    return pixels.crop(noise("pool", place, *POOL[place], 3), box, CROP, flip)


@pytest.mark.parametrize(
    "name", [name for name in plugins.names("conditions") if name != "cue_conflict" and "mask" not in name]
)
def test_untrusted_photos_stay_and_processes_change_nothing(photos: EvaluationPhotos, name: str) -> None:
    asked = [(name, draw) for draw in range(1 + plugins.load("conditions", name).DRAWS)]
    views = list(photos.views(asked))
    assert all(view.shape == (CROP, CROP, 3) and view.dtype == np.uint8 for view in views)
    for n in ALL:
        for draw, view in enumerate(views[n * len(asked) : (n + 1) * len(asked)]):
            assert np.array_equal(view, see(photos, name, draw)[n])
            # Photo 3 lends itself its background, which is filled all the same.
            assert np.array_equal(view, crop(picture(n))) == (name == "clean" or n in UNTRUSTED)
    for one, several in zip(views, photos.views(asked, workers=3), strict=True):
        np.testing.assert_array_equal(one, several)


@pytest.mark.parametrize(
    ("device", "crops"),
    [("cpu", DeviceCrops), ("cpu", None), pytest.param("cuda", None, marks=pytest.mark.gpu)],
)
@pytest.mark.parametrize("shown", [TRUSTED, UNTRUSTED, ALL])
def test_a_device_makes_the_same_views_many_at_once(
    photos: EvaluationPhotos,
    shown: Sequence[int],
    device: str,
    crops: type[DeviceCrops] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of conditions that take one photo at a time, too; whether its memory takes the pictures or not."""
    if crops:
        monkeypatch.setattr(device_views, "cropper", lambda *arguments, **_: crops(*arguments))
    some = replace(photos, table=photos.table.rows(np.array(shown)))
    vars(some)["places"] = Places.of([PLACES[n] for n in shown], some.table.labels, some.table.keys)
    names = [name for name in plugins.names("conditions") if "mask" not in name]
    if shown is not ALL:  # too few classes lend a texture
        names.remove("cue_conflict")
    asked = conditions.views(names, 2)
    made = torch.cat(list(device_views.on_device(some, device).views(asked, 4)))
    for one, many in zip(some.views(asked), made, strict=True):
        np.testing.assert_array_equal(one, many.cpu())


def test_controls_take_the_object_or_its_background_away(photos: EvaluationPhotos) -> None:
    for condition, expected, rounding in (
        ("only_fg", lambda n: paste(n, 127.5), 0.501),
        ("no_fg", lambda n: crop(picture(n)) + 127.5 - paste(n, 127.5), 0.501),
        ("only_bg", fill, 0),
        ("own_inpainted", lambda n: np.rint(paste(n, fill(n))), 0),
    ):
        views = see(photos, condition)
        for n in TRUSTED:
            np.testing.assert_allclose(views[n], expected(n), atol=rounding + 1e-9, rtol=0)


@pytest.mark.parametrize("draw", [0, 3])
@pytest.mark.parametrize("condition", [*MIXED, *across_places.LENT])
def test_donors_are_those_that_names_say(photos: EvaluationPhotos, condition: str, draw: int) -> None:
    following = {3: 5, 5: 8, 8: 3}
    donors = photos.donors([("clean", 0), (condition, draw)])
    assert list(donors) == [(condition, draw)]
    other = photos.places.other(draw)  # type: ignore[union-attr]
    for n, view in enumerate(see(photos, condition, draw)):
        if n not in TRUSTED:
            assert donors[condition, draw][n] == n
            continue
        elsewhere, of_class = condition.endswith("there"), "class" in condition or "same" in condition
        place = "ab"[other[n]] if elsewhere else PLACES[n]
        candidates = [m for m in TRUSTED if m != n and (CLASSES[m] == CLASSES[n]) == of_class]
        if condition == "mixed_next":
            candidates = [m for m in candidates if CLASSES[m] == following[CLASSES[n]]]
        if condition not in MIXED:
            candidates = [m for m in candidates if PLACES[m] == place and not (elsewhere and other[n] < 0)]
        u = hash_number(f"own|test|{condition}|{draw}|{100 + n}")
        donor = candidates[u % len(candidates)] if candidates else n  # nobody: before its own
        assert candidates or condition not in MIXED or (condition, n) == ("mixed_same", ALONE)
        assert donors[condition, draw][n] == donor
        np.testing.assert_allclose(view, np.rint(paste(n, fill(donor))), atol=1e-9)


@pytest.mark.parametrize("draw", [0, 3])
def test_random_backgrounds_are_those_that_names_say(photos: EvaluationPhotos, draw: int) -> None:
    """Section 2, golden G2c."""
    views = see(photos, "random_background", draw)
    for n in TRUSTED:
        u = hash_number(f"own|test|bg|{draw}|{100 + n}")
        expected = np.rint(paste(n, background(u % len(POOL), u)))
        np.testing.assert_allclose(views[n], expected, atol=1e-9)


@pytest.mark.parametrize("condition", MIXED)
def test_a_copy_lends_no_background_to_its_original(condition: str) -> None:
    """Photos 0, 1 and 3 are one, of two classes."""
    shown = [picture(n) for n in (0, 0, 2, 0, 4, 5)]
    photos = split(shown, [0, 0, 0, 1, 1, 1], CROP, [mask(0)] * 6, filled=shown)
    assert photos.originals.tolist() == [0, 0, 2, 0, 4, 5]
    assert replace(photos, same_view={"4.png": "2.png"}).originals.tolist() == [0, 0, 2, 0, 2, 5]
    donors = np.array(list(photos.donors([(condition, draw) for draw in range(20)]).values()))
    of_others = ([4, 5], [4, 5], [3, 4, 5], [2], [0, 1, 2], [0, 1, 2])
    expected = ([2], [2], [0, 1], [4, 5], [3, 5], [3, 4]) if condition == "mixed_same" else of_others
    assert tuple(sorted(set(column)) for column in donors.T.tolist()) == expected


def embed(photos: EvaluationPhotos, *names: str, batch_size: int = 64) -> embeddings.Embeddings:
    return embedding.embed(Means(), photos, conditions.views(names, 2), How(batch_size=batch_size))  # type: ignore[arg-type]


def test_same_pictures_for_every_batch_order_subset_and_condition(photos: EvaluationPhotos) -> None:
    names = ("clean", "random_background", "moved")
    whole = embed(photos, *names)
    assert list(whole.views) == [("clean", 0), *((name, draw) for name in names[1:] for draw in range(2))]
    assert whole.usable.tolist() == [n in TRUSTED for n in ALL]
    rows = np.array([8, 2, 7, 4])
    some = replace(photos, table=photos.table.rows(rows))
    for view, vectors in embed(some, "clean", "random_background", batch_size=3).views.items():
        np.testing.assert_allclose(vectors, whole.views[view][rows], atol=1e-6)


def test_what_a_condition_lacks_is_an_error(photos: EvaluationPhotos) -> None:
    with pytest.raises(ValueError, match="opened without backgrounds"):
        see(replace(photos, backgrounds=None), "random_background")
    turned = Pictures({f"{n}.png": mask(n).T for n in ALL})
    words = r"mask of '0\.png' is \(44, 40\), its photo \(40, 44\); remake the masks"
    with pytest.raises(UserError, match=words):
        see(replace(photos, masks=turned), "random_background")


def test_filled_photos_are_made_once_and_again_with_other_masks(tmp_path: Path) -> None:
    def stored(name: str, *ids: str, level: int = 255, width: int = SIDE) -> picture_cache.Pictures:
        with writing(tmp_path / f"{name}.zip") as store:
            for image_id in ids:
                store.add(image_id, pixels.encode_png(np.full((SIDE, width), level, np.uint8)))
        mode = "RGB" if name == "photos" else "L"
        return picture_cache.pictures(tmp_path / f"{name}.zip", SIDE, tmp_path, mode)

    make = Mock(wraps=remove_object)
    photos = stored("photos", "a.png", "b.png")
    for name, level, filled in (("masks", 255, 128), ("masks", 255, 128), ("others", 0, 255)):
        made = picture_cache.combined("made", tmp_path, photos, stored(name, "a.png", level=level), make)
        assert made.ids == ["a.png"]
        assert (made.get("a.png") == filled).all()  # grey where all is object
    assert make.call_count == 2
    with pytest.raises(UserError, match=r"The mask of 'a\.png' is \(40, 49\), its photo \(40, 40\)"):
        picture_cache.combined("made", tmp_path, photos, stored("wide", "a.png", width=49), make)


# Crossings: each object on the same backgrounds.


def test_every_object_stands_on_the_same_parts_of_the_same_backgrounds(photos: EvaluationPhotos) -> None:
    shown = crossing.objects(photos, 3)
    keyed = sorted(TRUSTED, key=lambda n: hash_number(f"crossing|own|test|{100 + n}"))[:3]
    assert shown.ids == [f"{n}.png" for n in keyed]
    found = crossing.embed(Means(), photos, shown, 2, How(batch_size=4))  # type: ignore[arg-type]
    places = sorted(range(len(POOL)), key=lambda b: hash_number(f"crossing|{b}"))[:2]
    assert (found.ids, found.backgrounds.tolist()) == (shown.ids, places)
    for vectors, n in zip(found.vectors, keyed, strict=True):
        for vector, place in zip(vectors, places, strict=True):
            mean = np.rint(paste(n, background(place, hash_number(f"crossing|{place}")))).mean(axis=(0, 1))
            np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-5)


def test_a_pool_or_a_split_of_one_is_an_error_that_says_so(photos: EvaluationPhotos) -> None:
    with pytest.raises(UserError, match=r"1 photos have a trusted mask, .* crossing\.objects to null"):
        crossing.objects(replace(photos, usable=frozenset({"3.png"})), 5)
    single = replace(photos, backgrounds=Pool([np.zeros((9, 9, 3), np.uint8)]))
    with pytest.raises(UserError, match="The pool has one background"):
        crossing.embed(Means(), single, crossing.objects(single, 5), 20)  # type: ignore[arg-type]


def test_queries_are_ranked_in_the_clean_gallery_without_their_own_photo() -> None:
    gallery = embedded([0, 0, 0, 1, 1, 2, 2, 2, 2, 3], {("clean", 0): random_unit(0, 10, 5)})
    clean, labels, rows, backgrounds = gallery.views["clean", 0], gallery.labels, [7, 0, 4, 9], [2, 0, 5]
    crossed = CrossedEmbeddings(
        [gallery.ids[row] for row in rows], np.array(backgrounds), random_unit(1, 4, 3, 5)
    )
    found = crossing.score_queries(crossed, gallery)
    assert len(found) == 12
    for line in found.itertuples():
        row = gallery.ids.index(line.image_id)
        vector = crossed.vectors[rows.index(row), backgrounds.index(line.background)]
        assert line.label == labels[row]
        assert line.cosine == pytest.approx(vector @ clean[row], abs=1e-6)
        hits = labels[order(vector, clean, {row})] == labels[row]
        assert line.map_at_r == pytest.approx(map_at_r(hits.tolist()), nan_ok=True)


def components(crossed: np.ndarray) -> tuple[float, float, float]:
    found = shares(crossed)
    return found.object, found.background, found.interaction


def test_golden_shares_and_components_below_nothing() -> None:
    golden = np.array([[[1.0], [2.0]], [[3.0], [6.0]]])
    assert components(golden) == pytest.approx((0.615385, 0.230769, 0.153846), abs=1e-6)
    assert shares(golden).negative == ()
    # Rows whose means agree more than their values' scatter lets them.
    below = np.array([[[1.0], [-1.0]], [[-1.0], [1.0]]])
    assert components(below) == (0, 0, 1)
    assert shares(below).negative == ("object", "background")
    assert math.isnan(shares(np.ones((3, 2, 4))).object)  # nothing to share


def test_known_components_are_found() -> None:
    random, (n, m, d) = np.random.default_rng(0), (400, 120, 16)
    thing, wall, both = (random.normal(size=shape) for shape in ((n, 1, d), (1, m, d), (n, m, d)))
    expected = np.array([4, 1, 0.25]) / 5.25
    assert components(2 * thing + wall + 0.5 * both) == pytest.approx(expected, abs=0.02)
