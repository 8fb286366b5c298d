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
    found = scores.of_queries(embeddings, {}).set_index(["setting", "condition", "draw", "image_id"])[
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
    found = scores.of_queries(Embeddings(**vars(embeddings) | {"views": views}), {})
    ours = found[found["setting"].isin(list(itertools.chain(*across_places.SETTINGS)))]
    assert (ours["map_at_r"].dropna() == 1).all()
    assert len(ours["map_at_r"].dropna()) > len(ours) / 2


def test_a_class_of_one_place_is_asked_nowhere_and_distracts_nobody():
    with_others = collection([[3, 5], [4, 4], [7, 0]])
    kept = with_others.labels < 2
    names = np.array(list("ab"))[with_others.places.own[kept]]
    assert (with_others.places.drawn[:, ~kept] == -1).all()
    found = scores.of_queries(with_others, {})
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
