"""The files that a dataset of params.yaml is made of, and the weights that a network starts from: where each can come from, and
what a digest sees of that.

Weights are random, a file of the user's, or fetched by the node ``weights``. A network that has some is called by its family and
its name in params.yaml: ``backbones/resnet18``, ``maskers/u2net``. Its file in the family's folder may offer ``PUBLISHED``, the
sources of its weights.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bgbias.errors import UserError
from bgbias.files import places
from bgbias.files.checksums import Content
from bgbias.files.fetch import Source
from bgbias.study.named import PUBLISHED, NamedEntry, find_backbone
from bgbias.study.params import Study

PART = re.compile("[a-z_]+")


def parts_of(study: Study, dataset: str) -> dict[str, tuple[Source, ...]]:
    """The files a dataset is made of, each with the places it can come from, best first; none for one that is rendered."""
    entry = study.dataset(dataset)
    parts = dict(entry.fact("parts"))
    if wrong := [part for part in parts if not PART.fullmatch(part)]:
        raise UserError(
            f"{entry.module.__file__} calls a file of its datasets {wrong[0]!a}; the name becomes part of paths and"
            " commands: small letters and _ only."
        )
    return parts


def sources_of(study: Study, dataset: str, part: str) -> tuple[Source, ...]:
    """The places of one of a dataset's files."""
    parts = parts_of(study, dataset)
    if not parts:
        raise UserError(f"{dataset} has nothing to fetch: `python -m bgbias index {dataset}` renders it.")
    if part not in parts:
        raise UserError(f"{dataset} has no part '{part}'; it has: {', '.join(parts)}.")
    return parts[part]


def identity(sources: tuple[Source, ...]) -> list[dict[str, Any]]:
    """What the digest sees of a file's sources: its checksum, so that a new mirror changes nothing; where none is known, the
    place, and for a local file or folder what lies there.
    """
    identities = []
    for source in sources:
        folder = bool(source.place) and places.source(source.place or "").is_dir()
        checksum = None if folder else source.md5 or source.sha256  # a folder has none
        content: dict[str, Any] = {"checksum": checksum}
        if not checksum:
            content = {"place": source.place, "file": source.file, "keep": source.keep}
            content["listing"] = Content(source.place or "", source.names)
        identities += [content] if content not in identities else []
    return identities


@dataclass(frozen=True)
class PublishedWeights:
    """Weights to fetch: from ``sources``, or, where there are none, by the library that knows the network."""

    network: NamedEntry
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


def find_published(study: Study, owner: str) -> PublishedWeights:
    """What to fetch for a network; one that has nothing to fetch is an error."""
    entry = network_of(study, owner)
    weights, module = entry.weights, entry.module
    if "://" in weights:
        source = Source(place=weights, sha256=getattr(entry.params(), "sha256", None))
        return PublishedWeights(entry, (source,))
    if weights != PUBLISHED:
        raise UserError(
            f"{owner} has nothing to fetch: params.yaml gives it"
            f" {f'the file {weights}' if weights else 'random weights'}; its weights may be `{PUBLISHED}` or a URL."
        )
    sources: tuple[Source, ...] = getattr(module, "PUBLISHED", ())
    if not sources and not hasattr(module, "published"):
        raise UserError(
            f"params.yaml: {owner.replace('/', '.')}: no `{PUBLISHED}` weights of it are known; name a file or a URL as its"
            " `weights`."
        )
    return PublishedWeights(entry, sources)


def weights_file(study: Study, entry: NamedEntry) -> Path | None:
    """The file that holds the network's weights, whether it is there or not; None where they are random."""
    if entry.is_fetched:
        return study.files.at("weights", owner=entry.owner)
    return places.source(entry.weights) if entry.weights else None


def network_of(study: Study, owner: str) -> NamedEntry:
    """A network of params.yaml by how its weights are called; one that is not there is an error."""
    family, _, name = owner.partition("/")
    if family == "backbones" and name in study.backbones:
        return find_backbone(study.backbones, name)
    if family == "maskers" and name in study.maskers:
        return study.masker(name)
    there = [*(f"backbones/{n}" for n in study.backbones), *(f"maskers/{n}" for n in study.maskers)]
    raise UserError(f"params.yaml has no '{owner}'; there are: {', '.join(there)}.")


def masker_identity(study: Study, masker: str) -> dict[str, Any]:
    """What a masker's masks depend on beside photos and fetched weights: its kind, its options, its own files by content."""
    chosen = study.masker(masker)
    module = chosen.module
    options = {k: v for k, v in chosen.options.items() if k not in module.SPEED}
    has_own_weights = chosen.weights and not chosen.is_fetched
    weights = {"weights": Content(chosen.weights, is_file=True)} if has_own_weights else {}
    files = {k: Content(str(chosen.options[k])) for k in module.FILES if chosen.options.get(k)}
    return {"kind": chosen.kind, "options": options} | weights | ({"listing": files} if files else {})
