"""The fingerprint of what a node reads: a node whose digest is another one has to run again.

``spec(study, node, ...)`` holds the node's settings, its code with the versions of the libraries that this imports, and the
digests of the nodes that it reads from, by their names: nothing else. The digest stands in the Snakemake rule's ``params``, so
that an edited margin or formula reruns that loss's cells and nothing else, and a new masker does not retrain a method that reads
no masks.
"""

import json
from typing import Any

from bgbias.engine import graph
from bgbias.engine.node import Node, step
from bgbias.files import code
from bgbias.files.checksums import recorded
from bgbias.study.params import Study


def digest(study: Study, name: str, /, **subject: Any) -> str:
    """A short fingerprint of everything the node reads."""

    def find() -> str:
        return code.hashed(json.dumps(spec(study, name, **subject), sort_keys=True, default=str))

    return graph.once(("digest", step(name, **subject)), find)


def spec(study: Study, name: str, /, **subject: Any) -> dict[str, Any]:
    """What the node reads, resolved: its settings, code, and the digests of the nodes that it reads
    from: of one node of a kind the digest itself, of several by what these work on.
    """
    reader = step(name, **subject)
    upstream: dict[str, dict[str, str]] = {}
    for maker in graph.reads_from(study, reader):
        upstream.setdefault(maker.name, {})[maker.of] = _of(study, maker, reader)
    read = {n: of if len(of) > 1 else next(iter(of.values())) for n, of in upstream.items()}
    settings = reader.settings(study)
    modules = reader.code(study)
    by = {"code": code.fingerprint(*modules), "libraries": code.libraries(*modules)}
    known = {"node": name, "subject": reader.of, **by}
    if hidden := (known.keys() & settings.keys()) | ((known | settings).keys() & read.keys()):
        raise ValueError(
            f"the node {name} has a setting '{min(hidden)}', which means something else in a digest"
        )
    return known | settings | read


def _of(study: Study, maker: Node, reader: Node) -> str:
    """A maker's digest. Where its sources are elsewhere (a clone whose data came from a remote) it
    cannot have changed: it is what the reader's record says that it was.
    """
    elsewhere = getattr(maker.declared, "sources_are_elsewhere", None)
    if elsewhere and elsewhere(study, **maker.keywords):
        before = recorded(reader.record(study)).get(maker.name, "")
        if known := before.get(maker.of, "") if isinstance(before, dict) else before:
            return str(known)
    return digest(study, maker.name, **maker.keywords)
