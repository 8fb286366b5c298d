"""Embeddings of an audit, checked wherever they come from; and the numbers made of them, against the workflow's own functions and
twins that count by hand.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from miniatures import as_folder
from rankings import embedded, map_at_r, order, random_unit, unit
from torch import nn

from bgbias import seeds
from bgbias.auditing import exchange, findings, slices, workdir
from bgbias.auditing.embedding import equal_vectors, refuse_another_order, refuse_constant
from bgbias.auditing.preparations import compare
from bgbias.errors import UserError
from bgbias.evaluation import conditions, scores
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, RANDOM_BACKGROUND, SYMMETRIC, View
from bgbias.evaluation.embeddings import Embeddings
from bgbias.images.pixels import encode_png
from bgbias.models.adapters import Options, load
from bgbias.results import rows
from bgbias.results.decomposition import DROP
from bgbias.results.thirds import in_thirds
from tests.support.collected import collect

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
    assert "order of the rows: 60 of 60 photos are nearest to themselves" in refuse_another_order(
        vectors, IDS
    )
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


def test_saved_embeddings_have_the_models_look(tmp_path: Path) -> None:
    """And count as an answer to their question on this computer; pictures of another one are not mixed with its own."""
    model = load(lambda batch: [picture.mean((0, 1)) for picture in batch], Options(size=40, resize=44))
    with pytest.raises(UserError, match="No pictures were exported for this question"):
        workdir.check_exported("question")
    model = replace(model, guesses=("Nobody specified its mean.",))
    exchange.write(tmp_path, dict.fromkeys(VIEWS, ONES), model, "question")
    clean = tmp_path / "clean.npy"
    again = exchange.make_stand_in(Options(), clean)
    assert (again.name, again.look, again.guesses) == (model.name, model.look, model.guesses)
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


# -- numbers -----------------------------------------------------------------------------------------------------------

SHOWN = (CLEAN, "own_inpainted", "mixed_same", "mixed_rand", RANDOM_BACKGROUND, "only_bg")
DRAWS = 2
NAMES = {10 * c: f"class {c}" for c in range(6)}
UNSURE = {"000", "001", "003", "010"}  # photo 003 is no query


def embed(sizes: Sequence[int]) -> Embeddings:
    """Of classes of so many photos, each of which lends its background to the next one of its class."""
    random = seeds.generator("audit findings")
    number = np.repeat(np.arange(len(sizes)), sizes)
    middle = random.normal(size=(len(sizes), 8))[number]
    rows = np.arange(len(number))
    views = {
        view: unit(middle + (0.6 if view[0] == CLEAN else 1.2) * random.normal(size=middle.shape))
        for view in conditions.views(SHOWN, DRAWS)
    }
    of_class = np.concatenate([np.roll(rows[number == c], 1) for c in range(len(sizes))])
    donors = {view: np.roll(rows, max(sizes)) for view in views if view[0] == "mixed_rand"}
    donors |= {view: of_class for view in views if view[0] == "mixed_same"}
    return embedded(10 * number, views, usable=rows != 3, donors=donors)


@pytest.fixture(scope="module")
def embeddings() -> Embeddings:
    return embed((5,) * 5)


@pytest.fixture(scope="module")
def found(embeddings: Embeddings) -> findings.Findings:
    return findings.compute_findings(embeddings, NAMES, UNSURE)


def test_levels_losses_and_shifts_are_those_of_plain_loops(
    embeddings: Embeddings, found: findings.Findings
) -> None:
    clean, labels = embeddings.views[CLEAN, 0], embeddings.labels
    asked = np.flatnonzero(embeddings.usable)

    def naive(view: np.ndarray) -> np.ndarray:
        ranked = ((n, order(view[n], clean, gone=[n])) for n in asked)
        return np.array([map_at_r((labels[others] == labels[n]).tolist()) for n, others in ranked])

    before = naive(clean)
    after = np.mean([naive(embeddings.views[RANDOM_BACKGROUND, draw]) for draw in range(DRAWS)], axis=0)
    levels = pd.DataFrame(found.levels).set_index(["setting", "condition", "metric"])["value"]
    for condition, values in ((CLEAN, before), (RANDOM_BACKGROUND, after)):
        assert levels[QUERY_ONLY, condition, "map_at_r"] == pytest.approx(np.mean(values), abs=1e-12)
    photos = found.photos.set_index("image_id").loc[[embeddings.ids[n] for n in asked]]
    assert len(photos) == len(found.photos)
    np.testing.assert_allclose(photos["lost"], before - after, atol=1e-12)
    assert photos["class_name"].tolist() == [NAMES[labels[n]] for n in asked]
    # A photo's own cosine.
    moved = findings.shift(embeddings).set_index("image_id")[RANDOM_BACKGROUND]
    others = [embeddings.views[RANDOM_BACKGROUND, draw].astype(np.float64) for draw in range(DRAWS)]
    cosines = np.mean([(clean * other).sum(axis=1) for other in others], axis=0)
    np.testing.assert_allclose(moved, cosines[asked], atol=1e-6)
    assert moved.index.tolist() == photos.index.tolist()


def test_the_drop_in_both_settings_is_the_studys(embeddings: Embeddings, found: findings.Findings) -> None:
    queries = scores.score_queries(embeddings, {}).assign(seed=0)
    values = rows.retrieval_values(queries, ("a", "b", "c", "pretrained"))
    drops = pd.DataFrame(found.drops).set_index(["setting", "unit"])
    for setting, name in ((SYMMETRIC, "corrupted"), (QUERY_ONLY, "query_only")):
        expected = values.estimate(["clean", name], rows.difference)
        row = drops.loc[setting, "points"]
        assert (row["value"], row["low"], row["high"]) == (expected.value, expected.low, expected.high)


@pytest.mark.parametrize(("sizes", "are_known"), [((5, 5, 5, 2, 2, 2), True), ((5, 2, 2, 2, 2), False)])
def test_steps_add_up_to_the_drop_of_queries_that_have_all(sizes: tuple[int, ...], are_known: bool) -> None:
    """One of two photos lends its background to the other, and cannot be found in front of it: the few classes of more photos do
    not stand for all.
    """
    found = findings.compute_findings(embed(sizes), NAMES)
    assert found.photos["mixed_same"].isna().sum() == 2 * sizes.count(2)
    for setting, own in pd.DataFrame(found.steps).groupby("setting"):
        *steps, drop = own["value"]
        assert own["step"].iloc[-1] == DROP
        assert setting in {QUERY_ONLY, SYMMETRIC}
        assert len(steps) == 3
        if are_known or setting == SYMMETRIC:
            assert sum(steps) == pytest.approx(drop, abs=1e-12)
        else:
            assert own["value"].isna().all()


def test_classes_are_means_of_their_queries_the_greatest_loss_first(found: findings.Findings) -> None:
    classes = found.classes.set_index("class_name")
    assert classes["lost"].is_monotonic_decreasing
    lost = found.photos.groupby("class_name")["lost"]
    unsure = found.photos["image_id"].isin(UNSURE).groupby(found.photos["class_name"]).sum()
    for column, expected in (("queries", lost.size()), ("lost", lost.mean()), ("sd", lost.std(ddof=1))):
        np.testing.assert_allclose(classes[column], expected[classes.index], atol=1e-12)
    assert classes["unsure_masks"].to_dict() == unsure.to_dict()
    assert unsure.sum() == 3


def test_a_masks_area_and_place_are_those_of_its_pixels() -> None:
    mask = np.zeros((10, 20), np.uint8)
    mask[:5, :10] = 255
    found = slices._measure_mask(mask)
    assert found["area"] == 0.25
    assert found["off_centre"] == pytest.approx(0.5)  # the middle of a quarter lies half way to the corner
    assert slices._measure_mask(np.full((4, 4), 255, np.uint8)) == {"area": 1.0, "off_centre": 0.0}
    assert np.isnan(slices._measure_mask(np.zeros((4, 4), np.uint8))["off_centre"])


def test_thirds_hold_all_queries_in_the_order_of_the_property() -> None:
    """The smaller the object, the more is lost."""
    area = np.random.default_rng(0).permutation(np.linspace(0.1, 0.7, 60))
    queries = pd.DataFrame({"class_name": np.arange(60) % 6, "clean": 0.8, "random_background": area})
    queries = queries.assign(lost=0.8 - area, area=area, off_centre=0.1, brightness=0.5, clarity=1.0)
    found = list(slices.make_thirds(queries))
    assert [third.prop for third in found] == ["area"] * 3  # what is the same for all parts nobody
    assert sum(third.queries for third in found) == 60
    assert found[0].most <= found[1].least <= found[1].most <= found[2].least
    part, rest = np.split(np.sort(area), [found[0].queries])
    assert found[0].lost.value == pytest.approx(0.8 - part.mean())
    assert found[0].lost.low < found[0].lost.value < found[0].lost.high
    assert list(slices.make_thirds(queries.head(20))) == []
    # Photos come in the order of their classes: parting equal values by their names would compare classes.
    np.testing.assert_array_equal(in_thirds(pd.Series(np.arange(42) % 3)), np.arange(42) % 3)
    assert in_thirds(pd.Series([0.4] * 5 + [1.0] * 37)) is None

    (larger,) = slices.leave_out_small(queries, found)
    assert (larger.queries, larger.least) == (len(rest), found[1].least)
    assert larger.drop.value == pytest.approx(1 - rest.mean() / 0.8)
    assert list(slices.leave_out_small(queries, found[::-1])) == []  # large ones lose most
    # Masks that somebody drew are the objects, however small; a masker without doubt drew nothing by hand.
    is_drawn = area <= 0.15
    (with_drawn,) = slices.leave_out_small(queries.assign(clarity=np.where(is_drawn, np.nan, 1)), found)
    assert with_drawn.drawn == is_drawn.sum() > 0
    assert with_drawn.queries == larger.queries + with_drawn.drawn
    assert list(slices.leave_out_small(queries.assign(clarity=np.nan), found)) == [larger]


def test_the_drop_is_told_of_the_queries_whose_masks_are_sure() -> None:
    queries = pd.DataFrame({"class_name": list("112234"), "clean": 0.8})
    queries["random_background"] = [0.6] * 5 + [0.0]
    found = slices.leave_out_unsure(queries.assign(clarity=[1.0, 0.85, 1.0, 1.0, 1.0, 0.84]))
    assert found is not None
    assert (found.queries, found.others) == (5, 1)
    assert found.drop.value == pytest.approx(0.25)
    none = slices.leave_out_unsure(queries.assign(clarity=0.5))
    assert none is not None
    assert (none.queries, none.others) == (0, 6)
    assert np.isnan(none.drop.value)
    for clarity in (1.0, np.nan):  # nobody knows
        assert slices.leave_out_unsure(queries.assign(clarity=clarity)) is None
