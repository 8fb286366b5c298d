"""Node: a figure of the report; each figure's file says what it shows, and draws it."""

from bgbias.engine import records
from bgbias.engine.node import Limits, Modules, Settings, StepOutput, step
from bgbias.errors import UserError
from bgbias.report import figures, names
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


def reads(study: Study, figure: str) -> dict[str, StepOutput]:
    """What the figure shows; one that the grid does not have is an error."""
    enabled = figures.list_enabled(study)
    if figure not in enabled:
        raise UserError(f"Grid '{study.grid}' has no figure '{figure}'; it has: {', '.join(enabled)}.")
    return figures.load(figure).reads(study)


def settings(study: Study, figure: str) -> Settings:
    """What else it depends on, and how it prints names."""
    return getattr(figures.load(figure), "settings", lambda study: {})(study) | names.settings(study)


def uses(study: Study, figure: str) -> Modules:
    return [figures.load(figure)]


def figure(study: Study, figure: str) -> None:
    """Draw a figure as PDF and PNG."""
    from bgbias.report import style

    with records.node(study, step("figure", figure=figure)) as record:
        style.save(figures.load(figure).draw(study), record.outputs["figure_pdf"].parent, figure)
