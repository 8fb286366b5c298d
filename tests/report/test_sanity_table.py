"""Table 8: what holds and what fails is said in its caption."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from caption_studies import selected

import bgbias
from bgbias.errors import UserError
from bgbias.report import formats
from bgbias.report.tables import sanity
from bgbias.results import uncertainty

SEEDS, IMAGES = (0, 1, 2, 3, 4), 40
LABELS = np.arange(IMAGES) % 8
SCORES = {
    "plain": {"model": 0.3, "embedder": 0.25, "upper_half": 0.2, "all": 0.1, "centre": 0.15, "noise": 0.0},
    "bgaugment": {"model": 0.1, "embedder": 0.1, "upper_half": 0.1, "all": 0.1, "centre": 0.15, "noise": 0.0},
}


def cell(method: str, seed: int) -> dict[str, object]:
    return {"dataset": "toy", "backbone": "tiny", "loss": "contrastive", "method": method, "seed": seed}


def score(method: str, kind: str, seed: int) -> np.ndarray:
    random = np.random.default_rng([seed, list(SCORES).index(method), sanity.KINDS.index(kind)])
    made: np.ndarray = SCORES[method][kind] + 0.01 * LABELS + 0.01 * seed + random.normal(0, 0.02, IMAGES)
    return made


def values() -> pd.DataFrame:
    tables = []
    for method in SCORES:
        for seed in SEEDS:
            for kind in sanity.KINDS:
                of = {"image_id": [f"{n}.jpg" for n in range(IMAGES)], "label": LABELS, "kind": kind}
                made = score(method, kind, seed)
                faithful = made / 2 if kind in sanity.JUDGED else np.nan
                tables.append(pd.DataFrame({**cell(method, seed), **of, "score": made, "faithful": faithful}))
    return pd.concat(tables, ignore_index=True)


def levels() -> pd.DataFrame:
    """The less of the attribution lies on the object, the more is lost."""
    rows = [
        cell(m, s) | {"relative_drop": 90 - 100 * score(m, "model", s).mean()} for m in SCORES for s in SEEDS
    ]
    return pd.DataFrame(rows)


def test_scores_are_compared_with_those_of_a_network_that_forgot() -> None:
    table = sanity.table(values(), levels()).set_index("method")
    p = []
    for method, row in table.iterrows():
        parts = [np.array([score(str(method), kind, s) for s in SEEDS]) for kind in ("model", "all")]
        more = bgbias.estimate(parts, LABELS, lambda model, forgot: model - forgot)
        assert row["over_all"] == pytest.approx(more.value)
        assert [row["over_all_low"], row["over_all_high"]] == pytest.approx([more.low, more.high])
        assert row["model"] == pytest.approx(parts[0].mean())
        centre = np.array([score(str(method), "centre", s) for s in SEEDS])
        assert row["faithful_over_centre"] == pytest.approx((parts[0] - centre).mean() / 2)
        p.append(more.p)
    assert table["over_all_p_holm"].tolist() == pytest.approx(uncertainty.holm(p))
    assert table["rho"].tolist() == [-1, -1]


def test_the_caption_says_what_fails() -> None:
    table = sanity.table(values(), levels())
    said = sanity.caption(selected(), table, {})
    assert (
        "Of 2 models, the score of 1 is significantly more than that of their copy that forgot everything"
        in said
    )
    assert "that of 1 lies above the centre prior's" in said
    assert "maps of 1 are significantly more faithful than the centre prior" in said
    assert "toy · tiny rho −1.00, 10 models in 2 rows" in said
    assert "All forgot" in formats.markdown(table, "table8", said)
    assert r"\shortstack[r]{Embedding\\layer\\forgot}" in formats.latex(table, "table8", said)


def test_a_kind_that_is_missing_is_told() -> None:
    whole = values()
    lacking = whole[~((whole["kind"] == "upper_half") & (whole["seed"] == 3))]
    with pytest.raises(UserError, match="toy/tiny/contrastive/plain lacks values a query for upper_half"):
        sanity.table(lacking, levels())
