"""What the attribution score is worth: scores of networks that forgot what they learned and of maps
that saw no photo, and whether what maps point at moves the embedding.

docs/methods.md, section 3.
"""

import pandas as pd

from bgbias.report import sources
from bgbias.report.columns import Column, against_plain, interval, number
from bgbias.results import correlation, rows, uncertainty
from bgbias.study import plan
from bgbias.study.params import Study

NUMBER = 8
CAPTION = "sanity.j2"
FORGOT, BLIND = ("embedder", "upper_half", "all"), ("centre", "noise")
KINDS = ("model", *FORGOT, *BLIND)
JUDGED = ("model", "all", *BLIND)
COLUMNS = (
    Column("Score", interval("model", 3), "Score [95 %]"),
    Column("Embedding layer forgot", interval("embedder", 3)),
    Column("Upper half forgot", interval("upper_half", 3)),
    Column("All forgot", interval("all", 3), "All forgot [95 %]"),
    Column("More than all forgot", against_plain("over_all", 3), "more [95 %]"),
    Column("Centre prior", interval("centre", 3), "Centre"),
    Column("Blurred noise", interval("noise", 3)),
    Column("Faithfulness", interval("faithful_model", 3), "Faithful"),
    Column("More than the centre's", against_plain("faithful_over_centre", 3)),
    Column("Of what forgot", number("faithful_all", 3)),
    Column("Centre's", number("faithful_centre", 3)),
    Column("Noise's", number("faithful_noise", 3)),
)
HEADLINE = {"over_all": "score over that of a network that forgot"}
reads = sources.make_reads("results", cells=(plan.trained_models, "sanity", "sanity"))


def wanted(study: Study) -> bool:
    """Whether the grid asks for it, and there are trained models, which alone have a score."""
    return plan.doubts(study) and bool(plan.trained_models(study))


def make(study: Study) -> pd.DataFrame:
    (values,) = sources.read_cells(study, reads, "sanity")
    return table(values, rows.levels(study))


def table(values: pd.DataFrame, levels: pd.DataFrame) -> pd.DataFrame:
    """Table 8 from all cells' sanity.csv with the cells' names, and ``rows.tabulate_seeds``.

    The mean scores of ``KINDS`` and ``over_all``, the model's minus that of its copy that forgot all; ``faithful_<kind>``
    of ``JUDGED`` and ``faithful_over_centre``; differences corrected for the table's models; and, of each dataset and
    backbone over its trainings, ``rho`` of the score with the relative drop and ``rho_models``, of how many.
    """
    lines = []
    for model, model_rows in sources.models(values):
        scores = rows.Values.from_kinds(model, model_rows, "kind", KINDS, "score")
        faithful = rows.Values.from_kinds(model, model_rows, "kind", JUDGED, "faithful")
        row = rows.heading(model_rows, scores, "images")
        for kind in KINDS:
            row |= rows.interval(kind, scores.estimate([kind]), 1)
        for kind in JUDGED:
            row |= rows.interval(f"faithful_{kind}", faithful.estimate([kind]), 1)
        over_all = scores.estimate(["model", "all"], uncertainty.difference)
        over_centre = faithful.estimate(["model", "centre"], uncertainty.difference)
        row |= rows.tested("over_all", over_all, 1) | rows.tested("faithful_over_centre", over_centre, 1)
        lines.append(row)
    own_scores = values[values["kind"] == "model"].groupby([*rows.MODEL, "seed"])["score"].mean()
    return correlation.add_correlations(rows.tabulate_models(lines, within=()), own_scores, levels)
