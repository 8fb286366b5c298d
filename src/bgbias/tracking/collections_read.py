"""The photos, masks and backgrounds behind a run, found by following the digests of the nodes that it builds on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bgbias.tracking.entries import Collection, Entry

# What each of these nodes makes, and the file by which it is named.
MAKERS = {
    "index": ("photos", "photos.zip"),
    "masks": ("masks", "masks.zip"),
    "backgrounds": ("backgrounds", "backgrounds.csv"),
}
OF_A_MODEL = ("train", "embed", "score", "attribute", "segment")


def collection(record: Mapping[str, Any]) -> Collection | None:
    """What a finished record certifies, if it is photos, masks or backgrounds."""
    if record["node"] not in MAKERS:
        return None
    role, file = MAKERS[record["node"]]
    source = next((path for path in record.get("outputs") or {} if path.endswith(file)), "")
    spec = record["spec"]
    origin = (spec.get("options") or {}).get("source") or spec.get("pools")
    told = {"kind": spec.get("kind"), "origin": origin, **(record.get("metrics") or {})}
    return Collection(
        name=f"{record['subject']} {role}",
        digest=record["digest"],
        role=role,
        source=source,
        profile={k: v for k, v in told.items() if v is not None},
    )


def collections_of(
    entry: Entry, finished: Mapping[str, Entry], found: Mapping[str, Collection]
) -> tuple[Collection, ...]:
    """The collections behind a model's node; those whose makers' records are not here (any more) are left out."""
    if entry.node not in OF_A_MODEL:
        return ()
    read: dict[str, Collection] = {}
    waiting, seen = [*entry.upstream.values()], set()
    while waiting:
        digest = waiting.pop()
        if digest in seen:
            continue
        seen.add(digest)
        if digest in found:
            read[digest] = found[digest]
        elif digest in finished:
            waiting += finished[digest].upstream.values()
    return tuple(sorted(read.values(), key=lambda made: (made.role != "photos", made.name)))
