"""What the rows of all tables share: a model's four names, how often it was trained, estimates, and its values query by query.

What tables and figures call clean and corrupted are conditions of ``evaluation/conditions``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bgbias.errors import UserError
from bgbias.evaluation import conditions
from bgbias.evaluation.metrics import OTHERS
from bgbias.photos.folds import FOLDS, seed_and_fold
from bgbias.results import uncertainty
from bgbias.results.uncertainty import Estimate, Statistic, difference, itself
from bgbias.segmentation.episodes import CENTRE
from bgbias.study.cell import PLAIN, PRETRAINED, side_by_side
from bgbias.study.params import Study

SYMMETRIC, QUERY_ONLY = conditions.SYMMETRIC, conditions.QUERY_ONLY
CLEAN, CORRUPTED = conditions.CLEAN, conditions.RANDOM_BACKGROUND
Model = tuple[str, str, str, str]
MODEL = ["dataset", "backbone", "loss", "method"]
BESIDE = (*MODEL[:-1], "length")  # what methods have in common that are compared with one plain model
MAP_AT_R, PRECISION_AT_1 = "map_at_r", "precision_at_1"
# What tables read of queries.parquet: of many models at SOP's size the rest is gigabytes.
OF_QUERIES = [*MODEL, "seed", "setting", "condition", "draw", "image_id", "label", MAP_AT_R, OTHERS]
SEEDLESS = (PRETRAINED, CENTRE)  # with one seed, of which nothing was drawn
NEXT = "Complete the grid: snakemake --cores all"


def name_columns(model: Model) -> dict[str, Any]:
    """A row's first columns."""
    return dict(zip(MODEL, model, strict=True))


def repetitions(frame: pd.DataFrame, model: Model) -> dict[str, int]:
    """Training seeds, and folds of each, in the column ``seed`` of a model's values."""
    seeds, of_folds = zip(*map(seed_and_fold, frame["seed"].unique()), strict=True)
    return {"seeds": len(set(seeds)), "folds": FOLDS if side_by_side(model[-1])[1] else len(set(of_folds))}


def heading(
    frame: pd.DataFrame, values: Values, counted: str, which: np.ndarray | slice = slice(None)
) -> dict[str, Any]:
    """A row's first columns: the model's names, seeds, folds, queries (``counted``) and classes, of those ``which`` count."""
    classes = values.classes[which]
    sizes = {counted: len(classes), "classes": len(set(classes))}
    return name_columns(values.model) | repetitions(frame, values.model) | sizes


def tabulate_models(
    lines: list[dict[str, Any]], within: Sequence[str] = BESIDE, names: Sequence[str] | None = None
) -> pd.DataFrame:
    """A table of these rows, each p in it (or of ``names`` alone) corrected among rows that are alike ``within`` these
    columns, by default the methods ``BESIDE`` one plain model; without the column ``folds`` where no model has several."""
    table = pd.DataFrame(lines)
    table["length"] = [side_by_side(method)[1] for method in table["method"]]
    every = [str(column).removesuffix("_p") for column in table if str(column).endswith("_p")]
    table = correct_p_values(table, every if names is None else names, within).drop(columns="length")
    return table if (table["folds"] > 1).any() else table.drop(columns="folds")


def together(of_cells: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The values of several cells below each other; no row if there are none."""
    if not of_cells:
        return pd.DataFrame(columns=[*MODEL, "seed"])
    values = pd.concat(of_cells, ignore_index=True)
    # Seeds are numbers; with a fold they are words, and a column has one type.
    if not pd.api.types.is_integer_dtype(values["seed"]):
        values["seed"] = values["seed"].astype(str)
    return values


def interval(name: str, estimate: Estimate, scale: float) -> dict[str, float]:
    """An estimate and its ends as columns ``name``, ``name_low`` and ``name_high``."""
    return {
        name: scale * estimate.value,
        f"{name}_low": scale * estimate.low,
        f"{name}_high": scale * estimate.high,
    }


def share(name: str, estimate: Estimate) -> dict[str, float]:
    """The same of a mean that lies between 0 and 1, in percent, whatever Student's t has to say of its ends."""
    columns = interval(name, estimate, 100)
    return {key: value if key == name else float(np.clip(value, 0, 100)) for key, value in columns.items()}


def shares(values: Values, names: Iterable[str]) -> dict[str, float]:
    """``share`` of the means of these columns."""
    of_columns = (share(name, values.estimate([name])) for name in names)
    return {key: value for columns in of_columns for key, value in columns.items()}


def tested(name: str, estimate: Estimate, scale: float) -> dict[str, float]:
    """The same of a difference, with the p of its being 0 as ``name_p``."""
    return interval(name, estimate, scale) | {f"{name}_p": estimate.p}


def read_estimate(row: Mapping[str, Any], name: str) -> Estimate:
    """The estimate in a row's columns ``name``, its ends and, as its p, ``name_p_holm``; NaN where it has none."""
    return Estimate(*(row.get(f"{name}{end}", math.nan) for end in ("", "_low", "_high", "_p_holm")))


def read_csv(path: Path, dtype: Mapping[str, type] | None = None) -> pd.DataFrame:
    """A CSV file of results. An empty field alone is no value: a model may be called NA."""
    return pd.read_csv(path, dtype=dtype, keep_default_na=False, na_values=[""])


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A table's rows, each a mapping of columns."""
    return [{str(column): value for column, value in row.items()} for row in table.to_dict("records")]


def correct_p_values(
    table: pd.DataFrame, names: Sequence[str], within: Sequence[str] = tuple(MODEL[:-1])
) -> pd.DataFrame:
    """A table with ``<name>_p_holm`` beside each ``<name>_p``: corrected among the rows that are alike in the columns ``within``
    (none: among all), each of the ``names`` on its own.
    """
    groups = table.groupby(list(within), sort=False).groups.values() if within else [table.index]
    for group in groups:
        for name in names:
            p = table.loc[group, f"{name}_p"].to_list()
            table.loc[group, f"{name}_p_holm"] = uncertainty.holm(p)
    return table


@dataclass(frozen=True)
class Values:
    """Values of one model in named columns [S, N]: a row a training seed, its folds and draws averaged; a column a query.

    ``seeds`` is empty, and S 1, where nothing was drawn by a seed (``SEEDLESS``). ``queries`` are the photos, in the order of
    their names, ``classes`` [N] theirs; ``of_others``, where there is one, is what a query's class means for others, as
    ``uncertainty.estimate`` takes it.
    """

    model: Model
    seeds: tuple[int, ...]
    queries: pd.Index
    classes: np.ndarray
    columns: Mapping[str, np.ndarray]
    of_others: Mapping[str, np.ndarray]

    @classmethod
    def from_parts(
        cls,
        model: Model,
        parts: Mapping[str, pd.DataFrame],
        value: str,
        of_others: str = "",
    ) -> Values:
        """From ``parts``, the rows of each column: ``image_id``, ``label``, ``seed``, ``draw`` if there may be several, the
        ``value`` and, where it depends on which other classes there are, the column ``of_others``
        (``evaluation.exclusion``).

        Raises UserError if a seed, a seed's draw, or the same query in another column is missing.
        """
        first = next(iter(parts.values()))
        runs = first["seed"].unique()
        seeds = sorted({seed_and_fold(run)[0] for run in runs})
        queries = pd.Index(first["image_id"].drop_duplicates().sort_values())
        columns: dict[str, dict[str, np.ndarray]] = {value: {}, of_others: {}}
        for name, part in parts.items():
            over = [column for column in ("seed", "draw") if column in part]
            wide = part.drop(columns="label").pivot(index="image_id", columns=over)
            expected = len(runs) * (part["draw"].nunique() if "draw" in part else 1)
            for column in filter(None, columns):
                # A combination that is absent would look like a query to skip.
                if part.empty or len(part) != len(wide) * expected or wide[column].shape[1] != expected:
                    raise UserError(f"{'/'.join(model)} lacks values a query for {name}. {NEXT}")
                seed_of = wide[column].columns.get_level_values("seed").map(lambda run: seed_and_fold(run)[0])
                means = [wide[column].to_numpy(np.float64)[:, seed_of == seed].mean(axis=1) for seed in seeds]
                columns[column][name] = np.stack(means)
            if not wide.index.equals(queries):
                raise UserError(f"{'/'.join(model)}: {' and '.join(parts)} are of different queries. {NEXT}")
        classes = first.drop_duplicates("image_id").set_index("image_id")["label"].reindex(queries).to_numpy()
        # A backbone that was pretrained here differs from seed to seed, trained or not.
        is_seedless = model[-1] in SEEDLESS and len(seeds) == 1
        return cls(
            model, () if is_seedless else tuple(seeds), queries, classes, columns[value], columns[of_others]
        )

    @classmethod
    def from_kinds(
        cls, model: Model, rows: pd.DataFrame, by: str, kinds: Sequence[str], value: str
    ) -> Values:
        """A column for each of ``kinds``, from ``rows`` with its name in the column ``by``; raises as ``from_parts``."""
        columns = ["image_id", "label", "seed", value]
        return cls.from_parts(model, {kind: rows.loc[rows[by] == kind, columns] for kind in kinds}, value)

    def estimate(self, names: Sequence[str], stat: Statistic = itself) -> Estimate:
        """A number made of some columns' means, with its interval; unknown if no query has all these values."""
        return _estimate([self], names, self.seeds or (0,), stat)

    def paired_seeds(self, other: Values) -> list[int]:
        """The seeds that two models are compared by; none where nothing of either was drawn by one."""
        if self.seeds and other.seeds:
            return [seed for seed in self.seeds if seed in other.seeds]
        return list(self.seeds or other.seeds)

    def against(self, other: Values | None, names: Sequence[str], stat: Statistic = difference) -> Estimate:
        """A number made of some columns' means of this model, then the other's, paired by query and by the seeds that both
        have; a model without seeds is paired with every one.

        Unknown without another model, and if they share no seed (``paired_seeds``) or no query with all these values. Raises
        UserError if their queries differ.
        """
        if other is None:
            return uncertainty.UNKNOWN
        if not self.queries.equals(other.queries):
            raise UserError(
                f"{'/'.join(self.model)} and {'/'.join(other.model)} were asked different queries. {NEXT}"
            )
        seeds = self.paired_seeds(other) or ([] if self.seeds and other.seeds else [0])
        if not seeds:
            return uncertainty.UNKNOWN
        return _estimate([self, other], names, seeds, stat)


def _estimate(
    models: Sequence[Values], names: Sequence[str], seeds: Sequence[int], stat: Statistic
) -> Estimate:
    columns, of_others = [], []
    for values in models:
        # A model without seeds is the same for each.
        rows = [values.seeds.index(seed) if values.seeds else 0 for seed in seeds]
        for name in names:
            column = values.columns[name]
            columns.append(column[rows])
            of_others.append(values.of_others.get(name, np.zeros_like(column))[rows])
    if not np.isfinite(np.concatenate(columns)).all(axis=0).any():
        return uncertainty.UNKNOWN
    return uncertainty.estimate(columns, models[0].classes, stat, of_others)


def retrieval_values(rows: pd.DataFrame, model: Model) -> Values:
    """MAP@R of one model's ``rows`` of queries.parquet: ``clean``, ``corrupted`` (query and gallery) and ``query_only``."""
    both = {"clean": (SYMMETRIC, CLEAN), "corrupted": (SYMMETRIC, CORRUPTED)}
    return values_for_views(rows, model, both | {"query_only": (QUERY_ONLY, CORRUPTED)})


def values_for_views(
    rows: pd.DataFrame,
    model: Model,
    views: Mapping[str, tuple[str, str]],
    value: str = MAP_AT_R,
    of_others: str = OTHERS,
) -> Values:
    """A ``value`` of one model's ``rows`` of queries.parquet in columns of these names, each a setting and a condition;
    ``of_others`` as in ``Values.from_parts``.
    """
    columns = ["image_id", "label", "seed", "draw", value, *filter(None, [of_others])]
    parts = {
        name: rows.loc[(rows["setting"] == setting) & (rows["condition"] == condition), columns]
        for name, (setting, condition) in views.items()
    }
    return Values.from_parts(model, parts, value, of_others)


def views_in(setting: str, names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """``views`` for ``values_for_views`` of conditions in one setting. Clean queries in the clean gallery belong to both
    settings, and are written as symmetric.
    """
    return {name: (SYMMETRIC if name == CLEAN else setting, name) for name in names}


def plain_of(of_models: Mapping[Model, Values], model: Model) -> Values | None:
    """The plain model of the same loss and length to compare with; None for plain itself."""
    alone, _ = side_by_side(model[-1])
    if alone == PLAIN:
        return None
    return of_models.get((*model[:-1], PLAIN + model[-1].removeprefix(alone)))


def tabulate_seeds(results: pd.DataFrame) -> pd.DataFrame:
    """MAP@R of every training, in percent, from the tidy results: the model's names, ``seed``, ``clean``, ``corrupted`` (means
    over draws, and over a seed's folds) and ``relative_drop``.
    """
    levels = results[(results["metric"] == MAP_AT_R) & (results["setting"] == SYMMETRIC)]
    levels = levels[levels["condition"].isin([CLEAN, CORRUPTED])]
    levels = levels.assign(seed=[seed_and_fold(run)[0] for run in levels["seed"]])
    means = levels.groupby([*MODEL, "seed", "condition"], sort=False)["value"].mean().unstack() * 100
    table = pd.DataFrame({"clean": means[CLEAN], "corrupted": means[CORRUPTED]})
    return table.assign(relative_drop=100 * (1 - table["corrupted"] / table["clean"])).reset_index()


def levels(study: Study) -> pd.DataFrame:
    """Each training of a finished grid (``tabulate_seeds``)."""
    return tabulate_seeds(read_csv(study.files.at("results")))
