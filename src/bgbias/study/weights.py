"""The weights that a network starts from: random, a file of the user's, or one that the node ``weights`` fetches.

A network that has weights is called by its family and its name in params.yaml: ``backbones/resnet18``, ``maskers/u2net``.
Its file in the family's folder may offer ``PUBLISHED``, the sources of its weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bgbias.errors import UserError
from bgbias.files import places
from bgbias.files.checksums import elsewhere, fingerprint, known_by
from bgbias.files.fetch import Source
from bgbias.study.named import PUBLISHED, Named, find_backbone
from bgbias.study.params import Study


@dataclass(frozen=True)
class Published:
    """Weights to fetch: from ``sources``, or, where there are none, by the library that knows the network."""

    network: Named
    sources: tuple[Source, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The names under which a copy that was got by other means is looked for."""
        if self.sources:
            return tuple(dict.fromkeys(s.called for s in self.sources))
        return tuple(f"{self.network.variant}{suffix}" for suffix in (".safetensors", ".pth", ".bin"))

    @property
    def identity(self) -> dict[str, Any]:
        """The weights as a digest sees them: by name and checksum, wherever and whether the file lies."""
        sums = sorted({s.sha256 or s.md5 or str(s.place) for s in self.sources})
        return {"files": sorted(self.files), "sums": sums}


def published(study: Study, owner: str) -> Published:
    """What to fetch for a network; one that has nothing to fetch is an error."""
    named = network(study, owner)
    wanted, module = named.weights, named.module
    if "://" in wanted:
        source = Source(place=wanted, sha256=getattr(named.params(), "sha256", None))
        return Published(named, (source,))
    if wanted != PUBLISHED:
        raise UserError(
            f"{owner} has nothing to fetch: params.yaml gives it"
            f" {f'the file {wanted}' if wanted else 'random weights'}; its weights may be `{PUBLISHED}` or a URL."
        )
    sources: tuple[Source, ...] = getattr(module, "PUBLISHED", ())
    if not sources and not hasattr(module, "published"):
        raise UserError(
            f"params.yaml: {owner.replace('/', '.')}: no `{PUBLISHED}` weights of it are known; name a file or a URL as its"
            " `weights`."
        )
    return Published(named, sources)


def file(study: Study, named: Named) -> Path | None:
    """The file that holds the network's weights, whether it is there or not; None where they are random."""
    if named.is_fetched:
        return study.files.at("weights", owner=named.owner)
    return places.source(named.weights) if named.weights else None


def network(study: Study, owner: str) -> Named:
    """A network of params.yaml by how its weights are called; one that is not there is an error."""
    family, _, name = owner.partition("/")
    if family == "backbones" and name in study.backbones:
        return find_backbone(study.backbones, name)
    if family == "maskers" and name in study.maskers:
        return study.masker(name)
    there = [*(f"backbones/{n}" for n in study.backbones), *(f"maskers/{n}" for n in study.maskers)]
    raise UserError(f"params.yaml has no '{owner}'; there are: {', '.join(there)}.")


def own_weights(study: Study, named: Named, before: str = "") -> str:
    """A network's own file of weights by its content, 16 hex digits; empty where weights are random or fetched.

    ``before``: what it was when something was made of it, which holds as long as the file is elsewhere.
    """
    own = None if named.is_fetched else file(study, named)
    return (known_by(own, study.files.at("known_files")) or before) if own else ""


def masker_identity(study: Study, masker: str, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a masker's masks depend on beside photos and fetched weights: its kind, its options, its own files' fingerprints.

    ``before``: what a record has in its place; of files that are elsewhere, it is what they are known by.
    """
    chosen, known = study.masker(masker), before or {}
    module = chosen.module
    options = {k: v for k, v in chosen.options.items() if k not in module.SPEED}
    weights = own_weights(study, chosen, known.get("weights", ""))
    listing = dict(known.get("listing", {}))
    given = {k: str(chosen.options[k]) for k in module.FILES if chosen.options.get(k)}
    seen = {
        k: listing[k] if k in listing and elsewhere(v) else fingerprint(v, study.files.at("known_files"))
        for k, v in given.items()
    }
    own_files = {"weights": weights, "listing": seen}
    return {"kind": chosen.kind, "options": options} | {k: v for k, v in own_files.items() if v}
