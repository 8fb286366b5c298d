"""A masker with its options and weights, and the key of all that its masks depend on."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.files import checksums, code, fetch, places
from bgbias.files.fetch import Source
from bgbias.settings import Strict

WEIGHTS = "weights"  # of the person's cache, and of the shared data


@dataclass(frozen=True)
class MaskPredictor:
    """A masker that predicts: the file ``kind`` in ``masks/maskers``, its options, whose weights are a file, and its device."""

    kind: str
    params: Strict
    device: str = "cpu"

    def __post_init__(self) -> None:
        _ = self.key  # of the weights as they are now: somebody may replace the file

    @cached_property
    def key(self) -> str:
        """16 hex digits of all that its masks depend on: its code, its options but those of speed, its weights' bytes."""
        weights = getattr(self.params, "weights", None)
        file = places.source(weights) if weights else None
        identity = {
            "code": code.fingerprint(self._module.__name__),
            "options": self.params.model_dump(exclude={"weights", *self._module.SPEED}),
            "weights": checksums.sha256(file) if file and file.is_file() else "",
        }
        return code.hash_text(json.dumps(identity, sort_keys=True))

    @property
    def guesses(self) -> str:
        """Which of its options nobody gave and no file tells."""
        return getattr(self.params, "guesses", "")

    def build(self) -> Any:
        """Load its network: what comes takes photos (uint8 [H, W, 3]) to their ``Mask``s. UserError without weights or device."""
        from bgbias.compute.device import pick

        return self._module.build(self.params, pick(self.device))

    @property
    def _module(self) -> ModuleType:
        return plugins.load("maskers", self.kind)


def find_weights(kind: str, option: str, instead: str = "") -> Path:
    """The file of a masker's weights: in the person's cache or the shared data, else fetched into the cache.

    Where none can be had, the error names the ``option`` that takes a file, where to put one, and what can be done ``instead``.
    """
    published: Sequence[Source] = getattr(plugins.load("maskers", kind), "PUBLISHED", ())
    if not published:
        raise UserError(f"Masker '{kind}' has no published weights; name its file by {option}.")
    folder, shared = places.cache() / WEIGHTS, places.source(f"shared:{WEIGHTS}")
    names = [source.called for source in published]
    for path in (
        *(folder / name for name in names),
        shared / f"{kind}.safetensors",
        *(shared / name for name in names),
    ):
        if path.is_file():
            return path
    source = published[0]
    target = folder / source.called
    suffixes = ", ".join(sorted({Path(name).suffix for name in names}))
    cure = (
        f"Name a file of them by {option} FILE ({suffixes} or .safetensors); or get {source.called}{source.facts} by other"
        f" means and put it at {target}{instead}"
    )
    same = tuple(other for other in published if other.called == source.called)
    fetch.fetch(same, target, f"the weights of {kind}", cure)
    return target
