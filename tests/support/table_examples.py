"""An example of the input of each of the report's tables that is made of values a query. What is made once is shared: tests
that change it change a copy.
"""

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from asked_models import model
from table_inputs import (
    CLEAN,
    CORRUPTED,
    IDS,
    LABELS,
    MODEL,
    QUERIES,
    QUERY,
    SEEDS,
    frame,
    noise,
    queries,
    runs,
)

from bgbias import seeds
from bgbias.evaluation.metrics import OF_DONOR, OTHERS
from bgbias.report.tables import sanity
from bgbias.results import places

# -- of the steps of the drop (Tables 5 and 10) ----------------------------------------------------------------------

STEPS = {
    **{"clean": 0.8, "own_inpainted": 0.78, "mixed_same": 0.6, "random_background": 0.3, "mixed_rand": 0.25},
    **{"only_fg": 0.4, "moved": 0.7, "scaled": 0.75},
}


@cache
def stepped(of_seeds: tuple[int, ...] = SEEDS, shown: tuple[str, ...] = tuple(STEPS)) -> pd.DataFrame:
    both = {(setting, name): STEPS[name] for name in shown for setting in ("symmetric", "query")}
    del both["query", "clean"]
    return queries({"plain": 1.0, "bgaugment": 0.9}, both, of_seeds)


# -- of crossed objects and backgrounds (Table 6) ----------------------------------------------------------------------

CROSSED = {"plain": 0.5, "bgaugment": 0.7, "attr_frac": 0.6, "sam_siamese": 0.4}
BACKGROUNDS = (4, 0, 9, 3, 1, 2)


@cache
def crossed() -> pd.DataFrame:
    parts = [
        frame(run, background=number, map_at_r=level, cosine=1 - level / 2)
        for run in runs(CROSSED)
        for number in BACKGROUNDS
        for level in [CROSSED[run["method"]] + 2 * noise(run["method"], run["seed"], number)]
    ]
    return pd.concat(parts, ignore_index=True).sample(frac=1, random_state=0)


def shares(negative: str = "") -> pd.DataFrame:
    rows = pd.DataFrame(runs(CROSSED)).assign(interaction=0.1, negative="")
    n, seed = rows["method"].map({name: n for n, name in enumerate(CROSSED)}), rows["seed"]
    rows.loc[0, "negative"] = negative
    return rows.assign(object=0.9 - 0.1 * n - 0.01 * seed, background=0.05 * n + 0.02 * seed)


# -- of cures without training (Table 7) -------------------------------------------------------------------------------

CURES = {"grey": 1.4, "leace": 1.01}
CURED_METHODS = {"pretrained": 0.6, "plain": 1.0, "bgaugment": 1.1}


@cache
def cures() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The study has more draws than its cures: only the first ones are compared."""
    before = queries(CURED_METHODS, draws=5)
    views = {CLEAN: 0.7, CORRUPTED: 0.3, QUERY: 0.4, ("query", "clean"): 0.5}
    cured = [
        queries({method: more * share for method, share in CURED_METHODS.items()}, views, cure=cure)
        for cure, more in CURES.items()
    ]
    of_cures = pd.DataFrame(
        {"cure": [*CURES], "index": ["again", "mapped"], "removed": [0, 19], "ms": [30.0, 2.0]}
    )
    facts = pd.DataFrame(runs(CURED_METHODS)).merge(of_cures, how="cross").assign(alone_ms=2.0, bytes=512)
    weight = (0.1 * facts["seed"]).where(facts["cure"] == "grey")
    return before, pd.concat(cured), facts.assign(ms=facts["ms"] + facts["seed"], weight=weight)


# -- of networks that forgot and maps that saw nothing (Table 8) -------------------------------------------------------

FORGOT = {
    "plain": {"model": 0.3, "embedder": 0.25, "upper_half": 0.2, "all": 0.1, "centre": 0.15, "noise": 0.0},
    "bgaugment": {"model": 0.1, "embedder": 0.1, "upper_half": 0.1, "all": 0.1, "centre": 0.15, "noise": 0.0},
}
OF_FIVE = (0, 1, 2, 3, 4)


@cache
def forgot() -> pd.DataFrame:
    parts = []
    for run in runs(FORGOT, OF_FIVE):
        for kind, level in FORGOT[run["method"]].items():
            score = level + noise(run["method"], run["seed"], kind) + 0.01 * run["seed"]
            faithful = score / 2 if kind in sanity.JUDGED else np.nan
            parts.append(frame(run, kind=kind, score=score, faithful=faithful))
    return pd.concat(parts, ignore_index=True)


@cache
def drops_of_forgot() -> pd.DataFrame:
    """The less of the attribution lies on the object, the more is lost."""
    own = forgot().query("kind == 'model'").groupby([*MODEL, "method", "seed"])["score"].mean()
    return (90 - 100 * own).rename("relative_drop").reset_index()


# -- under attack (Table 9) ----------------------------------------------------------------------------------------------

ATTACKED = {"dataset": "cub200", "backbone": "resnet50", "loss": "roth_multi_similarity"}
ATTACKS = {"stax@0.01": (0.3, 0.2), "mtax:5@0.01": (0.4, 0.1)}
ATTACKED_METHODS = {"plain": 1.0, "mdprop_2": 1.2}


@cache
def attacked() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, dict[str, float]]:
    before = queries(ATTACKED_METHODS).assign(**ATTACKED)
    under = [
        queries(ATTACKED_METHODS, {CLEAN: both, ("query", "clean"): query}, attack=name)
        for name, (both, query) in ATTACKS.items()
    ]
    views = {"view": ["clean", "random_background", "random_background", *ATTACKS], "draw": [0, 0, 1, 0, 0]}
    metrics = pd.DataFrame(runs(ATTACKED_METHODS)).merge(pd.DataFrame(views), how="cross").assign(**ATTACKED)
    nmi = 0.5 + 0.1 * metrics["seed"] + 0.2 * metrics["draw"]
    name = "/".join(ATTACKED.values())
    costs = {f"{name}/plain": 1.0, f"{name}/mdprop_2": 5.2}
    metrics = metrics.assign(nmi=nmi, pi_ratio=1.0 + metrics["seed"])
    return before, pd.concat(under).assign(**ATTACKED), metrics, costs


# -- of backbones that learned without labels (Tables 12 to 14) ------------------------------------------------------------

BACKBONES = {"bare": 0.5, "moco": 0.7, "moco_patches": 0.55}
AGAINST = {"moco": "bare", "moco_patches": "moco"}


def of_backbones(
    backbones: dict[str, tuple[int, ...]], whats: dict[str, dict[str, Any]], column: str
) -> pd.DataFrame:
    """A row a query of pretrained networks: in ``column`` about the level of ``BACKBONES``, half of it where it is corrupted."""
    parts = []
    for backbone, of_seeds in backbones.items():
        for seed, (what, columns) in product(of_seeds, whats.items()):
            level = BACKBONES[backbone] * (0.5 if "corrupted" in what else 1)
            model = {"backbone": backbone, "loss": "none", "method": "pretrained", "seed": seed, "draw": 0}
            parts.append(frame(MODEL | model, columns, **{column: level + 2 * noise(backbone, what, seed)}))
    return pd.concat(parts, ignore_index=True)


ALL_SEEDS: dict[str, tuple[int, ...]] = {"bare": (0,), "moco": OF_FIVE, "moco_patches": OF_FIVE}
CONDITIONS = {"clean": {"condition": "clean"}, "corrupted": {"condition": "random_background"}}


def probed(backbones: dict[str, tuple[int, ...]] = ALL_SEEDS) -> pd.DataFrame:
    made = of_backbones(backbones, CONDITIONS, "linear")
    return made.assign(nearest=made["linear"] / 2)


def pretrained(backbones: dict[str, tuple[int, ...]] = ALL_SEEDS) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Their queries, and their attribution scores."""
    views = {name: of | {"setting": "symmetric"} for name, of in CONDITIONS.items()}
    views["query corrupted"] = CONDITIONS["corrupted"] | {"setting": "query"}
    of_queries = of_backbones(backbones, views, "map_at_r").assign(**{OTHERS: 0.0})
    variants = {name: {"variant": name} for name in ("ref", "robust")}
    return of_queries, of_backbones(backbones, variants, "score")


LEARNED = {
    "bare": {"negatives": "none", "alpha": 0.0, "alike": "bare"},
    "patches": {"negatives": "patches", "alpha": 2.0, "alike": "bare"},
}
SHAPES = {"bare": 0.2, "patches": 0.5}


@cache
def decisions() -> pd.DataFrame:
    """Queries that follow the silhouette's class, the texture's, or neither."""
    parts = []
    for backbone, seed, draw in product(SHAPES, SEEDS, range(2)):
        drawn = seeds.generator("decisions", backbone, seed, draw).random(QUERIES) - 0.02 * LABELS
        shape = drawn < SHAPES[backbone]
        model = {"backbone": backbone, "loss": "none", "method": "pretrained", "seed": seed}
        view = {"setting": "query", "condition": "cue_conflict", "draw": draw, OTHERS: 0.0}
        found = {"precision_at_1": shape.astype(float), OF_DONOR: (~shape & (drawn < 0.7)).astype(float)}
        parts.append(frame(MODEL | model, view, **found))
    return pd.concat(parts, ignore_index=True)


# -- of masks (Table 10) ---------------------------------------------------------------------------------------------------

# Of each class as many queries in each third, in another order than that of their names.
THIRD = np.random.default_rng(0).permutation(3)[np.arange(QUERIES) // 16]
CLARITY = 0.2 + 0.3 * THIRD + np.linspace(0, 0.1, QUERIES)


def masks(clarity: np.ndarray = CLARITY, iou: float | np.ndarray = np.nan) -> dict[str, pd.DataFrame]:
    """A table of masks, its rows in another order than the queries'."""
    table = pd.DataFrame({"image_id": IDS, "clarity": clarity, "iou": iou})
    return {"toy": table.sample(frac=1, random_state=1)}


# -- of models as they come (Table 15) ---------------------------------------------------------------------------------------

LEVELS = {"resnet50": (0.7, 0.5), "mobilenet": (0.6, 0.3), "vit": (0.75, 0.45)}


@cache
def as_they_come(datasets: tuple[str, ...] = ("birds",)) -> pd.DataFrame:
    """Pretrained models, and one that was trained, of which Table 15 says nothing."""
    own = [
        model(*levels).assign(dataset=dataset, backbone=name, loss="none", method="pretrained")
        for dataset in datasets
        for name, levels in LEVELS.items()
    ]
    other = model(0.9, 0.9).assign(dataset="birds", backbone="resnet50", loss="arcface", method="plain")
    return pd.concat([*own, other], ignore_index=True)


# -- of two places (Table 16) ------------------------------------------------------------------------------------------------


@cache
def visited() -> pd.DataFrame:
    """Half of each class was seen at another place than the rest; what is lost there the backgrounds carry in part."""
    levels = {"here": 0.7, "there": 0.5, "composite": 0.4}
    levels |= {"here_on_here": 0.6, "there_on_here": 0.3, "there_on_there": 0.5}
    views = {view: levels[name] for name, view in (places.LEVELS | places.CARRIED).items()}
    place = np.where(np.arange(QUERIES) < QUERIES // 2, "visit 0", "visit 1")
    made = queries({"plain": 1.0, "bgaugment": 1.1}, views)
    return made.assign(place=made["image_id"].map(dict(zip(IDS, place, strict=True))))
