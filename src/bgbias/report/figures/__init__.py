"""The figures of a report: one figure, one file, found by its name.

A file says of its figure

``PLACE``            where it stands among the others;
``ABOUT``            a sentence or two for the report's page; without it, the first paragraph of the file's docstring;
``wanted(study)``    whether it makes sense for the grid; a figure without this function does for all;
``reads(study)``     role to ``StepOutput``: the files that it is drawn from, and which nodes make those;
``settings(study)``  what else it depends on; without this function: on nothing else;
``draw(study)``      the figure, by matplotlib.

Planning imports every file: matplotlib, torch and OpenCV are imported by the functions that need them.
"""

from types import ModuleType

from bgbias import plugins
from bgbias.report.tables import is_enabled
from bgbias.study.params import Study

SHARED = {
    "_dots": ("change", "drop", "models"),
    "_maps": ("attribution", "segmentation"),
    "_panels": ("shape_share", "worst_of"),
}


def list_enabled(study: Study) -> tuple[str, ...]:
    """The grid's figures in their order."""
    names = sorted(plugins.names("figures"), key=lambda name: (load(name).PLACE, name))
    return tuple(name for name in names if is_enabled(load(name), study))


def load(name: str) -> ModuleType:
    """The file of a figure. Raises UserError if there is none."""
    return plugins.load("figures", name)
