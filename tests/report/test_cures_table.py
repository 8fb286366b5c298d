"""Table 7: each model beside itself with every cure, paired, corrected for as many."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from caption_studies import selected

import bgbias
from bgbias.errors import UserError
from bgbias.evaluation.metrics import OTHERS
from bgbias.report import formats
from bgbias.report.tables import cures
from bgbias.results import uncertainty

SEEDS, QUERIES, DRAWS = (0, 1, 2), 48, 2
LABELS = np.arange(QUERIES) % 8
CURES = {"grey": 0.25, "leace": 0.01}
VIEWS = (
    ("symmetric", "clean", 0.8),
    ("symmetric", "random_background", 0.3),
    ("query", "random_background", 0.4),
)


def cell(method: str, seed: int) -> dict[str, object]:
    loss = "none" if method == "pretrained" else "contrastive"
    return {"dataset": "toy", "backbone": "tiny", "loss": loss, "method": method, "seed": seed}


def values(seed: int, draw: int, view: int, more: float = 0.0) -> np.ndarray:
    random = np.random.default_rng([seed, draw, view, round(1000 * more)])
    return VIEWS[view % 3][2] * (0.8 + 0.03 * LABELS) + more + random.normal(0, 0.02, QUERIES)


def rows(method: str, seed: int, more: float = 0.0, cure: str = "", draws: int = DRAWS) -> pd.DataFrame:
    shown = [*VIEWS, *([("query", "clean", 0.5)] if cure else [])]
    tables = []
    for view, (setting, condition, _) in enumerate(shown):
        for draw in range(draws if condition == "random_background" else 1):
            where = {"setting": setting, "condition": condition, "draw": draw} | (
                {"cure": cure} if cure else {}
            )
            of = {"image_id": [f"{n}.jpg" for n in range(QUERIES)], "label": LABELS, OTHERS: 0.0}
            tables.append(
                pd.DataFrame(
                    {**cell(method, seed), **where, **of, "map_at_r": values(seed, draw, view, more)}
                )
            )
    return pd.concat(tables, ignore_index=True)


METHODS = {"pretrained": (0,), "plain": SEEDS, "bgaugment": SEEDS}


def tables() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    # The study has more draws than its cures: only the first ones are compared.
    before = [rows(m, s, draws=5) for m, seeds in METHODS.items() for s in seeds]
    cured = [rows(m, s, more, c) for m, seeds in METHODS.items() for s in seeds for c, more in CURES.items()]
    facts = [
        cell(m, s)
        | {"cure": c, "index": index, "removed": removed, "ms": ms + s, "alone_ms": 2.0}
        | {"weight": 0.1 * s if c == "grey" else float("nan"), "bytes": 512}
        for m, seeds in METHODS.items()
        for s in seeds
        for c, index, removed, ms in (("grey", "again", 0, 30.0), ("leace", "mapped", 19, 2.0))
    ]
    return pd.concat(before), pd.concat(cured), pd.DataFrame(facts)


def test_a_row_for_each_cure_stands_below_its_model_and_is_compared_with_it() -> None:
    table = cures.table(*tables(), DRAWS)
    assert table["method"].tolist() == [
        name for method in METHODS for name in (method, *(f"{method}+{cure}" for cure in CURES))
    ]
    by_method = table.set_index("method")
    alone = np.array([np.mean([values(s, d, 1) for d in range(DRAWS)], axis=0) for s in SEEDS])
    assert by_method.loc["plain", "corrupted"] == pytest.approx(100 * alone.mean())
    found = []
    for cure, more in CURES.items():
        row = by_method.loc[f"plain+{cure}"]
        with_it = np.array([np.mean([values(s, d, 1, more) for d in range(DRAWS)], axis=0) for s in SEEDS])
        gain = bgbias.estimate([with_it, alone], LABELS, lambda a, b: a - b)
        assert row["corrupted_gain"] == pytest.approx(100 * gain.value)
        assert [row["corrupted_gain_low"], row["corrupted_gain_high"]] == pytest.approx(
            [100 * gain.low, 100 * gain.high]
        )
        found.append((gain.p, row["corrupted_gain_p_holm"]))
        clean = np.array([values(s, 0, 0, more) for s in SEEDS]).mean()
        assert row["relative_drop"] == pytest.approx(100 * (1 - with_it.mean() / clean))
    assert [holm for _, holm in found] == pytest.approx(uncertainty.holm([p for p, _ in found]))
    assert by_method.loc["plain+grey", "ms"] == 31
    assert by_method.loc["plain", "ms"] == 2
    assert by_method.loc["plain+grey", ["weight", "bytes"]].tolist() == pytest.approx([0.1, 512])
    assert by_method.loc[["plain", "plain+leace"], "weight"].isna().all()
    assert by_method["seeds"].tolist() == [1] * 3 + [3] * 6


def test_it_is_printed_with_names_that_people_use() -> None:
    table = cures.table(*tables(), DRAWS)
    printed = formats.markdown(table, "table7", cures.caption(selected(), table, {}))
    lines = [line.split("|")[1].strip() for line in printed.splitlines() if line.startswith("| ")]
    assert lines[-9:] == [
        "Backbone alone",
        "Backbone alone + grey background",
        "Backbone alone + LEACE of backgrounds",
        "Contrastive",
        "+ grey background",
        "+ LEACE of backgrounds",
        "+ BGAugment",
        "+ BGAugment + grey background",
        "+ BGAugment + LEACE of backgrounds",
    ]
    assert "made again" in printed
    assert "multiplied once" in printed
    assert "Weight: of second pictures" in printed
    without = table.drop(columns=["weight", "bytes"])
    assert "Weight" not in formats.markdown(without, "table7", cures.caption(selected(), without, {}))
    # Three seeds were trained, whatever was not trained at all.
    assert cures.caption(selected(), table, {}).startswith("**Cures without training.** MAP@R")


def test_a_cure_that_lacks_queries_is_told() -> None:
    before, cured, facts = tables()
    lacking = cured[~((cured["cure"] == "leace") & (cured["seed"] == 1) & (cured["draw"] == 1))]
    with pytest.raises(
        UserError, match=r"toy/tiny/contrastive/plain\+leace lacks values a query for corrupted"
    ):
        cures.table(before, lacking, facts, DRAWS)


def test_cures_are_judged_across_places_where_photos_say_theirs() -> None:
    before, cured, facts = tables()
    assert "other_place" not in cures.table(before, cured, facts, DRAWS)

    def with_places(values: pd.DataFrame) -> pd.DataFrame:
        clean = values[(values["condition"] == "clean") & (values["setting"] == "symmetric")]
        other = clean.assign(setting="other_place", map_at_r=clean["map_at_r"] / 2, place=0.0)
        return pd.concat([values, other])

    made = cures.table(with_places(before), with_places(cured), facts, DRAWS)
    pd.testing.assert_series_equal(made["other_place"], made["clean"] / 2, check_names=False)
    pd.testing.assert_series_equal(made["other_place_gain"], made["clean_gain"] / 2, check_names=False)
