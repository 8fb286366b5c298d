"""Photos as sets of patches: which are kept, what their similarity is, and that rankings follow it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bgbias import plugins, seeds
from bgbias.errors import UserError
from bgbias.evaluation import late_interaction, scores
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.late_interaction import PatchSets, similarity


def patches(purpose: str, counts: list[int], numbers: int = 6) -> PatchSets:
    vectors = seeds.generator(purpose).normal(size=(sum(counts), numbers)).astype(np.float32)
    return PatchSets(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.array(counts))


def sets(of: PatchSets) -> list[np.ndarray]:
    return np.split(of.vectors, np.cumsum(of.counts)[:-1])


def naive(queries: PatchSets, gallery: PatchSets) -> np.ndarray:
    """The definition, patch by patch."""
    found = np.zeros((len(queries.counts), len(gallery.counts)))
    for q, asked in enumerate(sets(queries)):
        for g, known in enumerate(sets(gallery)):
            found[q, g] = sum(max(float(a @ k) for k in known) for a in asked) / len(asked)
    return found


def test_by_hand() -> None:
    """Two patches of the query, one of which the photo has; the photo's other patch is not asked about."""
    east, north, west = [1, 0], [0, 1], [-1, 0]
    query = PatchSets(np.array([east, north], np.float32), np.array([2]))
    photos = PatchSets(np.array([east, west, west], np.float32), np.array([2, 1]))
    assert similarity(query, photos).tolist() == [[0.5, -0.5]]
    # Not symmetric: all of the photo's patches are looked for in the query.
    assert similarity(photos, query).tolist() == [[0.5], [0.0]]


@pytest.mark.parametrize("block", [1, 60, 2**23])
def test_similarity_is_the_mean_over_patches_of_the_nearest(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_interaction, "BLOCK", block)
    queries, gallery = patches("queries", [3, 1, 4, 2, 2]), patches("gallery", [2, 5, 1])
    np.testing.assert_allclose(similarity(queries, gallery), naive(queries, gallery), atol=1e-6)
    np.testing.assert_allclose(similarity(queries.first(2), gallery), naive(queries, gallery)[:2], atol=1e-6)


def test_places_are_kept_of_which_half_is_object() -> None:
    kept = plugins.load("cures", "patchwise").apply
    masks = torch.zeros(4, 1, 8, 8)
    masks[0, 0, :4, :4] = 1  # the first four of sixteen places
    masks[1, 0, :2, :1] = 1  # half of the first
    masks[2, 0, 5, 5] = 1  # less than half of any: the one with most of it
    found = kept(torch.zeros(4, 3, 4, 4), masks)
    expected = torch.zeros(4, 4, 4, dtype=torch.bool)
    expected[0, :2, :2] = expected[1, 0, 0] = expected[2, 2, 2] = True
    expected[3] = True  # no object: all of the picture
    assert torch.equal(found, expected)


def test_photos_are_ranked_by_this_similarity_among_each_other_and_by_its_like_in_an_old_gallery() -> None:
    counts = [3, 1, 4, 2, 2, 5, 1, 3, 2, 2]
    views = {("clean", 0): patches("clean", counts), ("random_background", 0): patches("other", counts)}
    labels = np.arange(10) % 3
    old = patches("old", [1] * 10).vectors
    usable = np.arange(10) != 4
    ids = [f"{n}.png" for n in range(10)]
    before = Embeddings(ids, labels, usable, {("clean", 0): old})
    found = late_interaction.score_queries(before, views, {"cure": "patchwise"})
    assert len(found) == 2 * 2 * 9
    for (condition, _), own in views.items():
        old_as_patches = PatchSets(old, np.ones(10, int))
        for setting, gallery in (("symmetric", own), ("query", old_as_patches)):
            alike = naive(own, gallery)
            np.fill_diagonal(alike, -2)
            rows = found[(found["condition"] == condition) & (found["setting"] == setting)]
            for line in rows.itertuples():
                q = ids.index(str(line.image_id))
                relevant = int((labels == labels[q]).sum()) - 1
                right = labels[np.argsort(-alike[q])[:relevant]] == labels[q]
                precision = np.cumsum(right) / np.arange(1, relevant + 1)
                assert line.map_at_r == pytest.approx((precision * right).sum() / relevant)
    assert 0 < found["map_at_r"].mean() < 1


def test_sets_of_one_patch_rank_as_embeddings_do() -> None:
    labels = np.arange(12) % 4
    one = patches("one", [1] * 12)
    before = Embeddings([f"{n}" for n in range(12)], labels, np.ones(12, bool), {("clean", 0): one.vectors})
    as_sets = late_interaction.score_queries(before, {("clean", 0): one}, {})
    as_vectors = scores.score_queries(before, {}, one.vectors)
    columns = ["setting", "image_id", "map_at_r", "precision_at_1"]
    both = (frame[columns].sort_values(columns[:2]).reset_index(drop=True) for frame in (as_sets, as_vectors))
    first, second = both
    assert first.equals(second)


def test_too_many_photos_are_refused_before_they_are_embedded() -> None:
    late_interaction.refuse_many(10_000, "cub200")
    with pytest.raises(UserError, match=r"'sop' has 60502 test photos; it takes 10000 .* cures\.names"):
        late_interaction.refuse_many(60_502, "sop")
