"""Share of a model's attribution that lies on the object, corrected for the object's size: 1 is all
of it, 0 no more than chance.

The paper's Table 2 (Kobs & Hotho 2022).
"""

from typing import Any

import numpy as np
import pandas as pd

from bgbias.report import sources
from bgbias.report.columns import Column, Row, interval, number, published_number
from bgbias.results import published, rows, uncertainty
from bgbias.study import plan
from bgbias.study.params import Study

NUMBER = 2
CAPTION = "attribution.j2"
SCORES, ON_REQUEST = ("ref", "robust"), "similarity"


def _format_skipped(row: Row) -> str:
    # A table read back from its CSV has NaN where nothing was skipped.
    return row["skipped"] if isinstance(row["skipped"], str) and row["skipped"] else "none"


COLUMNS = (
    *(
        column
        for variant, name in zip((*SCORES, ON_REQUEST), ("Score", "Robust", "Similarity"), strict=True)
        for column in (
            Column(name, interval(variant, 3), f"{name} [95 %]", gain=f"{variant}_gain", known=(variant,)),
            Column("± images", number(f"{variant}_sd_images", 3), "± img", known=(variant,)),
            Column("± seeds", number(f"{variant}_sd_seeds", 3), known=(variant,)),
            Column("< 0, %", number(f"{variant}_negative", 1), "< 0, %", known=(variant,)),
            Column("Gain", interval(f"{variant}_gain", 3), "Gain [95 %]", known=(variant,)),
        )
    ),
    Column("Images", lambda row: f"{row['images']:,}"),
    Column("Skipped", _format_skipped),
    Column("Paper", published_number("ref", 2), known=("published_ref",)),
    Column("Δ", number("difference_ref", 3, sign=True), known=("published_ref",)),
)
HEADLINE = {"ref": "attribution score"}
settings = published.settings
wanted = plan.attributed_models
reads = sources.make_reads("all_attribution", "mask_report")


def make(study: Study) -> pd.DataFrame:
    return table(pd.read_parquet(study.files.at("all_attribution")), published.read())


def table(attribution: pd.DataFrame, papers: pd.DataFrame | None = None) -> pd.DataFrame:
    """Table 2 from one attribution score a test image, seed and variant (docs/methods.md, section 3).

    For each variant (``ref``: the paper's, ``robust``: ours, ``similarity``: if it was asked for) a mean over images and
    seeds, ``_sd_images`` (ddof 0, the paper's +-), ``_sd_seeds`` (NaN for a single one), ``_negative`` (percent of images
    with a score below 0: more of the attribution on the background than its area explains), and ``_gain`` over plain on the
    images that both have. ``images`` are those with every score; ``skipped`` the others by reason. The published score is
    compared with ``ref``.
    """
    variants = (*SCORES, *([ON_REQUEST] if (attribution["variant"] == ON_REQUEST).any() else []))
    compared: dict[rows.Model, rows.Values] = {}
    lines: list[dict[str, Any]] = []
    for model, part in sources.models(attribution):
        scores = part.pivot(index="image_id", columns=["variant", "seed"], values="score")
        values = rows.Values.from_kinds(model, part, "variant", variants, "score")
        compared[model] = values
        complete = ~np.isnan(np.concatenate(list(values.columns.values()))).any(axis=0)
        row = rows.heading(part, values, "images", complete)
        skipped = part.loc[part["skipped"].notna() & (part["skipped"] != ""), ["image_id", "skipped"]]
        skipped = skipped.drop_duplicates()
        counts = skipped["skipped"].value_counts().sort_index()
        row["skipped"] = "; ".join(f"{reason}: {n}" for reason, n in counts.items())
        for variant in variants:
            row |= rows.interval(variant, values.estimate([variant]), 1)
            row |= _measure_spread(variant, scores[variant].to_numpy().T)
            gain = values.against(rows.plain_of(compared, model), [variant])
            row |= rows.tested(f"{variant}_gain", gain, 1)
        row |= published.paper_columns("ref", row, papers, model, "attribution_score", rows.CLEAN)
        lines.append(row)
    return rows.tabulate_models(lines)


def _measure_spread(variant: str, scores: np.ndarray) -> dict[str, Any]:
    """Spreads of the scores [S, N] of one model; skipped images are NaN."""
    by_seed = np.array([[uncertainty.mean(of_seed)] for of_seed in scores])
    # Mean squared deviations: sd with ddof 0 for each model, averaged over seeds as the spread over draws is.
    variances = np.array([uncertainty.mean(squares) for squares in (scores - by_seed) ** 2])
    negative = np.where(np.isnan(scores), np.nan, scores < 0)
    return {
        f"{variant}_sd_images": uncertainty.mean(np.sqrt(variances)),
        f"{variant}_sd_seeds": uncertainty.sd_over_seeds(by_seed),
        f"{variant}_negative": 100 * uncertainty.mean(negative),
    }
