"""From a pretraining's name in params.yaml to its file and its options: an entry of ``pretrainings``, whose ``kind`` is a file in
training/pretraining/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.settings import validated

if TYPE_CHECKING:
    from bgbias.training.pretraining._settings import PretrainingParams


@dataclass(frozen=True)
class NamedPretraining:
    """A pretraining as a backbone names it."""

    name: str
    kind: str
    options: Mapping[str, Any]

    @property
    def module(self) -> ModuleType:
        """Its file; one that is not there is an error with the nearest match."""
        return plugins.load("pretraining", self.kind)

    def params(self) -> PretrainingParams:
        """Its options, checked by its file."""
        checked: PretrainingParams = validated(
            self.module.Params, dict(self.options), Path("params.yaml"), f"pretrainings.{self.name}"
        )
        return checked


def find(entries: Mapping[str, Mapping[str, Any]], name: str) -> NamedPretraining:
    """What a name means; ``entries``: the section ``pretrainings``. One that is not there, or says no kind, is an error."""
    if name not in entries:
        there = ", ".join(entries) or "none"
        raise UserError(f"params.yaml has no pretraining '{name}'; there are: {there}.")
    options = dict(entries[name])
    if "kind" not in options:
        there = ", ".join(plugins.names("pretraining"))
        raise UserError(f"params.yaml: pretrainings.{name} needs a `kind`; there are: {there}.")
    return NamedPretraining(name, str(options.pop("kind")), options)
