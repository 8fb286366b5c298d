"""Results of models written by hand, for the tests of tables."""

import pandas as pd
from table_inputs import results

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
    parts = []
    for (loss, method), seeds in models.items():
        for seed, values in seeds.items():
            name = {"dataset": dataset, "backbone": backbone, "loss": loss, "method": method, "seed": seed}
            views = [("symmetric", "clean", 0, values["clean"][0])]
            for draw, corrupted in enumerate(values["corrupted"]):
                views.append(("symmetric", "random_background", draw, corrupted))
                views.append(("query", "random_background", draw, [0.44, 0.44]))
            for setting, condition, draw, scores in views:
                where = {"setting": setting, "condition": condition, "draw": draw, "image_id": IMAGES}
                found = {"label": range(6), "map_at_r": scores * 3, "precision_at_1": 1.0, OTHERS: 0.0}
                parts.append(pd.DataFrame(name | where | found))
    queries = pd.concat(parts, ignore_index=True)
    return results(queries), queries


def attribution(
    scores: dict[tuple[str, int], list[float]], further: dict[str, float] | None = None
) -> pd.DataFrame:
    """Attribution scores by (method, seed), one an image, each of a class of its own; NaN for an image that was skipped. Each
    variant is shifted, those of ``further`` too.
    """
    rows = [
        (method, seed, f"{number}.jpg", number, variant, value + shift)
        for (method, seed), values in scores.items()
        for variant, shift in ({"ref": 0.0, "robust": 0.1} | (further or {})).items()
        for number, value in enumerate(values)
    ]
    frame = pd.DataFrame(rows, columns=["method", "seed", "image_id", "label", "variant", "score"])
    skipped = frame["score"].isna().map({True: "empty mask", False: ""})
    return frame.assign(dataset="cub200", backbone="bn_inception", loss="triplet", skipped=skipped)
