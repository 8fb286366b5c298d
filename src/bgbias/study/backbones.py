"""From a backbone's name in a grid to its file and its options.

A name is an entry of params.yaml's section ``backbones``: a file in models/backbones/, with a variant behind a colon where it
stands for a library (``timm:vit_tiny_patch16_224``), or any other name, whose ``kind`` is such a one
(``other_weights: {kind: resnet50, weights: other.safetensors}``). It may name an entry of ``pretrainings`` beside its options, by
which it learns from photos without their labels before any training (``tiny_moco: {kind: tiny, pretraining: moco}``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.settings import Strict, validated


@dataclass(frozen=True)
class NamedBackbone:
    """A backbone as a cell names it. ``kind``: its file's name, with a variant if there is one; ``pretraining``: an entry of
    ``pretrainings``, or nothing.
    """

    name: str
    kind: str
    options: Mapping[str, Any]
    pretraining: str = ""

    @property
    def module(self) -> ModuleType:
        """Its file; one that is not there is an error with the nearest match."""
        try:
            return plugins.load("backbones", self.kind)
        except UserError as error:
            if plugins.known("backbones", self.kind):
                raise
            raise UserError(
                f"params.yaml: backbones.{self.name}: {error} A name of one's own needs a `kind`: {{kind: resnet50, ...}}."
            ) from error

    @property
    def variant(self) -> str:
        """Which network of a library; empty where a file stands for one."""
        return plugins.variant(self.kind)

    def params(self) -> Strict:
        """Its options, checked by its file."""
        checked: Strict = validated(
            self.module.Params, dict(self.options), Path("params.yaml"), f"backbones.{self.name}"
        )
        return checked


def find(entries: Mapping[str, Mapping[str, Any]], name: str) -> NamedBackbone:
    """What a name means; ``entries``: the section ``backbones``. A name of one of our files is of no other kind."""
    if name not in entries:
        raise UserError(f"params.yaml has no backbone '{name}'; there are: {', '.join(entries)}.")
    options = dict(entries[name])
    kind, pretraining = str(options.pop("kind", name)), str(options.pop("pretraining", ""))
    if plugins.known("backbones", name) and kind != name:
        raise UserError(
            f"params.yaml: backbones.{name} is of kind '{kind}', but '{name}' is a backbone itself; give the entry another name."
        )
    return NamedBackbone(name, kind, options, pretraining)
