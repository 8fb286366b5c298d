"""One more entry a model: what training, retrieval and attribution found, side by side, so that models can be compared.

Only results that belong together are joined: those of the model as it was trained last.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace

from bgbias.tracking.entries import CELL, Entry

NODE = "cell"
NODES = ("train", "embed", "score", "attribute", "segment")
# The name by which a node's record calls the node it was made of: the training, or the embeddings.
MADE_OF = {"embed": "model", "score": "embed", "attribute": "model", "segment": "model"}
# What stands there instead of a model for a backbone's own features, which nothing was trained for.
UNTRAINED = frozenset({"backbone", "index", "fetched_weights"})
# Told of each node; of the model: all of its seconds, the most of its memory.
OF_NODES = frozenset({"seconds", "peak_memory_mb"})
# How many photos were seen is said by the nodes that saw them.
COUNTS = frozenset({"photos", "photos_without_trusted_mask"})
TAGS = ("grid", "subject", "git_commit", "mlflow.source.git.commit", "mlflow.source.type", *CELL)


def cell_runs(entries: Iterable[Entry]) -> dict[str, Entry]:
    """The entries of the models whose nodes are among these, by key."""
    nodes: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        if entry.node in NODES:
            nodes.setdefault(entry.tags["subject"], {})[entry.node] = entry
    made = (_joined(_belonging(found)) for found in nodes.values())
    return {entry.key: entry for entry in made if entry}


def _belonging(found: dict[str, Entry]) -> list[Entry]:
    """The nodes that build on one another."""
    chain = [found[name] for name in ("train", "embed") if name in found][:1]
    for name, link in MADE_OF.items():
        if name in found and found[name] not in chain and _is_of(found[name], link, chain):
            chain.append(found[name])
    return chain


def _is_of(entry: Entry, link: str, chain: list[Entry]) -> bool:
    """Whether a node is of the same model as those of the chain."""
    if link in entry.upstream:
        return entry.upstream[link] in {below.digest for below in chain}
    first = chain[0] if chain else None
    return first is not None and first.node == "embed" and _untrained(entry) == _untrained(first)


def _untrained(entry: Entry) -> dict[str, str]:
    """What a node's record says of the backbone and the photos that it was made of."""
    of_record = entry.upstream | entry.params
    return {k: v for k, v in of_record.items() if k.partition(".")[0] in UNTRAINED}


def _joined(chain: list[Entry]) -> Entry | None:
    if not chain:
        return None
    first = chain[0]
    params = {k: v for entry in reversed(chain) for k, v in entry.params.items() if k != "metrics"}
    metrics = {k: v for e in chain for k, v in e.metrics.items() if k not in OF_NODES | COUNTS}
    spent = [entry.metrics["seconds"] for entry in chain if "seconds" in entry.metrics]
    if spent:
        metrics["seconds"] = sum(spent)
        metrics["peak_memory_mb"] = max(e.metrics["peak_memory_mb"] for e in chain if "seconds" in e.metrics)
    status = next(
        (s for s in ("RUNNING", "FAILED", "KILLED") if any(e.status == s for e in chain)), "FINISHED"
    )
    ended = [entry.finished for entry in chain if entry.finished]
    digests = {entry.node: entry.digest for entry in chain}
    return replace(
        first,
        key=first.key.replace(f"/{first.node}/", f"/{NODE}/", 1),
        node=NODE,
        name=first.name.removeprefix(f"{first.node} "),
        # Of what it was made of first: what is found of the same model later is added to its run.
        digest=hashlib.sha256(f"{NODE} {first.digest}".encode()).hexdigest()[:16],
        status=status,
        finished=max(ended) if ended and status != "RUNNING" else None,
        params=params | {"node": NODE},
        tags={k: first.tags[k] for k in TAGS if k in first.tags}
        | {"node": NODE, "mlflow.source.name": "bgbias", "upstream": json.dumps(digests, sort_keys=True)},
        metrics=metrics,
        model=None,
        history=None,
        vitals=None,
        process=None,
        pictures=(),
        growth=(None, None),
    )
