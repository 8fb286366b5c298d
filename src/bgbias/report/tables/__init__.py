"""The tables of a report: one table, one file, found by its number.

A file says of its table

``NUMBER``                 the number that it is printed with: 3 is ``table3``, as its files are called;
``ABOUT``                  a sentence for the report's page; without it, the first paragraph of the file's docstring;
``COLUMNS``                what is printed of it (``report.columns.Column``);
``LEGEND``                 the lines below it on a terminal; ours stand in ``report/legends.j2``;
``HEADLINE``               column to what people call it: the few numbers by which two versions of a study are compared;
``wanted(study)``          whether the grid has it; a table without this function is in every grid;
``reads(study)``           role to ``StepOutput``: the files that it is made from, and their nodes (``report.sources``);
``settings(study)``        what else its numbers and its caption depend on, beside the rule of selection for one with ``CAPTION``;
                           without this function: on nothing else;
``make(study)``            its numbers in full precision, a row a model, which the columns ``results.rows.MODEL`` name;
``caption(study, table, excluded)``
                           what a reader must know to believe it, in paragraphs, told of these numbers and settings alone;
                           ``excluded`` is what ``sources.excluded`` gives of the ``mask_report``, or nothing if it reads none;
``CAPTION``                instead of this function, as in ours: the caption's template beside the file (``retrieval.j2``). It may
                           name the ``study``, the ``table``, macros of ``captions.j2`` and what ``facts(study, table)`` gives.

Behind the four names of ``MODEL`` stand how many ``seeds`` there are, ``folds`` (if the grid has some), ``queries``, images
or the like, and of how many ``classes`` these are. A number of ``COLUMNS`` stands there in full precision; the ends of its
interval are in ``_low`` and ``_high`` (``uncertainty.estimate``), and a difference, paired, also has ``_p`` and
``_p_holm``, corrected for what is compared with the same model. What is not known is NaN, and a model that lacks a value a
query is a UserError.

Planning imports every file: what is slow to import, and is no pandas, is imported by the function that needs it.
"""

from types import ModuleType

from bgbias import plugins
from bgbias.engine.node import Dependencies
from bgbias.errors import UserError
from bgbias.report import names
from bgbias.study.params import Study


def list_enabled(study: Study) -> tuple[str, ...]:
    """The grid's tables by their printed names, in the order of their numbers: ``table1``, ``table2``, ..."""
    return tuple(name for name, table in _by_name().items() if is_enabled(table, study))


def is_enabled(file: ModuleType, study: Study) -> bool:
    """Whether a grid has what the file of a table or a figure makes."""
    return not hasattr(file, "wanted") or bool(file.wanted(study))


def describe(file: ModuleType) -> str:
    """What a table or a figure shows, for people: its ``ABOUT``, or the first paragraph of its docstring."""
    return getattr(file, "ABOUT", " ".join((file.__doc__ or "").partition("\n\n")[0].split()))


def load(name: str) -> ModuleType:
    """The file of a table by its printed name: ``table3`` is ``methods.py``. Raises UserError if there is none."""
    by_name = _by_name()
    if name not in by_name:
        raise UserError(f"There is no table '{name}'; there are: {', '.join(by_name)}.")
    return by_name[name]


def _by_name() -> dict[str, ModuleType]:
    by_name: dict[str, ModuleType] = {}
    for table in sorted((plugins.load("tables", n) for n in plugins.names("tables")), key=lambda t: t.NUMBER):
        name = f"table{table.NUMBER}"
        if name in by_name:
            files = f"{by_name[name].__file__} and {table.__file__}"
            raise UserError(f"{files} have the same NUMBER, {table.NUMBER}; give one of them another.")
        by_name[name] = table
    return by_name


def find_dependencies(study: Study, family: ModuleType, kind: str, name: str) -> Dependencies:
    """What a table or a figure (its ``family`` and ``kind``) is made of, and how it prints names. Captions of ours tell the rule
    of selection. Raises UserError if the grid does not have it.
    """
    enabled = family.list_enabled(study)
    if name not in enabled:
        raise UserError(f"Grid '{study.grid}' has no {kind} '{name}'; it has: {', '.join(enabled)}.")
    file = family.load(name)
    own = file.settings(study) if hasattr(file, "settings") else {}
    selection = {"selection": study.train.selection} if hasattr(file, "CAPTION") else {}
    return Dependencies(file.reads(study), own | selection | names.settings(study), [file])
