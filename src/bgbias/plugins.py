"""From an option's name in params.yaml to the file that implements it: ``losses: triplet`` is ``training/losses/triplet.py``.

There is no registry to edit. A new loss, method, backbone, metric, masker or dataset is one new file in its family's folder.
A file that stands for many (``backbones/timm.py``) is told by what goes on behind a colon, its variant: ``timm:convnext_tiny``.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import re
from functools import cache
from types import ModuleType

from bgbias.errors import UserError

FAMILIES = {
    "backbones": "bgbias.models.backbones",
    "conditions": "bgbias.evaluation.conditions",
    "datasets": "bgbias.datasets",
    "losses": "bgbias.training.losses",
    "maskers": "bgbias.masks.maskers",
    "methods": "bgbias.training.methods",
    "metrics": "bgbias.evaluation.metrics",
    "figures": "bgbias.report.figures",
    "necks": "bgbias.models.necks",
    "nodes": "bgbias.nodes",
    "tables": "bgbias.report.tables",
}
VARIANT = re.compile(r"\w[\w.-]*", re.ASCII)  # it becomes part of a path


@cache
def names(family: str) -> tuple[str, ...]:
    """The options of a family, sorted: the files in its folder."""
    package = importlib.import_module(FAMILIES[family])
    return tuple(sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")))


def known(family: str, name: str) -> bool:
    """Whether a file of the family stands behind an option."""
    return name.partition(":")[0] in names(family)


def variant(name: str) -> str:
    """What goes on behind an option's colon; empty without one."""
    return name.partition(":")[2]


def load(family: str, name: str) -> ModuleType:
    """The module behind an option; an unknown name is refused with the list of what exists and the nearest match."""
    if not known(family, name):
        nearest = difflib.get_close_matches(name, names(family), 1)
        hint = f" Did you mean '{nearest[0]}'?" if nearest else ""
        raise UserError(
            f"There is no '{name}' in {family}; there are: {', '.join(names(family))}.{hint}"
            f" A new one is a file src/{FAMILIES[family].replace('.', '/')}/{name}.py."
        )
    file, colon, rest = name.partition(":")
    module = importlib.import_module(f"{FAMILIES[family]}.{file}")
    variants = getattr(module, "VARIANTS", "")
    if variants and not VARIANT.fullmatch(rest):
        raise UserError(f"'{name}' in {family} needs {variants} behind a colon, of letters, digits and _ - .")
    if colon and not variants:
        raise UserError(f"'{name}' in {family}: '{file}' takes nothing behind a colon.")
    return module
