"""From an option's name in params.yaml to the file that implements it: ``losses: triplet`` is ``bgbias/losses/triplet.py``.

There is no registry to edit. A new loss, method, backbone, metric, masker or dataset is one new file in its family's folder.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache
from types import ModuleType

from bgbias.errors import UserError

FAMILIES = ("datasets", "backbones", "losses", "methods", "maskers", "metrics")


@cache
def names(family: str) -> tuple[str, ...]:
    """The options of a family, sorted: the files in its folder."""
    package = importlib.import_module(f"bgbias.{family}")
    return tuple(sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")))


def load(family: str, name: str) -> ModuleType:
    """The module behind an option; an unknown name is refused with the list of what exists and the nearest match."""
    if name not in names(family):
        nearest = difflib.get_close_matches(name, names(family), 1)
        hint = f" Did you mean '{nearest[0]}'?" if nearest else ""
        raise UserError(
            f"There is no '{name}' in {family}; there are: {', '.join(names(family))}.{hint}"
            f" A new one is a file src/bgbias/{family}/{name}.py."
        )
    return importlib.import_module(f"bgbias.{family}.{name}")
