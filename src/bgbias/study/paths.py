"""Where every artefact lies, as one pattern that Snakemake fills from wildcards and Python formats.

The nodes' files declare the patterns of what they make (``OUTPUTS``), ``unfinished.yaml`` those of unfinished work. Each
begins with a root: RAW, WORK, RUNS (of the grid), REPORT (of the grid), as ``paths`` in params.yaml places them; nothing else
spells a folder.

Names of params.yaml become parts of paths and commands: what can be one is checked here, for every kind. Files of plugins are
held to the same rule (``plugins.NAME``), and their parts (``sources.parts_of``).
"""

import hashlib
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import Field, field_validator

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.plugins import NAME
from bgbias.settings import Strict, read_yaml
from bgbias.study.cell import CELL

LONGEST = 180  # characters of a file's name that is made of others; file systems take 255 bytes
LONGEST_NAME = 64  # a cell's four names and its folders stand in one lock's name
# Of backbones: timm:<model>.
_WITH_VARIANT = re.compile(rf"{NAME.pattern}(:{NAME.pattern})?", re.ASCII)
_RULE = (
    "it becomes part of paths and commands, so only unaccented letters, digits and _ - . can be in it"
    f" ({LONGEST_NAME} at most), and neither - nor . comes first"
)


def check_names(path: Path, sections: Mapping[str, Collection[str]]) -> None:
    """Refuse what cannot be a name in one of these sections of params.yaml, the file at ``path``."""
    for section, names in sections.items():
        rule = _WITH_VARIANT if section == "backbones" else NAME
        for name in names:
            if rule.fullmatch(name) and len(name) <= LONGEST_NAME:
                continue
            # ascii: a letter of another alphabet looks like one of ours, a line break like nothing.
            printable = ascii(name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}...")[1:-1]
            added = " '+bgaugment' is added where a grid names a method."
            hint = added if section == "methods" and "+" in name else ""
            raise UserError(f"{path}: '{section}.{printable}' cannot be a name: {_RULE}.{hint}")


class Roots(Strict):
    """Where artefacts go; point them at a big disk."""

    raw: str = Field("data/raw", description="official files, as they were fetched")
    downloads: str = Field("data/downloads", description="official files that were fetched by hand")
    checksums: str = Field("data/checksums.csv", description="sha256 of files for which nobody publishes one")
    work: str = Field("data/work", description="what all grids share: photo stores, masks, backgrounds, logs")
    runs: str = Field("data/runs", description="models, embeddings and scores of each grid")
    report: str = Field("data/report", description="results, tables and figures of each grid")

    @field_validator("*")
    @classmethod
    def _spelt_alike(cls, written: str) -> str:
        """As Snakemake and Python both spell it; what no pattern or shell can mean is refused."""
        if wrong := re.search(r"[{}\x00-\x1f\x7f]", written):
            raise ValueError(f"no folder's name here can hold {wrong[0]!a}; name another one")
        if written.startswith(("~", "-")) or "$" in written:
            raise ValueError(
                "~ and variables are not filled in, and - begins an option; write the folder out"
            )
        return os.path.normpath(written)


@dataclass(frozen=True)
class Paths:
    """Patterns below the roots; ``grid`` is filled in, everything else stays a wildcard."""

    roots: Roots
    grid: str

    def __getattr__(self, name: str) -> str:
        try:
            pattern = _patterns(plugins.names("nodes"))[name]
        except KeyError:
            raise AttributeError(name) from None
        root, _, rest = pattern.partition("/")
        of_grid = f"/{self.grid}" if root in ("RUNS", "REPORT") else ""
        return f"{getattr(self.roots, root.lower())}{of_grid}/{rest}"

    def at(self, pattern: str, /, **wildcards: object) -> Path:
        """One artefact: the pattern with its wildcards filled in."""
        # Locks are called after a whole path, which may be longer than a file's name.
        if len(name := str(wildcards.get("name", ""))) > LONGEST:
            wildcards["name"] = f"{name[:LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
        return Path(getattr(self, pattern).format(**wildcards))


# Patterns by name, as those of the nodes' outputs.
UNFINISHED = {
    name: pattern.replace("{cell}", CELL)
    for name, pattern in read_yaml(Path(__file__).with_name("unfinished.yaml")).items()
}


@cache
def _patterns(nodes: tuple[str, ...]) -> dict[str, str]:
    """Every pattern by its name; ``nodes``: whose files are asked."""
    patterns = dict(UNFINISHED)
    for node in nodes:
        outputs: dict[str, str] = plugins.load("nodes", node).OUTPUTS
        if twice := patterns.keys() & outputs.keys():
            raise ValueError(f"the node {node} calls an output '{min(twice)}', as another one does")
        patterns |= outputs
    return patterns
