"""The paper's two tables as numbers: one row a dataset, backbone, loss and method, every column in full precision.

Table 1 is what new backgrounds cost in retrieval, Table 2 how much of a model's attribution lies on the
object (Kobs & Hotho 2022). Percentages are 0..100. The spread over training seeds and the spread over
background draws are two columns, and every mean, spread and interval is made by ``statistics``. How the
tables look on paper is ``typesetting``'s affair.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bgbias import published, statistics, wording
from bgbias.errors import UserError
from bgbias.plan import Cell
from bgbias.seeds import generator
from bgbias.wording import PLAIN, PRETRAINED

MODEL = ["dataset", "backbone", "loss", "method"]
CELL = [*MODEL, "seed"]
SYMMETRIC, QUERY_ONLY = "symmetric", "query"
CLEAN, CORRUPTED = "clean", "random_background"
MAP_AT_R, P_AT_1 = "map_at_r", "precision_at_1"
VARIANTS = ("ref", "robust")
NEXT = "Complete the grid: snakemake --cores all"
# A mean of results.csv and the same mean from queries.parquet may differ by rounding, not by more.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class _PerQuery:
    """MAP@R query by query [N], means over seeds and draws, of the queries ``images`` in the order of their
    names.
    """

    images: pd.Index
    clean: np.ndarray
    corrupted: np.ndarray
    query_only: np.ndarray


def table1(
    results: pd.DataFrame,
    queries: pd.DataFrame,
    known: pd.DataFrame | None = None,
    cells: Sequence[Cell] = (),
) -> pd.DataFrame:
    """Table 1 from the tidy ``results`` and the per-query values: retrieval on clean and on corrupted photos.

    Columns after the model's four names: ``seeds``, ``draws``, ``queries``; ``clean`` and ``corrupted`` MAP@R
    in percent, the latter with query and gallery corrupted, and their sample sd over seeds and draws (NaN for
    a single one); ``drop`` in points and ``relative_drop`` in percent, with 95 % paired-bootstrap bounds
    ``_low`` and ``_high``; ``cure``, the relative drop of plain minus that of the method, in points, with
    bounds (NaN without a plain row); ``query_only``, MAP@R of corrupted queries against the clean gallery,
    and its relative drop; P@1; ``published_*`` and our ``difference_*`` to it where the paper has the cell.
    ``known`` is ``published.read()``. Raises UserError, naming the cell and what to type, when one of
    ``cells`` or one of a cell's conditions is missing, or when the two inputs are not of the same run.
    """
    _refuse_missing(results, cells)
    draws = _draws(results)
    by_model = queries.groupby(MODEL, sort=False, observed=True)
    made: list[dict[str, object]] = []
    plain: dict[tuple[str, str, str], _PerQuery] = {}
    models = wording.in_order(results[MODEL].drop_duplicates())
    for dataset, backbone, loss, method in models.itertuples(index=False):
        key = (dataset, backbone, loss, method)
        own = results[(results[MODEL] == key).all(axis=1)]
        if key not in by_model.groups:
            raise UserError(f"{'/'.join(key)} has scores but no values a query. {NEXT}")
        values = _per_query(by_model.get_group(key), key, draws)
        if method == PLAIN:
            plain[dataset, backbone, loss] = values
        row = (
            dict(zip(MODEL, key, strict=True)) | _scores(own, key, draws) | _drops(values, dataset, backbone)
        )
        _refuse_disagreement(row, key)
        row |= _cure(plain.get((dataset, backbone, loss)), values, key)
        for name, condition in (("clean", CLEAN), ("corrupted", CORRUPTED)):
            row |= _comparison(name, float(row[name]), known, (*key, MAP_AT_R, condition))
        made.append(row)
    return pd.DataFrame(made)


def table2(
    attribution: pd.DataFrame, known: pd.DataFrame | None = None, cells: Sequence[Cell] = ()
) -> pd.DataFrame:
    """Table 2 from one attribution score a test image, seed and variant (METHODS section 3).

    For each variant (``ref``: the paper's, ``robust``: ours) a mean over images and seeds, ``_sd_images``
    (ddof 0, the paper's +-), ``_sd_seeds`` (NaN for a single one), ``_negative`` (percent of images with a
    score below 0: more of the attribution on the background than its area explains), and ``_gain`` over plain
    on the images that both have, with 95 % paired-bootstrap bounds. ``images`` are those with every score,
    ``skipped`` the others by reason. The published score is compared with ``ref``. Raises UserError when one
    of ``cells`` or a variant is missing.
    """
    _refuse_missing(attribution, cells)
    made: list[dict[str, object]] = []
    plain: dict[tuple[str, str, str, str], pd.Series] = {}
    models = wording.in_order(attribution[MODEL].drop_duplicates())
    for dataset, backbone, loss, method in models.itertuples(index=False):
        key = (dataset, backbone, loss, method)
        own = attribution[(attribution[MODEL] == key).all(axis=1)]
        scored = own.pivot(index="image_id", columns=["variant", "seed"], values="score")
        row = dict(zip(MODEL, key, strict=True)) | {
            "seeds": own["seed"].nunique(),
            "images": int(scored.notna().all(axis=1).sum()),
            "skipped": _reasons(own),
        }
        for variant in VARIANTS:
            for seed in own["seed"].unique():
                if (variant, seed) not in scored or scored[variant, seed].isna().all():
                    raise UserError(
                        f"{'/'.join(key)}/seed{seed} has no attribution score '{variant}'. {NEXT}"
                    )
            row |= _score_spread(variant, scored[variant].to_numpy().T)
            image_means = pd.Series(statistics.per_query_mean(scored[variant].to_numpy().T), scored.index)
            if method == PLAIN:
                plain[dataset, backbone, loss, variant] = image_means
            row |= _gain(variant, plain.get((dataset, backbone, loss, variant)), image_means, key)
        row |= _comparison("ref", float(row["ref"]), known, (*key, "attribution_score", CLEAN))
        made.append(row)
    return pd.DataFrame(made)


def _refuse_missing(rows: pd.DataFrame, cells: Sequence[Cell]) -> None:
    present = set(rows[CELL].drop_duplicates().itertuples(index=False, name=None))
    missing = [c for c in cells if (c.dataset, c.backbone, c.loss, c.method, c.seed) not in present]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise UserError(f"There is no result for {missing[0].name}{more}. {NEXT}")
    if rows.empty:
        raise UserError(f"There is no result at all. {NEXT}")


def _draws(results: pd.DataFrame) -> list[int]:
    """The background draws that every model must have: those that any has."""
    return sorted(results.loc[results["condition"] == CORRUPTED, "draw"].unique().tolist()) or [0]


def _scores(own: pd.DataFrame, key: tuple[str, ...], draws: list[int]) -> dict[str, object]:
    """Means over queries of one model, in percent, and the two spreads."""
    clean = 100 * _seeds_by_draws(own, key, MAP_AT_R, SYMMETRIC, CLEAN, [0])
    corrupted = 100 * _seeds_by_draws(own, key, MAP_AT_R, SYMMETRIC, CORRUPTED, draws)
    query_only = 100 * _seeds_by_draws(own, key, MAP_AT_R, QUERY_ONLY, CORRUPTED, draws)
    first = [
        100 * _seeds_by_draws(own, key, P_AT_1, SYMMETRIC, c, d)
        for c, d in ((CLEAN, [0]), (CORRUPTED, draws))
    ]
    counted = own.loc[(own["metric"] == MAP_AT_R) & (own["setting"] == SYMMETRIC), "n"].unique()
    if len(counted) != 1:
        raise UserError(f"{'/'.join(key)}: seeds or conditions differ in their number of queries. {NEXT}")
    return {
        "seeds": len(clean),
        "draws": len(draws),
        "queries": int(counted[0]),
        "clean": statistics.mean(clean.ravel()).value,
        "clean_sd_seeds": statistics.sd_over_seeds(clean),
        "corrupted": statistics.mean(corrupted.ravel()).value,
        "corrupted_sd_draws": statistics.sd_over_draws(corrupted),
        "corrupted_sd_seeds": statistics.sd_over_seeds(corrupted),
        "query_only": statistics.mean(query_only.ravel()).value,
        "p_at_1_clean": statistics.mean(first[0].ravel()).value,
        "p_at_1_corrupted": statistics.mean(first[1].ravel()).value,
    }


def _seeds_by_draws(
    own: pd.DataFrame, key: tuple[str, ...], metric: str, setting: str, condition: str, draws: list[int]
) -> np.ndarray:
    """One metric [S, D] of one model; a missing seed or draw is an error that names it."""
    part = own[(own["metric"] == metric) & (own["setting"] == setting) & (own["condition"] == condition)]
    wide = (
        part.pivot(index="seed", columns="draw", values="value")
        .reindex(own["seed"].unique())
        .reindex(columns=draws)
    )
    for seed, values in wide.iterrows():
        absent = [d for d in draws if math.isnan(values[d])]
        if absent:
            what = f"{metric} for {setting} {condition}" + (
                "" if condition == CLEAN else f", draw {absent[0]}"
            )
            raise UserError(f"{'/'.join(key)}/seed{seed} has no {what}. {NEXT}")
    return wide.to_numpy()


def _per_query(own: pd.DataFrame, key: tuple[str, ...], draws: list[int]) -> _PerQuery:
    means = {
        "clean": _query_means(own, key, SYMMETRIC, CLEAN, 1),
        "corrupted": _query_means(own, key, SYMMETRIC, CORRUPTED, len(draws)),
        "query_only": _query_means(own, key, QUERY_ONLY, CORRUPTED, len(draws)),
    }
    images = means["clean"].index
    if not all(values.index.equals(images) for values in means.values()):
        raise UserError(f"{'/'.join(key)}: clean and corrupted values are of different queries. {NEXT}")
    return _PerQuery(images, **{name: values.to_numpy() for name, values in means.items()})


def _query_means(
    own: pd.DataFrame, key: tuple[str, ...], setting: str, condition: str, draws: int
) -> pd.Series:
    part = own[(own["setting"] == setting) & (own["condition"] == condition)]
    wide = part.pivot(index="image_id", columns=["seed", "draw"], values=MAP_AT_R)
    # A combination that is absent would look like a query to skip.
    if wide.empty or wide.size != len(part) or wide.shape[1] != draws * own["seed"].nunique():
        raise UserError(f"{'/'.join(key)} lacks values a query for {setting} {condition}. {NEXT}")
    return pd.Series(statistics.per_query_mean(wide.to_numpy().T), wide.index)


def _drops(values: _PerQuery, dataset: str, backbone: str) -> dict[str, object]:
    symmetric = statistics.bootstrap_drop(values.clean, values.corrupted, _resampling(dataset, backbone))
    query_only = statistics.bootstrap_drop(values.clean, values.query_only, _resampling(dataset, backbone))
    return (
        _percent("drop", symmetric.absolute)
        | _percent("relative_drop", symmetric.relative)
        | _percent("query_only_relative_drop", query_only.relative)
    )


def _cure(plain: _PerQuery | None, values: _PerQuery, key: tuple[str, ...]) -> dict[str, object]:
    if plain is None or key[-1] in (PLAIN, PRETRAINED):
        return _percent("cure", statistics.Estimate(math.nan, math.nan, math.nan))
    if not plain.images.equals(values.images):
        raise UserError(f"{'/'.join(key)} and its plain model were asked different queries. {NEXT}")
    both = (plain.clean, plain.corrupted, values.clean, values.corrupted)
    return _percent("cure", statistics.bootstrap_difference_of_drops(*both, _resampling(*key[:2])).relative)


def _resampling(dataset: str, backbone: str) -> np.random.Generator:
    """The same resampled queries for every model of a dataset, so that intervals differ by the models
    alone.
    """
    return generator("bootstrap", dataset, backbone)


def _refuse_disagreement(row: dict[str, object], key: tuple[str, ...]) -> None:
    found, expected = float(row["drop"]), float(row["clean"]) - float(row["corrupted"])  # type: ignore[arg-type]
    if not math.isclose(found, expected, abs_tol=100 * TOLERANCE):
        raise UserError(
            f"{'/'.join(key)} drops by {expected:.4f} points in results.csv but by {found:.4f} in queries.parquet:"
            f" they are not of the same run. {NEXT}"
        )


def _score_spread(variant: str, scores: np.ndarray) -> dict[str, object]:
    """Mean and spreads of the scores [S, N] of one model; skipped images are NaN."""
    by_seed = np.array([[statistics.mean(of_seed).value] for of_seed in scores])
    # The mean squared deviation within each model: sd with ddof 0, averaged over seeds as the spread over draws is.
    variances = np.array([statistics.mean(squares).value for squares in (scores - by_seed) ** 2])
    negative = np.where(np.isnan(scores), np.nan, scores < 0)
    return {
        variant: statistics.mean(by_seed.ravel()).value,
        f"{variant}_sd_images": statistics.mean(np.sqrt(variances)).value,
        f"{variant}_sd_seeds": statistics.sd_over_seeds(by_seed),
        f"{variant}_negative": 100 * statistics.mean(negative.ravel()).value,
    }


def _gain(
    variant: str, plain: pd.Series | None, scores: pd.Series, key: tuple[str, ...]
) -> dict[str, object]:
    if plain is None or key[-1] == PLAIN:
        gain = statistics.Estimate(math.nan, math.nan, math.nan)
    else:
        both = pd.concat([scores, plain], axis=1, join="inner").dropna().to_numpy()
        if not len(both):
            raise UserError(
                f"{'/'.join(key)} and its plain model share no image with an attribution score. {NEXT}"
            )
        gain = statistics.bootstrap_drop(both[:, 0], both[:, 1], _resampling(*key[:2])).absolute
    return {f"{variant}_gain": gain.value, f"{variant}_gain_low": gain.low, f"{variant}_gain_high": gain.high}


def _reasons(own: pd.DataFrame) -> str:
    """``empty mask: 2; flat gradient: 1``, in images; empty if none was skipped."""
    reasons = own.loc[own["skipped"].fillna("") != "", ["image_id", "skipped"]].drop_duplicates()
    return "; ".join(f"{reason}: {n}" for reason, n in reasons["skipped"].value_counts().sort_index().items())


def _comparison(
    name: str, ours: float, known: pd.DataFrame | None, cell: tuple[str, str, str, str, str, str]
) -> dict[str, object]:
    theirs = published.NOTHING if known is None else published.number(known, *cell)
    return {
        f"published_{name}": theirs.value,
        f"published_{name}_sd": theirs.sd,
        f"difference_{name}": ours - theirs.value,
    }


def _percent(name: str, estimate: statistics.Estimate) -> dict[str, object]:
    return {
        name: 100 * estimate.value,
        f"{name}_low": 100 * estimate.low,
        f"{name}_high": 100 * estimate.high,
    }
