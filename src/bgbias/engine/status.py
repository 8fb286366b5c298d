"""What `bgbias status` prints: how many steps of each kind are current, why the others are not, and the next command."""

import shlex
from collections import Counter
from collections.abc import Iterator

from bgbias.engine.freshness import ARCHIVES, Finding
from bgbias.engine.node import Node
from bgbias.errors import for_this_study
from bgbias.study.params import Study

MOST_STALE, MOST_MISSING = 20, 5  # steps that are named
STATES = ("current", "stale", "behind", "missing")
# Targets of the workflow by what they make; of other steps, their record.
TARGETS = {
    **dict.fromkeys(("index", "backgrounds"), "data"),
    "masks": "all_masks",
    **dict.fromkeys(("textures", "pretrain", "train"), "models"),
    **dict.fromkeys(
        ("score", "attribute", "segment", "cross", "cure", "attack", "sanity", "probe"), "scores"
    ),
}


def format_status(study: Study, findings: list[Finding], deep: bool = False) -> str:
    """A line for each kind of step, then the reason of everything that is stale, then the next command.

    ``findings``: what ``freshness.examine`` gave, ``deep`` or not. What only a deep look finds, `restore` has to set aside, since
    nothing else tells Snakemake of it.
    """
    counts = Counter((f.node.name, f.state) for f in findings)
    lines = [f"grid {study.grid}", f"  {'':<12}" + "".join(f"{state:>9}" for state in STATES)]
    for name in dict.fromkeys(f.node.name for f in findings):
        lines.append(f"  {name:<12}" + "".join(f"{counts[name, state] or '-':>9}" for state in STATES))
    stale = [f for f in findings if f.state == "stale"]
    lines += [f"stale: {f.node.label} ({f.why})" for f in stale[:MOST_STALE]]
    if len(stale) > MOST_STALE:
        lines.append(f"and {len(stale) - MOST_STALE} more")
    return for_this_study("\n".join([*lines, *_next_steps(study, findings, deep)]))


def _next_steps(study: Study, findings: list[Finding], deep: bool) -> Iterator[str]:
    goals = [f for f in findings if f.node.name in ("table", "figure")]
    if any(f.state != "current" for f in goals) or any(f.state in ("stale", "behind") for f in findings):
        first = f"python -m bgbias restore --grid {study.grid} && " if deep else ""
        yield f"Next: {first}snakemake --cores all --config grid={study.grid} (with -n: what it would run)"
        return
    yield "Tables and figures are current."
    missing = [f.node for f in findings if f.state == "missing" and f.node.name not in ARCHIVES]
    if missing:
        yield from _missing(study, missing)


def _missing(study: Study, nodes: list[Node]) -> Iterator[str]:
    """Products that are not there, though all that was made of them is."""
    kinds = Counter(n.name for n in nodes)
    yield f"They were made from what is not here now: {', '.join(f'{k} ({number})' for k, number in kinds.items())}."
    for node in nodes[:MOST_MISSING]:
        yield f"missing: {node.label} ({node.record(study).parent})"
    if len(nodes) > MOST_MISSING:
        yield f"and {len(nodes) - MOST_MISSING} more"
    targets = dict.fromkeys(TARGETS.get(n.name) or shlex.quote(str(n.record(study))) for n in nodes)
    yield (
        "No table needs it again, so nothing makes it of itself. `dvc pull` brings what a remote keeps; to make it anew:"
        f" snakemake --cores all --config grid={study.grid} -- {' '.join(list(targets)[:MOST_MISSING])}"
    )
