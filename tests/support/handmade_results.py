"""Results of models written by hand, for the tests of tables."""

from __future__ import annotations

import math

import pandas as pd

from bgbias.evaluation.metrics import OTHERS

# Two values make six queries, each of a class of its own: the first of a, c and e, the second of b, d and f.
IMAGES = [f"{name}.jpg" for name in "abcdef"]
# MAP@R. Means: clean .5 and .6; corrupted .3 .4 for seed 0, .2 .5 for seed 1.
PLAIN = {
    0: {"clean": [[0.4, 0.6]], "corrupted": [[0.2, 0.4], [0.3, 0.5]]},
    1: {"clean": [[0.5, 0.7]], "corrupted": [[0.2, 0.2], [0.4, 0.6]]},
}
# Every query loses a tenth.
CURED = {seed: {"clean": [[0.4, 0.6]], "corrupted": [[0.36, 0.54]] * 2} for seed in (0, 1)}


def study(
    models: dict[tuple[str, str], dict] | None = None, dataset: str = "sop", backbone: str = "bn_inception"
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """results.csv and queries.parquet of hand-made models: six queries, two seeds, two draws."""
    models = models or {("contrastive", "plain"): PLAIN, ("contrastive", "bgaugment"): CURED}
    rows = []
    for (loss, method), seeds in models.items():
        for seed, values in seeds.items():
            name = {"dataset": dataset, "backbone": backbone, "loss": loss, "method": method, "seed": seed}
            conditions = [("symmetric", "clean", 0, values["clean"][0])]
            for draw, corrupted in enumerate(values["corrupted"]):
                conditions.append(("symmetric", "random_background", draw, corrupted))
                conditions.append(("query", "random_background", draw, [0.44, 0.44]))
            for setting, condition, draw, scores in conditions:
                where = {"setting": setting, "condition": condition, "draw": draw}
                for label, (image, score) in enumerate(zip(IMAGES, scores * 3, strict=True)):
                    found = {"map_at_r": score, "precision_at_1": 1.0, OTHERS: 0.0}
                    rows.append(name | where | {"image_id": image, "label": label} | found)
    queries = pd.DataFrame(rows)
    metrics = ["map_at_r", "precision_at_1"]
    keys = [c for c in queries if c not in (*metrics, "image_id", "label", OTHERS)]
    tidy = queries.melt(keys, metrics, var_name="metric").groupby([*keys, "metric"], sort=False)["value"]
    return tidy.agg(value="mean", n="count").reset_index(), queries


def attribution(
    scores: dict[tuple[str, int], list[float]], further: dict[str, float] | None = None
) -> pd.DataFrame:
    """Attribution scores by (method, seed), one an image, each of a class of its own; NaN for an image that was skipped. Each
    variant is shifted, those of ``further`` too.
    """
    rows = []
    for (method, seed), values in scores.items():
        for variant, shift in ({"ref": 0.0, "robust": 0.1} | (further or {})).items():
            for number, value in enumerate(values):
                rows.append(
                    {
                        "dataset": "cub200",
                        "backbone": "bn_inception",
                        "loss": "triplet",
                        "method": method,
                        "seed": seed,
                        "image_id": f"{number}.jpg",
                        "label": number,
                        "variant": variant,
                        "score": value + shift,
                        "skipped": "empty mask" if math.isnan(value) else "",
                    }
                )
    return pd.DataFrame(rows)
