"""Table 10: the drop and its steps among the queries with the worst and the best masks."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from caption_studies import selected
from stepped import LABELS, QUERIES, SEEDS, naive, queries

import bgbias
from bgbias.evaluation.metrics import MATCHED_OTHERS
from bgbias.report import formats
from bgbias.report.tables import mask_quality
from bgbias.report.tables.mask_quality import PARTS

# Of each class as many queries in each third, in another order than that of their names.
ORDER = np.random.default_rng(0).permutation(3)
THIRD = ORDER[np.arange(QUERIES) // 16]


def masks(clarity: np.ndarray, iou: float = math.nan) -> pd.DataFrame:
    """A table of masks, its rows in another order than the queries'."""
    ids = [f"{n}.jpg" for n in range(QUERIES)]
    table = pd.DataFrame({"image_id": ids, "clarity": clarity, "iou": iou})
    return table.sample(frac=1, random_state=1)


CLARITY = 0.2 + 0.3 * THIRD + np.linspace(0, 0.1, QUERIES)


def made(values: pd.DataFrame, of_masks: pd.DataFrame) -> pd.DataFrame:
    return mask_quality.table(values, {"toy": of_masks}).set_index("method")


def test_thirds_lose_what_their_queries_lose() -> None:
    values = queries()
    for method, row in made(values, masks(CLARITY)).iterrows():
        assert row["measure"] == "clarity"
        assert row["worst_from"] == CLARITY[THIRD == 0].min()
        assert row["best_to"] == CLARITY[THIRD == 2].max()
        for name, (before, after) in PARTS.items():
            for third, chosen in (("worst", THIRD == 0), ("best", THIRD == 2)):
                parts = [naive(values, str(method), condition)[:, chosen] for condition in (before, after)]
                expected = bgbias.estimate(parts, LABELS[chosen], lambda a, b: a - b)
                found = [row[f"{name}_{third}{end}"] for end in ("", "_low", "_high")]
                assert found == pytest.approx([100 * expected.value, 100 * expected.low, 100 * expected.high])
        lost = naive(values, str(method), "clean") - naive(values, str(method), "random_background")
        assert row["drop_more"] == pytest.approx(
            100 * (lost[:, THIRD == 0].mean() - lost[:, THIRD == 2].mean())
        )


def test_a_difference_between_thirds_is_judged_without_each_class_and_seed() -> None:
    values = queries()
    lost = naive(values, "plain", "clean") - naive(values, "plain", "random_background")

    def without(seed: int | None = None, label: int | None = None, both: bool = False) -> float:
        kept = np.ones_like(lost, dtype=bool)
        if both:
            kept[seed, label == LABELS] = False
        elif seed is not None:
            kept[seed] = False
        else:
            kept[:, label == LABELS] = False
        worst, best = (lost[:, t == THIRD][kept[:, t == THIRD]].mean() for t in (0, 2))
        return float(worst - best)

    def variance(numbers: list[float]) -> float:
        return (len(numbers) - 1) * float(np.var(numbers))

    seeds = variance([without(seed=s) for s in range(len(SEEDS))])
    classes = variance([without(label=c) for c in range(8)])
    cells = np.array([[without(s, c, both=True) for c in range(8)] for s in range(len(SEEDS))])
    left = cells - cells.mean(0) - cells.mean(1)[:, None] + cells.mean()
    together = (left**2).sum() * (cells.size - 1) ** 2 / cells.size / (len(SEEDS) - 1) / 7
    row = made(values, masks(CLARITY)).loc["plain"]
    from scipy import stats

    parts = [(seeds, len(SEEDS) - 1), (classes, 7)]
    power, inverse = 1 + 3 / (len(SEEDS) - 1), 0.0
    for (whole, few), (other, many) in (parts, parts[::-1]):
        first = stats.t.ppf(0.975, few) ** 2 * whole
        second = stats.t.ppf(0.975, many) ** 2 * max(other - together, 0)
        inverse += many / (few + many) / (first**power + second**power) ** (1 / power)
    assert row["drop_more_high"] - row["drop_more"] == pytest.approx(100 * inverse**-0.5)


def test_true_masks_say_more_than_the_maskers_word() -> None:
    row = made(queries(), masks(CLARITY).assign(iou=lambda table: 1 - table["clarity"])).loc["plain"]
    assert row["measure"] == "iou"
    assert row["worst_to"] < row["best_from"] <= 0.8


def test_masks_that_do_not_differ_have_no_thirds() -> None:
    alike = mask_quality.table(queries(), {"toy": masks(np.ones(QUERIES))})
    assert alike["measure"].isna().all()
    assert alike["drop_worst"].isna().all()
    assert alike["drop_more_p_holm"].isna().all()
    assert "Drop, worst" not in formats.markdown(
        alike, "table10", mask_quality.caption(selected(), alike, {})
    )


def test_what_a_class_means_for_others_widens_intervals() -> None:
    values = queries()
    apart = values.assign(**{MATCHED_OTHERS["symmetric"]: np.where(values["label"] < 4, 0.3, -0.3)})
    narrow, wide = (made(table, masks(CLARITY)).loc["plain"] for table in (values, apart))
    assert narrow["drop_best"] == wide["drop_best"]
    paths = [apart["condition"] != "clean", apart["condition"] == "clean"]
    moved = apart.assign(
        **{MATCHED_OTHERS["symmetric"]: np.select(paths, [0.0, apart[MATCHED_OTHERS["symmetric"]]])}
    )
    found = made(moved, masks(CLARITY)).loc["plain"]
    assert found["drop_best_high"] - found["drop_best"] > narrow["drop_best_high"] - narrow["drop_best"]


def test_it_is_printed() -> None:
    table = mask_quality.table(queries(), {"toy": masks(CLARITY)})
    said = mask_quality.caption(selected(), table, {"toy": 2})
    printed = formats.markdown(table, "table10", said)
    assert "clarity 0.2" in printed
    assert "Lower minus upper" in printed
    assert "Clarity: how far a mask is one piece" in printed
    assert "IoU" not in printed
    formats.latex(table, "table10", said).encode("ascii")
