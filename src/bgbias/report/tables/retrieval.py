"""Tables 1 and 2, the paper's, as numbers in full precision: one row a dataset, backbone, loss and method.

Table 1 is what new backgrounds cost in retrieval, Table 2 how much of a model's attribution lies on the
object (Kobs & Hotho 2022). Percentages are 0..100. The spread over training seeds and the spread over
background draws are two columns, and every mean, spread and interval is made by ``statistics``. How the
tables look on paper is the affair of ``typesetting``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bgbias.errors import UserError
from bgbias.report import names
from bgbias.report.names import PLAIN, PRETRAINED
from bgbias.results import published, uncertainty
from bgbias.results.model_rows import (
    MODEL,
    UNKNOWN,
    Model,
    interval,
    named,
    repetitions,
    without_single_folds,
)
from bgbias.results.rows import (
    CLEAN,
    CORRUPTED,
    MAP_AT_R,
    NEXT,
    QUERY_ONLY,
    SYMMETRIC,
    QueryValues,
    resampling,
)
from bgbias.study import cell
from bgbias.study.cell import Cell

VARIANTS, ON_REQUEST = ("ref", "robust"), "similarity"
# Points of MAP@R that results.csv and queries.parquet may differ by: rounding, not another run.
TOLERANCE = 1e-4


def table1(
    results: pd.DataFrame,
    queries: pd.DataFrame,
    known: pd.DataFrame | None = None,
    cells: Sequence[Cell] = (),
) -> pd.DataFrame:
    """Table 1 from the tidy ``results`` and the per-query values: retrieval on clean and corrupted photos.

    Columns after the model's four names: ``seeds``, ``folds`` (if the grid has some), ``draws``, ``queries``;
    ``clean`` and ``corrupted`` MAP@R in percent, the latter with query and gallery corrupted, with their
    sample sd over seeds and draws (NaN for a single one); ``drop`` in points and ``relative_drop`` in
    percent, with 95 % paired-bootstrap bounds ``_low`` and ``_high``; ``cure``, the relative drop of plain
    minus that of the method, in points, with bounds (NaN without a plain row); ``query_only``, MAP@R of
    corrupted queries against the clean gallery, and its relative drop; P@1; ``published_*`` where a paper
    has the cell, with ``_source``, ``_differs`` (what was done in another way there) and, if nothing was,
    our ``difference_*`` to it. ``known`` is ``published.read()``. Raises UserError, naming the cell and
    what to type, when one of
    ``cells`` or one of a cell's conditions is missing, or when the two inputs are not of the same run.
    """
    _refuse_missing(results, cells)
    draws = sorted(results.loc[results["condition"] == CORRUPTED, "draw"].unique().tolist()) or [0]
    by_model = queries.groupby(MODEL, sort=False, observed=True)
    plain: dict[tuple[str, ...], QueryValues] = {}
    made = []
    for model, own in _models(results):
        if model not in by_model.groups:
            raise UserError(f"{'/'.join(model)} has scores but no values a query. {NEXT}")
        values = QueryValues.of(by_model.get_group(model), model, len(draws))
        alone, length = cell.side_by_side(model[-1])
        if alone == PLAIN:
            plain[*model[:-1], length] = values
        row = named(model) | _scores(own, model, draws) | _drops(values, plain.get((*model[:-1], length)))
        if not math.isclose(row["drop"], row["clean"] - row["corrupted"], abs_tol=TOLERANCE):
            raise UserError(
                f"{'/'.join(model)} drops by {row['clean'] - row['corrupted']:.4f} points in results.csv, by"
                f" {row['drop']:.4f} in queries.parquet: they are not of the same run. {NEXT}"
            )
        for name, condition in (("clean", CLEAN), ("corrupted", CORRUPTED)):
            row |= _comparison(name, row, known, model, MAP_AT_R, condition)
        row |= _comparison("p_at_1_clean", row, known, model, "precision_at_1", CLEAN)
        made.append(row)
    return without_single_folds(pd.DataFrame(made))


def table2(
    attribution: pd.DataFrame, known: pd.DataFrame | None = None, cells: Sequence[Cell] = ()
) -> pd.DataFrame:
    """Table 2 from one attribution score a test image, seed and variant (METHODS section 3).

    For each variant (``ref``: the paper's, ``robust``: ours, ``similarity``: if it was asked for) a mean over
    images and seeds, ``_sd_images`` (ddof 0, the paper's +-), ``_sd_seeds`` (NaN for a single one),
    ``_negative`` (percent of images with a score below 0: more of the attribution on the background than its
    area explains), and ``_gain`` over plain on the images that both have, with 95 % paired-bootstrap bounds.
    ``images`` are those with every score, ``skipped`` the others by reason. The published score is compared
    with ``ref``. Raises UserError when one of ``cells`` or a variant is missing.
    """
    _refuse_missing(attribution, cells)
    variants = (*VARIANTS, *([ON_REQUEST] if (attribution["variant"] == ON_REQUEST).any() else []))
    plain: dict[tuple[str, ...], pd.DataFrame] = {}
    made = []
    for model, own in _models(attribution):
        scores = own.pivot(index="image_id", columns=["variant", "seed"], values="score")
        _refuse_unscored(scores, model, own["seed"].unique().tolist(), variants)
        by_image = pd.DataFrame(
            {v: uncertainty.per_query_mean(scores[v].to_numpy().T) for v in variants}, scores.index
        )
        if model[-1] == PLAIN:
            plain[model[:-1]] = by_image
        row = named(model) | repetitions(own, model) | {"images": len(by_image.dropna())}
        row["skipped"] = _reasons(own)
        for variant in variants:
            row |= _score_spread(variant, scores[variant].to_numpy().T)
            row |= _gain(variant, by_image, plain.get(model[:-1]), model)
        row |= _comparison("ref", row, known, model, "attribution_score", CLEAN)
        made.append(row)
    return without_single_folds(pd.DataFrame(made))


def _refuse_missing(rows: pd.DataFrame, cells: Sequence[Cell]) -> None:
    present = set(rows[[*MODEL, "seed"]].drop_duplicates().astype(str).itertuples(index=False, name=None))
    missing = [c for c in cells if (c.dataset, c.backbone, c.loss, c.method, str(c.run)) not in present]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise UserError(f"There is no result for {missing[0].name}{more}. {NEXT}")
    if rows.empty:
        raise UserError(f"There is no result at all. {NEXT}")


def _models(rows: pd.DataFrame) -> Iterator[tuple[Model, pd.DataFrame]]:
    """Each model with its rows, in the paper's order: plain comes before what is compared with it."""
    by_model = rows.groupby(MODEL, sort=False, observed=True)
    for model in names.in_order(rows[MODEL].drop_duplicates()).itertuples(index=False, name=None):
        yield model, by_model.get_group(model)


def _scores(own: pd.DataFrame, model: Model, draws: list[int]) -> dict[str, Any]:
    """Means over queries of one model, in percent, and the two spreads."""
    clean = 100 * _seeds_by_draws(own, model, MAP_AT_R, SYMMETRIC, CLEAN, [0])
    corrupted = 100 * _seeds_by_draws(own, model, MAP_AT_R, SYMMETRIC, CORRUPTED, draws)
    query_only = 100 * _seeds_by_draws(own, model, MAP_AT_R, QUERY_ONLY, CORRUPTED, draws)
    first_clean = 100 * _seeds_by_draws(own, model, "precision_at_1", SYMMETRIC, CLEAN, [0])
    first_corrupted = 100 * _seeds_by_draws(own, model, "precision_at_1", SYMMETRIC, CORRUPTED, draws)
    counted = own.loc[(own["metric"] == MAP_AT_R) & (own["setting"] == SYMMETRIC), "n"].unique()
    if len(counted) != 1:
        raise UserError(f"{'/'.join(model)}: seeds or conditions differ in their number of queries. {NEXT}")
    return repetitions(own, model) | {
        "draws": len(draws),
        "queries": int(counted[0]),
        "clean": uncertainty.mean(clean.ravel()).value,
        "clean_sd_seeds": uncertainty.sd_over_seeds(clean),
        "corrupted": uncertainty.mean(corrupted.ravel()).value,
        "corrupted_sd_draws": uncertainty.sd_over_draws(corrupted),
        "corrupted_sd_seeds": uncertainty.sd_over_seeds(corrupted),
        "query_only": uncertainty.mean(query_only.ravel()).value,
        "p_at_1_clean": uncertainty.mean(first_clean.ravel()).value,
        "p_at_1_corrupted": uncertainty.mean(first_corrupted.ravel()).value,
    }


def _seeds_by_draws(
    own: pd.DataFrame, model: Model, metric: str, setting: str, condition: str, draws: list[int]
) -> np.ndarray:
    """One metric [S, D] of one model; a missing seed or draw is an error that names it."""
    part = own[(own["metric"] == metric) & (own["setting"] == setting) & (own["condition"] == condition)]
    wide = part.pivot(index="seed", columns="draw", values="value")
    wide = wide.reindex(index=sorted(own["seed"].unique()), columns=draws)
    for seed, draw in zip(*np.nonzero(wide.isna().to_numpy()), strict=True):
        what = f"{metric} for {setting} {condition}, draw {draws[draw]}"
        raise UserError(f"{'/'.join(model)}/seed{wide.index[seed]} has no {what}. {NEXT}")
    return wide.to_numpy()


def _drops(values: QueryValues, plain: QueryValues | None) -> dict[str, Any]:
    compared = plain is not None and cell.side_by_side(values.model[-1])[0] not in (PLAIN, PRETRAINED)
    drop = values.drop()
    return (
        interval("drop", drop.absolute, 100)
        | interval("relative_drop", drop.relative, 100)
        | interval("query_only_relative_drop", values.query_only_drop().relative, 100)
        | interval("cure", plain.drop_beyond(values).relative if plain and compared else UNKNOWN, 100)
    )


def _refuse_unscored(
    scores: pd.DataFrame, model: Model, seeds: Sequence[int], variants: Sequence[str]
) -> None:
    for variant in variants:
        for seed in seeds:
            if (variant, seed) not in scores or scores[variant, seed].isna().all():
                name = f"{'/'.join(model)}/seed{seed}"
                raise UserError(f"{name} has no attribution score of variant '{variant}'. {NEXT}")


def _score_spread(variant: str, scores: np.ndarray) -> dict[str, Any]:
    """Mean and spreads of the scores [S, N] of one model; skipped images are NaN."""
    by_seed = np.array([[uncertainty.mean(of_seed).value] for of_seed in scores])
    # Mean squared deviations: sd with ddof 0 for each model, averaged over seeds as the spread over draws is.
    variances = np.array([uncertainty.mean(squares).value for squares in (scores - by_seed) ** 2])
    negative = np.where(np.isnan(scores), np.nan, scores < 0)
    return {
        variant: uncertainty.mean(by_seed.ravel()).value,
        f"{variant}_sd_images": uncertainty.mean(np.sqrt(variances)).value,
        f"{variant}_sd_seeds": uncertainty.sd_over_seeds(by_seed),
        f"{variant}_negative": 100 * uncertainty.mean(negative.ravel()).value,
    }


def _gain(variant: str, scores: pd.DataFrame, plain: pd.DataFrame | None, model: Model) -> dict[str, Any]:
    """Score of a method minus that of plain: a paired difference of means, which an absolute drop is."""
    gain = UNKNOWN
    if plain is not None and model[-1] != PLAIN:
        both = pd.concat([scores[variant], plain[variant]], axis=1, join="inner").dropna().to_numpy()
        if not len(both):
            raise UserError(f"{'/'.join(model)} and its plain model share no image with a score. {NEXT}")
        gain = uncertainty.bootstrap_drop(both[:, 0], both[:, 1], resampling(*model[:2])).absolute
    return interval(f"{variant}_gain", gain, 1)


def _reasons(own: pd.DataFrame) -> str:
    """``empty mask: 2; flat gradient: 1``, in images; empty if none was skipped."""
    skipped = own.loc[own["skipped"].fillna("") != "", ["image_id", "skipped"]].drop_duplicates()
    return "; ".join(f"{reason}: {n}" for reason, n in skipped["skipped"].value_counts().sort_index().items())


def _comparison(
    name: str, row: dict[str, Any], known: pd.DataFrame | None, model: Model, metric: str, condition: str
) -> dict[str, Any]:
    theirs = published.NOTHING
    if known is not None:
        theirs = published.number(known, *model, metric, condition, row["folds"])
    return {
        f"published_{name}": theirs.value,
        f"published_{name}_sd": theirs.sd,
        f"published_{name}_source": theirs.source or math.nan,
        f"published_{name}_differs": theirs.differs or math.nan,
        f"difference_{name}": math.nan if theirs.differs else row[name] - theirs.value,
    }
