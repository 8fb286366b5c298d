"""Node: a figure of the report; each figure's file says what it shows, and draws it."""

from bgbias.engine import records
from bgbias.engine.node import Dependencies, Limits, step
from bgbias.report import figures, tables
from bgbias.study.params import Study

SUBJECT = ("figure",)
OUTPUTS = {
    "figure_pdf": "REPORT/figures/{figure}.pdf",
    "figure_png": "REPORT/figures/{figure}.png",
    "figure_record": "REPORT/figures/{figure}.json",
}
LIMITS = Limits(minutes=60)


def goals(study: Study) -> list[dict[str, str]]:
    return [{"figure": name} for name in figures.list_enabled(study)]


def depends(study: Study, figure: str) -> Dependencies:
    return tables.find_dependencies(study, figures, "figure", figure)


def figure(study: Study, figure: str) -> None:
    """Draw a figure as PDF and PNG."""
    from bgbias.report import style

    with records.node(study, step("figure", figure=figure)) as record:
        style.save(figures.load(figure).draw(study), record.outputs["figure_pdf"].parent, figure)
