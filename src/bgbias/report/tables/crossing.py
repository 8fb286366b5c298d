"""The same objects on the same backgrounds: MAP@R with the worst of several, and how much
of what embeddings say is the object and how much the background.

docs/methods.md, sections 9 and 13. Percentages are 0..100.
"""

import math

import numpy as np
import pandas as pd

from bgbias.report import sources
from bgbias.report.columns import Column, interval, number
from bgbias.results import correlation, rows, uncertainty
from bgbias.study import plan
from bgbias.study.params import Study

NUMBER = 6
CAPTION = "crossing.j2"
TRIES = (1, 5, 20)
ALL = "all"
SHARES = ("object", "background", "interaction")
COLUMNS = (
    Column("Any background", interval("worst_1", 1), "One [95 %]"),
    Column("Worst of 5", interval("worst_5", 1), "Worst of 5", known=("worst_5",)),
    Column("Worst of 20", interval("worst_20", 1), "Worst of 20", known=("worst_20",)),
    Column("Worst of all", interval(f"worst_{ALL}", 1), "Worst of all"),
    Column("Cosine", interval("cosine", 2), "Cosine"),
    Column("Object, %", number("object", 1)),
    Column("Background, %", number("background", 1), "Backgr., %"),
    Column("± seeds", number("background_sd_seeds", 1)),
    Column("Interaction, %", number("interaction", 1)),
)
HEADLINE = {f"worst_{ALL}": "MAP@R with the worst background", "background": "share of the background"}
wanted = plan.crosses
reads = sources.make_reads("results", cells=(plan.networks, "cross", "crossed_queries", "shares"))


def make(study: Study) -> pd.DataFrame:
    queries, shares = sources.read_cells(study, reads, "crossed_queries", "shares")
    return table(queries, shares, rows.levels(study))


def crossed_values(queries: pd.DataFrame, model: rows.Model) -> rows.Values:
    """Of one model's crossed queries: the expected worst of each number of tries, as far as there are so many backgrounds, in
    ``worst_<k>`` and ``worst_all``, and ``cosine``.
    """
    backgrounds = queries["background"].nunique()
    keys = ["image_id", "label", "seed"]
    ordered = queries.sort_values([*keys, "background"])
    first = ordered.groupby(keys, sort=False)[["cosine"]].mean().reset_index()
    values = ordered["map_at_r"].to_numpy().reshape(-1, backgrounds)
    tries = {f"worst_{k}": k for k in TRIES if k <= backgrounds} | {f"worst_{ALL}": backgrounds}
    parts = {name: first[keys].assign(value=expected_worst(values, k)) for name, k in tries.items()} | {
        "cosine": first.rename(columns={"cosine": "value"})
    }
    return rows.Values.from_parts(model, parts, "value")


def expected_worst(values: np.ndarray, tries: int) -> np.ndarray:
    """The mean of the lowest value among ``tries`` of the last axis, over all ways to choose them: [..., m] to [...]; after
    the backgrounds challenge (Xiao et al. 2021), which asks for the background that misleads a model most.

    With values in rising order v_1..v_m it is the sum of v_i C(m - i, k - 1) / C(m, k). NaN where a value is.
    """
    m = values.shape[-1]
    ways = [math.comb(m - i, tries - 1) / math.comb(m, tries) for i in range(1, m + 1)]
    return np.sort(values, axis=-1) @ np.array(ways)  # type: ignore[no-any-return]


def table(queries: pd.DataFrame, shares: pd.DataFrame, levels: pd.DataFrame) -> pd.DataFrame:
    """Table 6 from all cells' crossed.parquet and shares.csv with the cells' names, and ``rows.tabulate_seeds``.

    ``worst_<k>`` and ``worst_all``: the expected MAP@R in percent with the worst of so many ``backgrounds``; ``cosine``: of
    an object to its own photo; the shares of variance of ``SHARES`` in percent, means over seeds, ``background_sd_seeds``,
    and ``negative``, in how many of the trainings a component was estimated below 0 and counts as 0; and, of each dataset
    and backbone over its trainings, ``rho`` of one minus the object's share with the relative drop and ``rho_models``, of
    how many.
    """
    of_shares = dict(iter(shares.groupby(rows.MODEL, sort=False)))
    lines = []
    for model, model_rows in sources.models(queries):
        values = crossed_values(model_rows, model)
        row = rows.heading(model_rows, values, "objects")
        row["backgrounds"] = model_rows["background"].nunique()
        row |= rows.shares(values, [name for name in values.columns if name != "cosine"])
        row |= rows.interval("cosine", values.estimate(["cosine"]), 1)
        part = of_shares[model]
        row |= {name: 100 * part[name].mean() for name in SHARES}
        row["background_sd_seeds"] = 100 * uncertainty.sd_over_seeds(part["background"].to_numpy()[:, None])
        row["negative"] = int((part["negative"].notna() & (part["negative"] != "")).sum())
        lines.append(row)
    not_objects = 1 - shares.groupby([*rows.MODEL, "seed"], sort=False)["object"].mean()
    return correlation.add_correlations(rows.tabulate_models(lines), not_objects, levels)
