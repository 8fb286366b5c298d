"""Galleries within a place and across places: against a twin that goes photo by photo."""

import itertools

import numpy as np
import pytest

from bgbias.evaluation import across_places, scores
from bgbias.evaluation.across_places import (
    OTHER_PLACE,
    OTHER_WITHOUT_LENDERS,
    SAME_WITHOUT_LENDERS,
)
from bgbias.evaluation.embeddings import Embeddings, read
from bgbias.photos.places import Places
from bgbias.results import places


def unit(vectors):
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def collection(sizes, seed=0, dim=8, draws=2, named=None):
    """``sizes`` [C, P]: how many photos of each class at each place; random vectors and lenders."""
    rng = np.random.default_rng(seed)
    labels, places = [], []
    for label, of_places in enumerate(sizes):
        for place, number in enumerate(of_places):
            labels += [label] * number
            places += [(named or "abcdefgh")[place]] * number
    labels = np.array(labels)
    ids = [f"{n:04}" for n in range(len(labels))]
    keys = [("photos|test", i) for i in ids]
    where = Places.of(places, labels, keys)
    views, donors = {("clean", 0): unit(rng.normal(size=(len(ids), dim)))}, {}
    for name in ("random_background", *across_places.LENT):
        for draw in range(draws):
            views[name, draw] = unit(rng.normal(size=(len(ids), dim)))
            if name in across_places.LENT:
                donors[name, draw] = rng.integers(0, len(ids), len(ids))
    return Embeddings(ids, labels, np.ones(len(ids), bool), views, donors, places=where)


def twin(embeddings, view, settings, draw):
    """MAP@R of each photo in both galleries of one draw, by the order of the lot alone."""
    labels, places = embeddings.labels, embeddings.places
    lot = across_places.seeds.generator("galleries of places", draw).permutation(len(labels))
    without = settings == (SAME_WITHOUT_LENDERS, OTHER_WITHOUT_LENDERS)
    clean, queries = embeddings.views["clean", 0], embeddings.views[view]
    found = {setting: np.full(len(labels), np.nan) for setting in settings}
    for row in range(len(labels)):
        gone = {row}
        if without:
            gone |= {int(d[row]) for (_, number), d in embeddings.donors.items() if number == draw}
        if view[0] in across_places.LENT and embeddings.donors[view][row] == row:
            continue
        sides = (places.own[row], places.other(draw)[row])
        if sides[1] < 0:
            continue
        members = [
            {
                c: sorted(
                    (j for j in np.flatnonzero((places.own == side) & (labels == c)) if j not in gone),
                    key=lambda j: lot[j],
                )
                for c in np.unique(labels)
            }
            for side in sides
        ]
        fewest = {c: min(len(side[c]) for side in members) for c in np.unique(labels)}
        for setting, side in zip(settings, members, strict=True):
            gallery = sorted(j for c, some in side.items() for j in some[: fewest[c]])
            relevant = fewest[labels[row]]
            if not relevant:
                continue
            near = sorted(
                gallery, key=lambda j: (-float(queries[row].astype(float) @ clean[j].astype(float)), j)
            )
            hits = [labels[j] == labels[row] for j in near[:relevant]]
            found[setting][row] = (
                sum(hit * sum(hits[: k + 1]) / (k + 1) for k, hit in enumerate(hits)) / relevant
            )
    return found


SIZES = {
    "two places": [[3, 5], [4, 2], [6, 6], [2, 0], [0, 3]],
    "three places": [[3, 5, 2], [4, 0, 3], [2, 2, 2], [1, 1, 0]],
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_levels_are_those_of_a_twin_that_goes_photo_by_photo(sizes):
    embeddings = collection(sizes)
    found = scores.score_queries(embeddings, {}).set_index(["setting", "condition", "draw", "image_id"])[
        "map_at_r"
    ]
    for settings, conditions in across_places.SETTINGS.items():
        for view in [view for view in embeddings.views if view[0] in conditions]:
            draws = range(2) if view[0] == "clean" else [view[1]]
            expected = [twin(embeddings, view, settings, draw) for draw in draws]
            for setting in settings:
                values = found[setting, view[0], view[1]].reindex(embeddings.ids).to_numpy()
                np.testing.assert_allclose(
                    values, np.mean([e[setting] for e in expected], axis=0), atol=1e-12
                )


def test_a_model_that_tells_photos_by_their_class_alone_finds_as_much_at_every_place():
    embeddings = collection([[3, 9], [12, 4], [5, 5]])
    of_class = unit(np.random.default_rng(1).normal(size=(3, 8)))[embeddings.labels]
    views = dict.fromkeys(embeddings.views, of_class)
    found = scores.score_queries(Embeddings(**vars(embeddings) | {"views": views}), {})
    ours = found[found["setting"].isin(list(itertools.chain(*across_places.SETTINGS)))]
    assert (ours["map_at_r"].dropna() == 1).all()
    assert len(ours["map_at_r"].dropna()) > len(ours) / 2


def test_a_class_of_one_place_is_asked_nowhere_and_distracts_nobody():
    with_others = collection([[3, 5], [4, 4], [7, 0]])
    kept = with_others.labels < 2
    names = np.array(list("ab"))[with_others.places.own[kept]]
    assert (with_others.places.drawn[:, ~kept] == -1).all()
    found = scores.score_queries(with_others, {})
    alone = found[(found["setting"] == OTHER_PLACE) & (found["label"] == 2)]
    assert len(alone)
    assert alone["map_at_r"].isna().all()
    assert Places.of(names, with_others.labels[kept], [("s", str(n)) for n in range(kept.sum())]) is not None


def test_no_class_at_two_places_is_no_comparison_of_places():
    assert Places.of(["a", "a", "b", "b"], np.array([0, 0, 1, 1]), [("s", str(n)) for n in range(4)]) is None
    assert Places.of(["", "", "", ""], np.array([0, 0, 1, 1]), [("s", str(n)) for n in range(4)]) is None


def test_the_other_place_is_drawn_among_all_in_which_the_class_was_seen():
    places = Places.of(list("abc") * 30 + ["d"], np.array([0] * 90 + [1]), [("s", str(n)) for n in range(91)])
    others = np.concatenate([places.other(draw) for draw in range(5)])
    own = np.tile(places.own, 5)
    pairs = set(zip(own[others >= 0].tolist(), others[others >= 0].tolist(), strict=True))
    assert pairs == {(a, b) for a in range(3) for b in range(3) if a != b}


def test_files_keep_the_places(tmp_path):
    embeddings = collection(SIZES["two places"])
    embeddings.write(tmp_path / "embeddings.npz")
    again = read(tmp_path / "embeddings.npz")
    np.testing.assert_array_equal(again.places.own, embeddings.places.own)
    np.testing.assert_array_equal(again.places.drawn, embeddings.places.drawn)


def test_copies_of_a_query_are_not_found(monkeypatch):
    embeddings = collection([[3, 3], [3, 3]])
    originals = np.arange(12)
    originals[6] = 0  # a photo of the other class shows the same
    views = {("clean", 0): np.array(embeddings.views["clean", 0])}
    views["clean", 0][6] = views["clean", 0][0]
    copied = Embeddings(**vars(embeddings) | {"views": views, "originals": originals, "donors": {}})
    (*_, (_, _, ranked)) = across_places.rankings(copied, views["clean", 0])
    for of_draw in ranked:
        assert 6 not in of_draw.indices[0]
        assert 0 not in of_draw.indices[6]


def lenders(kept, at, rng):
    """Another photo of each one's class that was taken there."""
    candidates = [
        np.flatnonzero((kept.labels == kept.labels[row]) & (kept.places.own == place))
        for row, place in enumerate(at)
    ]
    return np.array([rng.choice(some[some != row]) for row, some in enumerate(candidates)])


def of_a_model(kept, noise, sees, rng):
    """Embeddings by a model that ``sees`` "background" or "object": each class has its own at each place, or one; photos differ
    by the place's ``noise``.
    """
    labels, own = kept.labels, kept.places.own
    walls, objects = (
        rng.normal(size=(labels.max() + 1, len(noise), 16)),
        rng.normal(size=(labels.max() + 1, 16)),
    )
    scatter = rng.normal(size=(2, len(labels), 16)) * np.take(noise, own)[:, None]
    photo = {"background": walls[labels, own] + scatter[0], "object": objects[labels] + scatter[1]}
    views, donors = {("clean", 0): unit(photo[sees])}, {}
    for draw in range(2):
        pasted = {"random_background": None, "class_here": own, "class_there": kept.places.other(draw)}
        for name, at in pasted.items():
            wall = rng.normal(size=photo["object"].shape)
            if at is not None:
                donors[name, draw] = lenders(kept, at, rng)
                wall = photo["background"][donors[name, draw]]
            views[name, draw] = unit(wall if sees == "background" else photo["object"])
    return Embeddings(**vars(kept) | {"views": views, "donors": donors})


@pytest.mark.parametrize("sizes", [[[16, 5]] * 24, [[6, 12, 4]] * 16], ids=["two places", "three places"])
def test_places_of_unequal_size_and_difficulty_count_alike(sizes):
    """Many photos at a clear place and few at a blurred one: a mean over queries would speak of one direction alone."""
    model = ("photos", "model", "none", "pretrained")
    named = dict(zip(["dataset", "backbone", "loss", "method"], model, strict=True))
    rng = np.random.default_rng(5)
    for sees in ("background", "object"):
        embeddings = of_a_model(collection(sizes), (0.3, 1.2, 0.6)[: len(sizes[0])], sees, rng)
        found = scores.score_queries(embeddings, {}).assign(seed=0, **named)
        across = places.compare_places(found, model)
        if sees == "background":
            assert across.carried.value == pytest.approx(1, abs=0.05)
        else:
            assert across.on_composites.value == 0
            assert np.isnan(across.carried.value) or across.carried.value == pytest.approx(0, abs=1e-12)
        at = found[found["setting"] == "same_place"].query("condition == 'clean'").set_index("image_id")
        of_places = at.groupby(["label", "place"])["map_at_r"].mean().groupby("label").mean()
        assert across.here.value == pytest.approx(of_places.mean())
