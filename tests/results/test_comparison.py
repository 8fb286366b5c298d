"""Several models on the same queries: numbers against estimates by hand, and what is concluded of them."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.results import comparison, uncertainty
from bgbias.results.comparison import compare, over_classes
from tests.support.asked_models import IDS, LABELS, model


def means(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Each query's MAP@R, clean and changed."""
    clean = frame[frame["condition"] == "clean"].set_index("image_id")["map_at_r"]
    changed = frame[frame["condition"] != "clean"].groupby("image_id")["map_at_r"].mean()
    return clean[IDS].to_numpy(), changed[IDS].to_numpy()


def test_levels_drops_and_differences_are_those_of_the_estimates() -> None:
    of = {"a": model(0.7, 0.5), "b": model(0.6, 0.45)}
    found = compare(of)
    (a_clean, a_changed), (_, b_changed) = (means(frame) for frame in of.values())
    row = found.models.set_index("model").loc["a"]
    assert (row["clean"], row["changed"]) == pytest.approx((a_clean.mean(), a_changed.mean()))
    drop = uncertainty.estimate([a_clean, a_changed], LABELS, uncertainty.relative_drop)
    ends = row["drop"], row["drop_low"], row["drop_high"]
    assert ends == pytest.approx((drop.value, drop.low, drop.high))
    (pair,) = found.pairs.to_dict("records")
    more = uncertainty.estimate([a_changed, b_changed], LABELS, uncertainty.difference)
    assert (pair["model"], pair["other"]) == ("a", "b")
    assert pair["changed"] == pytest.approx(a_changed.mean() - b_changed.mean())
    assert (pair["changed_low"], pair["changed_high"]) == pytest.approx((more.low, more.high))
    # One pair, one test: nothing to correct for.
    assert pair["changed_p_holm"] == pytest.approx(more.p)
    b_more = comparison.differences(found.pairs, "a")["b"]
    assert (b_more.value, b_more.low, b_more.high) == pytest.approx((-more.value, -more.high, -more.low))
    # Queries that one model lacks are of none.
    part = compare(of | {"b": of["b"][of["b"]["image_id"] != IDS[0]]})
    assert set(part.models["queries"]) == {len(IDS) - 1}
    assert IDS[0] not in part.queries.index


def test_the_best_is_named_alone_only_beyond_chance() -> None:
    clear = compare({"good": model(0.7, 0.6), "bad": model(0.7, 0.4), "worse": model(0.7, 0.3)})
    assert clear.choice == comparison.Choice("good", (), ("bad", "worse"), (), True)
    unclear = compare({"a": model(0.7, 0.5, 0.3), "b": model(0.7, 0.5, 0.3, 1), "c": model(0.7, 0.1)})
    assert {unclear.choice.best, *unclear.choice.as_good} == {"a", "b"}
    assert unclear.choice.worse == ("c",)
    of = {name: model(0.7, level) for name, level in (("a", 0.6), ("b", 0.2))}
    few = {name: frame[frame["label"] < uncertainty.FEWEST_CLASSES - 1] for name, frame in of.items()}
    choice = compare(few).choice
    assert (choice.best, choice.as_good, choice.is_tested) == ("a", ("b",), False)


def test_references_are_measured_and_never_chosen() -> None:
    """On the front are candidates than whom none is better in both."""
    of = {"far": model(0.8, 0.3), "near": model(0.5, 0.45), "behind": model(0.45, 0.2), "r": model(0.9, 0.8)}
    found = compare(of, ["r"])
    choice = found.choice
    assert (choice.best, choice.worse, choice.unbeaten) == ("near", ("far", "behind"), ("r",))
    rows = found.models.set_index("model")
    assert rows.index[0] == "r"
    assert rows["is_on_front"].to_dict() == {"r": False, "near": True, "far": True, "behind": False}
    with pytest.raises(UserError, match="only references"):
        compare({"r": model(0.9, 0.8)}, ["r"])


def test_an_order_that_other_classes_would_change_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "SPLITS", 40)
    apart = {name: model(0.8, level) for name, level in zip("abcd", (0.7, 0.5, 0.3, 0.1), strict=True)}
    stable = compare(apart).stability
    assert stable
    assert stable.is_trusted
    assert (stable.of_classes.value, stable.of_draws.value) == pytest.approx((1, 1))
    alike = {name: model(0.8, 0.5, 0.3, key) for key, name in enumerate("abcdefgh")}
    found = compare(alike)
    assert len(found.pairs) == 8 * 7 / 2  # all of which p is corrected for
    assert found.pairs["changed_p_holm"].to_numpy() == pytest.approx(
        uncertainty.holm(found.pairs["changed_p"])
    )
    assert (found.pairs["changed_p_holm"] > found.pairs["changed_p"]).any()
    unstable = found.stability
    assert unstable
    assert not unstable.is_trusted
    assert unstable.of_classes.low < 0 < unstable.of_classes.high
    assert unstable.of_draws.low < unstable.of_draws.value < unstable.of_draws.high
    first = compare({name: frame[frame["draw"] == 0] for name, frame in alike.items()}).stability
    assert first
    assert math.isnan(first.of_draws.value)
    assert compare({"a": apart["a"], "b": apart["b"]}).stability is None


def test_an_interval_over_classes_is_students_where_a_mean_is_asked() -> None:
    values = seeds.generator("intervals over classes").normal(0, 0.1, 200)
    found = over_classes(lambda rows: float(values[rows].mean()), 200)
    expected = stats.t.interval(0.95, 199, values.mean(), stats.sem(values))
    assert (found.low, found.high) == pytest.approx(expected, abs=0.1 * stats.sem(values))
