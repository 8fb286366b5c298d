"""The masker of an audit: by name, with weights that are at hand or fetched, and the key under which its masks are kept."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.files import checksums, code, fetch, places
from bgbias.files.fetch import Source
from bgbias.masks.kept import KeptMasks
from bgbias.masks.policy import Mask
from bgbias.settings import Strict

DEFAULT = "u2netp"
FOLDER = "masks"
WEIGHTS = "weights"
NO_NETWORK = "; or do without a network: --masker grabcut"


@dataclass(frozen=True)
class NamedMasker:
    """Photos to masks. ``make`` loads the network and gives the function, so that whoever finds all masks kept pays nothing."""

    name: str
    key: str
    make: Callable[[], Callable[[Sequence[np.ndarray]], list[Mask]]]

    def kept(self, upright: bool) -> KeptMasks:
        """The masks that it has made, whatever for, of photos that were turned as their EXIF says or not."""
        stored = "" if upright else "-as-stored"
        return KeptMasks(places.cache() / FOLDER / f"{self.name}-{self.key}{stored}")


def check(name: str, weights: Path | None = None) -> None:
    """Refuse a masker that there is not, or that does not look at photos, and weights that are missing or mean nothing to it;
    imports nothing large.
    """
    module = plugins.load("maskers", name)
    if not module.PREDICTS:
        able = [n for n in plugins.names("maskers") if plugins.load("maskers", n).PREDICTS]
        raise UserError(
            f"Masker '{name}' does not look at photos. Drawn masks come by --masks FOLDER; maskers are {', '.join(able)}."
        )
    if weights and "weights" not in module.Params.model_fields:
        raise UserError(f"Masker '{name}' has no weights; leave out --mask-weights.")
    if weights and not Path(weights).is_file():
        raise UserError(f"--mask-weights {weights}: there is no such file.")


def find(name: str, weights: Path | None, device: str) -> NamedMasker:
    """The masker of this name, one of the files in ``masks/maskers`` that predict; an unknown one is refused with a list.

    Weights are ``weights``, else those that lie in the cache or the shared data, else fetched; where none can be had, the error
    says where to put them.
    """
    check(name, weights)
    module = plugins.load("maskers", name)
    chosen: dict[str, str] = {}
    if "weights" in module.Params.model_fields:
        chosen["weights"] = str(weights or weights_of(name, instead=NO_NETWORK))
    params: Strict = module.Params.model_validate(chosen)
    identity = {
        "code": code.fingerprint(module.__name__),
        "options": params.model_dump(exclude={"weights", *module.SPEED}),
        "weights": checksums.sha256(Path(chosen["weights"])) if chosen else "",
    }
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]

    def make() -> Callable[[Sequence[np.ndarray]], list[Mask]]:
        try:
            return module.build(params, device)  # type: ignore[no-any-return]
        except UserError as error:
            # Maskers are a study's as well, and speak of its file.
            said = re.sub(r"['`]weights['`]( in params\.yaml)?", "--mask-weights", str(error))
            raise UserError(said) from error

    return NamedMasker(name, key, make)


def weights_of(name: str, option: str = "--mask-weights", instead: str = "") -> Path:
    """The file of the masker's weights: in the cache or the shared data, else fetched.

    Where none can be had, the error names the ``option`` that takes a file, where to put one, and what can be done ``instead``.
    """
    published: Sequence[Source] = getattr(plugins.load("maskers", name), "PUBLISHED", ())
    if not published:
        raise UserError(f"Masker '{name}' has no published weights; name its file by {option}.")
    folder, shared = places.cache() / WEIGHTS, places.source(f"shared:{WEIGHTS}")
    called = [source.called for source in published]
    for path in (
        *(folder / file for file in called),
        shared / f"{name}.safetensors",
        *(shared / file for file in called),
    ):
        if path.is_file():
            return path
    source = published[0]
    target = folder / source.called
    kinds = ", ".join(sorted({Path(file).suffix for file in called}))
    cure = (
        f"Name a file of them by {option} FILE ({kinds} or .safetensors); or get {source.called}{source.facts} by other"
        f" means and put it at {target}{instead}"
    )
    same = tuple(other for other in published if other.called == source.called)
    fetch.fetch(same, target, f"the weights of {name}", cure)
    return target
