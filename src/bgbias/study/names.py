"""Names of params.yaml become parts of paths and commands: what can be one is checked here, for every kind.

Files of plugins are held to the same rule (``plugins.NAME``), and their parts (``sources.parts_of``).
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from bgbias.errors import UserError
from bgbias.plugins import NAME

LONGEST = 64  # a cell's four names and its folders stand in one lock's name
# Of backbones: timm:<model>.
_WITH_VARIANT = re.compile(rf"{NAME.pattern}(:{NAME.pattern})?", re.ASCII)
_RULE = (
    "it becomes part of paths and commands, so only unaccented letters, digits and _ - . can be in it"
    f" ({LONGEST} at most), and neither - nor . comes first"
)
# Prepared pictures of backgrounds lie beside those of datasets.
_TAKEN = {"datasets": ("backgrounds",)}


def check(path: Path, sections: Mapping[str, Collection[str]]) -> None:
    """Refuse what cannot be a name in one of these sections of params.yaml, the file at ``path``."""
    for section, names in sections.items():
        rule = _WITH_VARIANT if section == "backbones" else NAME
        for name in names:
            why = "" if rule.fullmatch(name) and len(name) <= LONGEST else _RULE
            if name in _TAKEN.get(section, ()):
                why = "a folder of ours is called so"
            if why:
                # ascii: a letter of another alphabet looks like one of ours, a line break like nothing.
                shown = ascii(name if len(name) <= LONGEST else f"{name[:LONGEST]}...")[1:-1]
                added = " '+bgaugment' is added where a grid names a method."
                hint = added if section == "methods" and "+" in name else ""
                raise UserError(f"{path}: '{section}.{shown}' cannot be a name: {why}.{hint}")
