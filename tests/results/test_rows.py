"""A model's values query by query: what is averaged, what is paired with what, what is refused."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade_results import study
from scipy import stats

from bgbias.errors import UserError
from bgbias.results.correlation import spearman
from bgbias.results.rows import Values, plain_of, tabulate_models, tabulate_seeds
from bgbias.results.uncertainty import UNKNOWN, difference, estimate

QUERIES = [f"{name}.jpg" for name in "abcdefgh"]
CLASSES = np.arange(8) % 6


def part(values: dict[int | str, Any], others: dict[int | str, Any] | None = None) -> pd.DataFrame:
    """Rows of a column: [D, N] by the name of a run, in no order."""
    rows = [
        {"image_id": image, "label": label, "seed": run, "draw": draw, "score": score}
        | ({"others": np.array(others[run])[draw][place]} if others else {})
        for run, drawn in values.items()
        for draw, of_draw in enumerate(drawn)
        for place, (image, label, score) in enumerate(zip(QUERIES, CLASSES, of_draw, strict=True))
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=0)


def values(method: str, of_seeds: dict[int | str, Any]) -> Values:
    """Of a model whose only column is ``clean``."""
    model = "toy", "tiny", "none" if method == "pretrained" else "triplet", method
    return Values.from_parts(model, {"clean": part(of_seeds)}, "score")


def drawn(seed: int, draws: int = 1, level: float = 0.5) -> np.ndarray:
    return level + np.random.default_rng(seed).normal(0, 0.1, (draws, len(QUERIES)))


def test_draws_and_folds_are_averaged_within_their_seed() -> None:
    of_seeds, others = ({seed: drawn(seed + shift, 3) for seed in (4, 0, 2)} for shift in (0, 10))
    found = Values.from_parts(
        ("toy", "tiny", "triplet", "plain"), {"clean": part(of_seeds, others)}, "score", "others"
    )
    assert found.seeds == (0, 2, 4)
    assert (found.queries.tolist(), found.classes.tolist()) == (QUERIES, CLASSES.tolist())
    columns, of_others = (np.stack([made[s].mean(axis=0) for s in (0, 2, 4)]) for made in (of_seeds, others))
    np.testing.assert_allclose(found.columns["clean"], columns)
    # What a class means for others counts in its interval.
    mean = found.estimate(["clean"])
    assert mean == estimate([columns], CLASSES, of_others=[of_others])
    assert mean.high != estimate([columns], CLASSES).high
    runs = {"0": drawn(1), "0-fold1": drawn(2), "3": drawn(3), "3-fold1": drawn(4)}
    found = values("plain", runs)
    assert found.seeds == (0, 3)
    expected = [(runs["0"] + runs["0-fold1"])[0] / 2, (runs["3"] + runs["3-fold1"])[0] / 2]
    np.testing.assert_allclose(found.columns["clean"], expected)


def test_models_are_paired_by_the_seeds_that_both_have() -> None:
    mine, theirs = {0: drawn(1), 1: drawn(2), 2: drawn(3), 7: drawn(4)}, {7: drawn(5), 1: drawn(6)}
    theirs |= {2: drawn(7)}
    cured, plain = values("cured", mine), values("plain", theirs)
    columns = [np.concatenate([of[seed] for seed in (1, 2, 7)]) for of in (mine, theirs)]
    assert cured.against(plain, ["clean"]) == estimate(columns, CLASSES, difference)
    assert cured.against(values("plain", {5: drawn(8)}), ["clean"]) == UNKNOWN


def test_a_model_without_seeds_is_paired_with_every_one() -> None:
    mine, its = {0: drawn(1), 1: drawn(2), 5: drawn(3)}, drawn(4)
    trained, pretrained = values("plain", mine), values("pretrained", {0: its})
    assert pretrained.seeds == ()
    columns = [np.concatenate(list(mine.values())), np.tile(its, (3, 1))]
    assert trained.against(pretrained, ["clean"]) == estimate(columns, CLASSES, difference)
    assert pretrained.against(trained, ["clean"]) == estimate(columns[::-1], CLASSES, difference)
    assert pretrained.against(pretrained, ["clean"]).value == 0
    # One that every seed pretrained anew has its seeds.
    learned = values("pretrained", mine)
    assert learned.seeds == (0, 1, 5)
    assert learned.estimate(["clean"]) == estimate([columns[0]], CLASSES)


def test_absent_seeds_draws_and_queries_are_refused() -> None:
    whole = part({0: drawn(1, 2), 1: drawn(2, 2)})
    model = "toy", "tiny", "triplet", "plain"
    one_draw = whole.drop(whole.index[(whole["seed"] == 1) & (whole["draw"] == 1)])
    one_query = whole[whole["image_id"] != "c.jpg"]
    words = r"toy/tiny/triplet/plain lacks values a query for corrupted.*snakemake"
    for wrong in (one_draw, whole.iloc[1:], whole[whole["seed"] == 0], whole[:0]):
        with pytest.raises(UserError, match=words):
            Values.from_parts(model, {"clean": whole, "corrupted": wrong}, "score")
    with pytest.raises(UserError, match="clean and corrupted are of different queries"):
        Values.from_parts(model, {"clean": whole, "corrupted": one_query}, "score")
    one, other = (Values.from_parts(model, {"clean": rows}, "score") for rows in (whole, one_query))
    with pytest.raises(UserError, match="plain and toy/tiny/triplet/plain were asked different quer"):
        one.against(other, ["clean"])


def test_a_method_is_compared_with_plain_of_its_loss_and_length() -> None:
    names = ["plain", "cured", "cured+512d", "plain+512d", "pretrained"]
    models = {of.model: of for of in (values(name, {0: drawn(1)}) for name in names)}
    found = {model[-1]: plain_of(models, model) for model in models}
    assert {method: plain and plain.model[-1] for method, plain in found.items()} == {
        "plain": None,
        "cured": "plain",
        "cured+512d": "plain+512d",
        "plain+512d": None,
        "pretrained": None,  # of no loss, of which nothing is plain
    }
    assert values("plain", {0: drawn(1)}).against(None, ["clean"]) == UNKNOWN


def test_each_trainings_levels_and_drop() -> None:
    results, _ = study()
    found = tabulate_seeds(results).set_index(["method", "seed"])
    expected = {("plain", 0): (50, 35, 30), ("plain", 1): (60, 35, 100 * (1 - 35 / 60))}
    expected |= {("bgaugment", seed): (50, 45, 10) for seed in (0, 1)}
    assert len(found) == 4
    for key, numbers in expected.items():
        assert found.loc[key, ["clean", "corrupted", "relative_drop"]].tolist() == pytest.approx(numbers)


def test_rank_correlations_are_scipys_and_of_few_or_alike_models_there_is_none() -> None:
    random = np.random.default_rng(0)
    a, b = random.integers(0, 8, 17), random.normal(size=17)
    assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)
    ten, gap = np.arange(10.0), np.r_[np.nan, np.arange(9.0)]
    assert spearman(ten, -ten) == -1
    for other in (gap, np.ones(10)):
        assert np.isnan(spearman(ten, other))


def test_methods_are_corrected_beside_the_plain_model_of_their_length() -> None:
    """Two of 512 numbers and one of the usual length: Holm doubles the smaller p of the two alone."""
    values = {"one": 0.02, "one+512d": 0.02, "two+512d": 0.04}
    model = dict.fromkeys(("dataset", "backbone", "loss"), "x") | {"folds": 4}
    table = tabulate_models([model | {"method": name, "gain_p": p} for name, p in values.items()])
    assert table["gain_p_holm"].tolist() == pytest.approx([0.02, 0.04, 0.04])
    assert "length" not in table
