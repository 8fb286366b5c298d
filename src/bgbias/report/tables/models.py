"""Which model to take as it is: its MAP@R on other backgrounds, and whether that is significantly
higher.

All models are compared on the same queries (``results.comparison``). Percentages are 0..100.
"""

from collections import Counter

import pandas as pd

from bgbias.report import sources
from bgbias.report.columns import Column, against_plain, interval
from bgbias.results import comparison, decomposition, rows
from bgbias.study import plan
from bgbias.study.cell import PRETRAINED
from bgbias.study.params import Study

NUMBER = 15
CAPTION = "models.j2"
COLUMNS = (
    Column("Elsewhere", interval("changed", 1), "Elsewhere"),
    Column("Original", interval("clean", 1), "Original"),
    Column("Drop, %", interval("drop", 1), "Drop, %"),
    Column("Against the best", against_plain("against_best", 1), "Against the best", known=("against_best",)),
    Column("Front", lambda row: "yes" if row["is_on_front"] else "no"),
    Column("Pasting", interval("pasting", 1), known=("pasting",)),
    Column("Own background", interval("own_background", 1), known=("own_background",)),
    Column("Class's backgrounds", interval("class_background", 1), known=("class_background",)),
)
HEADLINE = {"changed": "on other backgrounds"}
reads = sources.make_reads("all_queries", "mask_report", photos=True)


def wanted(study: Study) -> bool:
    """Whether nothing is trained, and a dataset has two models or more."""
    models = Counter(cell.dataset for cell in plan.cells(study) if cell.method == PRETRAINED)
    return not plan.trained_models(study) and max(models.values(), default=0) > 1


def make(study: Study) -> pd.DataFrame:
    has_steps = set(decomposition.PATH) <= set(study.evaluation.conditions)
    return table(sources.queries(study, decomposition.OF_QUERIES if has_steps else rows.OF_QUERIES))


def table(queries: pd.DataFrame) -> pd.DataFrame:
    """Table 15 from the values a query of pretrained models; of others it says nothing.

    ``clean`` and ``changed``, MAP@R in percent, the ``drop`` between them, and, where queries were seen in every condition
    on the way, its steps in points; ``against_best``, points over the model with the highest ``changed`` (NaN for itself);
    ``is_on_front``. A dataset's models stand together, the highest ``changed`` first.
    """
    pretrained = queries[queries["method"] == PRETRAINED]
    lines = []
    for dataset, of_dataset in pretrained.groupby("dataset", sort=False):
        frames = {str(name): frame for name, frame in of_dataset.groupby("backbone", sort=False)}
        result = comparison.compare(frames)
        against = comparison.differences(result.pairs, result.choice.best)
        for row in rows.records(result.models):
            name = row["model"]
            frame = frames[name]
            model = (str(dataset), name, str(frame["loss"].iloc[0]), PRETRAINED)
            line = rows.name_columns(model) | {"seeds": frame["seed"].nunique(), "queries": row["queries"]}
            line |= {"classes": frame["label"].nunique(), "is_on_front": row["is_on_front"]}
            for level in (*comparison.LEVELS, "drop", *decomposition.STEPS):
                if level in row:
                    line |= rows.interval(level, rows.read_estimate(row, level), 100)
            difference = against.get(name, comparison.NO_DIFFERENCE)
            line |= rows.interval("against_best", difference, 100)
            line["against_best_p_holm"] = difference.p
            lines.append(line)
    return pd.DataFrame(lines)
