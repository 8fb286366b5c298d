"""Table 12: accuracies over classes and seeds."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from caption_studies import selected

import bgbias
from bgbias.errors import UserError
from bgbias.report import formats
from bgbias.report.tables import probes

SEEDS, IMAGES = (0, 1, 2, 3, 4), 64
LABELS = np.arange(IMAGES) % 8
SHARES = {"tiny": 0.3, "learned": 0.7, "other": 0.32}


def right(backbone: str, probe: str, view: str, seed: int) -> np.ndarray:
    random = np.random.default_rng([seed, list(SHARES).index(backbone), len(probe), len(view)])
    share = SHARES[backbone] * (0.5 if view == "corrupted" else 1)
    made: np.ndarray = (random.random(IMAGES) < share + 0.02 * LABELS).astype(float)
    return made


def probed() -> pd.DataFrame:
    tables = []
    for backbone in SHARES:
        for seed in SEEDS if backbone != "tiny" else (0,):
            cell = {
                "dataset": "toy",
                "backbone": backbone,
                "loss": "none",
                "method": "pretrained",
                "seed": seed,
            }
            for view, condition in probes.VIEWS.items():
                of = {"image_id": [f"{n:02d}.jpg" for n in range(IMAGES)], "label": LABELS, "draw": 0}
                values = {name: right(backbone, name, view, seed) for name in ("linear", "nearest")}
                tables.append(pd.DataFrame({**cell, "condition": condition, **of, **values}))
    return pd.concat(tables, ignore_index=True)


def test_accuracies_are_over_classes_and_seeds() -> None:
    table = probes.table(probed()).set_index("backbone")
    own = {b: np.array([right(b, "linear", "clean", s) for s in SEEDS]) for b in ("learned", "other")}
    for backbone, values in own.items():
        level = bgbias.estimate([values], LABELS, lambda mean: mean)
        found = [table.at[backbone, f"linear_clean{end}"] for end in ("", "_low", "_high")]
        assert found == pytest.approx([100 * level.value, 100 * level.low, 100 * level.high])
    lost = bgbias.estimate(
        [own["learned"], np.array([right("learned", "linear", "corrupted", s) for s in SEEDS])],
        LABELS,
        lambda clean, corrupted: 1 - corrupted / clean,
    )
    assert table.at["learned", "linear_drop"] == pytest.approx(100 * lost.value)


def test_its_caption_says_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    table = probes.table(probed())
    study = selected(probes=SimpleNamespace(folds=5))
    monkeypatch.setattr(probes, "_on_training", lambda _: {})
    said = probes.caption(study, table, {"toy": 3})
    assert "have 5 or more" in said
    assert "each of 5 parts by those of the other 4" in said
    assert "are not asked: toy 3" in said
    monkeypatch.setattr(probes, "_on_training", lambda _: {"toy": "other"})
    fitted = probes.caption(study, table, {})
    assert (
        "fitted on clean photos of these classes: photos of toy by those of training photos of other."
        in fitted
    )
    assert "parts" not in fitted
    assert "Neighbours: drop, %" in formats.markdown(table, "table12", said)


def test_a_model_that_lacks_photos_is_told() -> None:
    whole = probed()
    lacking = whole.drop(whole.index[(whole["backbone"] == "other") & (whole["seed"] == 3)][5])
    with pytest.raises(UserError, match="toy/other/none/pretrained lacks values a query"):
        probes.table(lacking)
