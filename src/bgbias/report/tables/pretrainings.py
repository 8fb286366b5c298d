"""What learning without labels changes, before training with labels and after it, and whether that
is more than chance.

Each backbone that learned without labels stands against the same network that did not, and each
pretraining with negatives of no class against the same one without them. Models are paired by query
and seed, whatever their training; every p is corrected for the number of backbones that are
compared, each difference on its own. docs/methods.md, section 6.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from bgbias.engine import inputs
from bgbias.report import sources
from bgbias.report.columns import Column, against_plain
from bgbias.report.tables import attribution, probes
from bgbias.results import rows, uncertainty
from bgbias.results.uncertainty import Statistic, difference
from bgbias.study import plan
from bgbias.study.params import Study

NUMBER = 13
CAPTION = "pretrainings.j2"
# Names of differences: what they are called, whose values, of which columns, what is made of them, and by how much they are
# multiplied.
DIFFERENCES: dict[str, tuple[str, str, tuple[str, ...], Statistic, float]] = {
    "corrupted_difference": ("Corrupted", "retrieval", ("corrupted",), difference, 100),
    "clean_difference": ("Clean", "retrieval", ("clean",), difference, 100),
    "relative_drop_change": (
        "Change of drop, points",
        "retrieval",
        ("clean", "corrupted"),
        uncertainty.change_of_relative_drop,
        100,
    ),
    "ref_gain": ("Attribution score", "attribution", ("ref",), difference, 1),
    **{
        f"{probe}_{view}_gain": (f"{head}, {view}", probe, (view,), difference, 100)
        for probe, head in probes.HEADS.items()
        for view in probes.VIEWS
    },
}
COLUMNS = (
    Column("Against", lambda row: str(row["against"]), "Against"),
    *(
        Column(
            head,
            against_plain(name, 3 if name == "ref_gain" else 1),
            head if name in ("corrupted_difference", "clean_difference") else "",
            known=(name,),
        )
        for name, (head, *_) in DIFFERENCES.items()
    ),
)
HEADLINE = {"corrupted_difference": "corrupted, minus what it is compared with"}
wanted = plan.compared_backbones


def settings(study: Study) -> dict[str, Any]:
    """Who is compared with whom."""
    return {"against": {"/".join(model): other for model, other in plan.compared_backbones(study).items()}}


def reads(study: Study) -> sources.Sources:
    probed = plan.cells(study) if plan.probes(study) else ()
    of_probes = inputs.of_models(probed, "probe", "probed")
    return sources.list_collected("all_queries", "all_attribution") | of_probes


def make(study: Study) -> pd.DataFrame:
    scores = pd.read_parquet(study.files.at("all_attribution"))
    (probed,) = sources.read_cells(study, reads, "probed")
    return table(sources.queries(study), scores, probed, plan.compared_backbones(study))


def table(
    queries: pd.DataFrame, scores: pd.DataFrame, probed: pd.DataFrame, against: Mapping[rows.Model, str]
) -> pd.DataFrame:
    """Table 13, a row a model that ``against`` has, in Table 1's order, from queries.parquet, attribution.parquet and all
    cells' probed.parquet with the cells' names (without rows where nothing was probed).

    ``seeds`` are those that both have; ``against``: the backbone of the other model, which is the same but for it; then
    ``DIFFERENCES`` in points (``ref_gain``: in score), NaN where one of the two has no such value.
    """
    values: dict[str, dict[rows.Model, rows.Values]] = {
        "retrieval": {model: rows.retrieval_values(part, model) for model, part in sources.models(queries)},
        "attribution": {
            model: rows.Values.from_kinds(model, part, "variant", attribution.SCORES, "score")
            for model, part in sources.models(scores)
        },
        **{
            probe: {model: probes.probe_values(part, model, probe) for model, part in sources.models(probed)}
            for probe in probes.PROBES
        },
    }
    lines = []
    for model, part in sources.models(queries):
        if model not in against:
            continue
        other = (model[0], against[model], *model[2:])
        row = rows.name_columns(model) | rows.repetitions(part, model)
        retrieved, before = (values["retrieval"][one] for one in (model, other))
        row |= {"seeds": len(retrieved.paired_seeds(before)) or 1, "classes": len(set(retrieved.classes))}
        row["against"] = other[1]
        for name, (_, whose, columns, stat, scale) in DIFFERENCES.items():
            ours, theirs = (values[whose].get(one) for one in (model, other))
            more = ours.against(theirs, columns, stat) if ours else uncertainty.UNKNOWN
            row |= rows.tested(name, more, scale)
        lines.append(row)
    return rows.tabulate_models(lines, within=("dataset", "loss", "method"))
