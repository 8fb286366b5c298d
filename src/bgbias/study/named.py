"""From a name in params.yaml to its file and its options: datasets, maskers, backbones and pretrainings (methods:
``methods.py``).

A backbone's name is an entry of the section ``backbones``: a file in models/backbones/, with a variant behind a colon where it
stands for a library (``timm:vit_tiny_patch16_224``), or any other name, whose ``kind`` is such a one
(``other_weights: {kind: resnet50, weights: other.safetensors}``). It may name an entry of ``pretrainings`` beside its options, by
which it learns from photos without their labels before any training (``tiny_moco: {kind: tiny, pretraining: moco}``). The
``kind`` of such an entry is a file in training/pretraining/.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.models import backbones
from bgbias.models.backbones import Facts
from bgbias.settings import Strict, validate

PUBLISHED = "published"  # weights that a network's file knows
Entries = Mapping[str, Mapping[str, Any]]
Entry = TypeVar("Entry")
# Where the options of a family's entries stand in params.yaml; of other families in the entry itself.
PLACES = {
    "datasets": "datasets.{}.options",
    "maskers": "maskers.{}.options",
    "pretraining": "pretrainings.{}",
}


def entry_of(entries: Mapping[str, Entry], what: str, name: str) -> Entry:
    """The entry of params.yaml that is so called; one that is not there is an error."""
    if name not in entries:
        raise UserError(f"params.yaml has no {what} '{name}'; there are: {', '.join(entries) or 'none'}.")
    return entries[name]


@dataclass(frozen=True)
class NamedEntry:
    """An entry of params.yaml. ``family``: of plug-ins; ``kind``: its file's name, with a variant if there is one."""

    family: str
    name: str
    kind: str
    options: Mapping[str, Any]

    @property
    def is_known(self) -> bool:
        """Whether there is such a file."""
        return plugins.known(self.family, self.kind)

    @property
    def module(self) -> ModuleType:
        """Its file; one that is not there is an error with the nearest match."""
        return plugins.load(self.family, self.kind)

    @property
    def key(self) -> str:
        """Where its options stand in params.yaml."""
        return PLACES.get(self.family, f"{self.family}.{{}}").format(self.name)

    @property
    def owner(self) -> str:
        """How its weights are called."""
        return f"{self.family}/{self.name}"

    @property
    def weights(self) -> str:
        """What it starts from: ``PUBLISHED`` weights, a URL, or a file; empty where weights are random."""
        return str(getattr(self.params(), "weights", None) or "")

    @property
    def is_fetched(self) -> bool:
        """Whether it starts from weights that the node ``weights`` fetches."""
        weights = self.weights
        return weights == PUBLISHED or "://" in weights

    @property
    def variant(self) -> str:
        """Which network of a library; empty where a file stands for one."""
        return plugins.variant(self.kind)

    def params(self) -> Any:
        """Its options, checked by its file; a file without ``Params`` has none."""
        kind = getattr(self.module, "Params", Strict)
        return validate(kind, dict(self.options), Path("params.yaml"), self.key)

    def fact(self, name: str, default: Any = None) -> Any:
        """What its file's function ``name`` says of its options; ``default`` if it has none."""
        tell = getattr(self.module, name, None)
        return tell(self.params()) if tell else default


@dataclass(frozen=True)
class NamedBackbone(NamedEntry):
    """A backbone as a cell names it. ``pretraining``: an entry of ``pretrainings``, or nothing."""

    pretraining: str = ""

    @property
    def module(self) -> ModuleType:
        """Its file; one that is not there is an error with the nearest match."""
        try:
            return super().module
        except UserError as error:
            if self.is_known:
                raise
            raise UserError(
                f"params.yaml: backbones.{self.name}: {error} A name of one's own needs a `kind`: {{kind: resnet50, ...}}."
            ) from error

    @property
    def facts(self) -> Facts:
        """What it was trained to see, and what it gives."""
        return backbones.facts(self.kind, self.params())


def split_kind(family: str, name: str, entry: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """An entry's kind, by default its own name, and its options. A name of a file is of no other kind."""
    options = dict(entry)
    kind = str(options.pop("kind", name))
    if plugins.known(family, name) and kind != name:
        raise UserError(
            f"params.yaml: {family}.{name} is of kind '{kind}', but '{name}' is a {family.removesuffix('s')} itself;"
            " give the entry another name."
        )
    return kind, options


def find_backbone(entries: Entries, name: str) -> NamedBackbone:
    """What a name means; ``entries``: the section ``backbones``."""
    kind, options = split_kind("backbones", name, entry_of(entries, "backbone", name))
    pretraining = str(options.pop("pretraining", ""))
    return NamedBackbone("backbones", name, kind, options, pretraining)


def find_pretraining(entries: Entries, name: str) -> NamedEntry:
    """What a name means; ``entries``: the section ``pretrainings``. One that is not there, or says no kind, is an error."""
    options = dict(entry_of(entries, "pretraining", name))
    if "kind" not in options:
        there = ", ".join(plugins.names("pretraining"))
        raise UserError(f"params.yaml: pretrainings.{name} needs a `kind`; there are: {there}.")
    return NamedEntry("pretraining", name, str(options.pop("kind")), options)
