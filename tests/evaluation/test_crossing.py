"""Objects in front of the same backgrounds: the same pictures for all, ranked and taken apart as naive twins do."""

import math
from dataclasses import replace

import numpy as np
import pytest
from in_memory import Means, hash_number, noise, split
from rankings import embedded, map_at_r, order, random_unit

from bgbias.backgrounds.draws import Pool
from bgbias.errors import UserError
from bgbias.evaluation import crossing
from bgbias.evaluation.crossing import CrossedEmbeddings, shares
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.images import pixels
from bgbias.models.settings import How

SIDE, CROP = 36, 32


@pytest.fixture(scope="module")
def photos() -> EvaluationPhotos:
    pictures, masks = (
        [noise(name, n, SIDE, SIDE, *of) for n in range(6)] for name, of in (("p", (3,)), ("m", ()))
    )
    pool = [noise("pool", b, 50, 60, 3) for b in range(4)]
    return split(pictures, [n % 2 for n in range(6)], CROP, masks, trusted=(0, 1, 3, 4, 5), pool=pool)


def test_every_object_stands_on_the_same_parts_of_the_same_backgrounds(photos: EvaluationPhotos) -> None:
    shown = crossing.objects(photos, 3)
    keyed = sorted((0, 1, 3, 4, 5), key=lambda n: hash_number(f"crossing|own|test|{100 + n}"))
    assert shown.ids == [f"{n}.png" for n in keyed[:3]]
    found = crossing.embed(Means(), photos, shown, 2, How(batch_size=4))  # type: ignore[arg-type]
    places = sorted(range(4), key=lambda b: hash_number(f"crossing|{b}"))[:2]
    assert (found.ids, found.backgrounds.tolist()) == (shown.ids, places)
    for vectors, name in zip(found.vectors, shown.ids, strict=True):
        for vector, place in zip(vectors, places, strict=True):
            box, flip = pixels.random_box(np.random.default_rng(hash_number(f"crossing|{place}")), 50, 60)
            behind = pixels.crop(noise("pool", place, 50, 60, 3), box, CROP, flip).astype(float)
            soft = photos.mask(name)[..., None] / 255
            mean = np.rint(soft * photos.clean(name) + (1 - soft) * behind).mean(axis=(0, 1))
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
