"""Figure nodes: each figure's file gathers what it shows and draws it."""

from __future__ import annotations

from bgbias.engine import records
from bgbias.report import figures
from bgbias.report.figures import _look as look
from bgbias.study.params import Study


def figure(study: Study, name: str) -> None:
    """Draw a figure as PDF and PNG."""
    outputs = {form: study.files.at("figures", figure=name, format=form) for form in ("pdf", "png")}
    with records.node(study, "figure", outputs, study.files.at("figures_record", figure=name), name=name):
        look.save(figures.load(name).draw(study), outputs["pdf"].parent, name)
