"""What stands, what is stale and why, told from the records alone: Snakemake's own memory is not asked."""

from __future__ import annotations

from collections import Counter

from bgbias.engine import freshness
from bgbias.engine.freshness import Finding
from bgbias.study.params import Study

STATES = ("current", "stale", "behind", "missing")
ARCHIVES = ("fetch", "weights")
MOST_TOLD = 20


def told(study: Study, thorough: bool = False) -> str:
    """A line for each kind of node, then the reason of everything that is stale, then the next command."""
    findings = freshness.examine(study, thorough)
    counts = Counter((f.node.name, f.state) for f in findings)
    names = list(dict.fromkeys(f.node.name for f in findings))
    lines = [f"grid {study.grid}", f"  {'':<12}" + "".join(f"{state:>9}" for state in STATES)]
    lines += [
        f"  {name:<12}" + "".join(f"{counts[name, state] or '-':>9}" for state in STATES) for name in names
    ]
    stale = [f for f in findings if f.state == "stale"]
    lines += [f"stale: {f.node.label} ({f.why})" for f in stale[:MOST_TOLD]]
    if len(stale) > MOST_TOLD:
        lines.append(f"and {len(stale) - MOST_TOLD} more")
    return "\n".join([*lines, _next(study, findings)])


def complete(study: Study) -> bool:
    """Whether all that the grid's tables and figures need is there and current; fetched archives may be elsewhere."""
    return all(f.state == "current" or f.node.name in ARCHIVES for f in freshness.examine(study))


def _next(study: Study, findings: list[Finding]) -> str:
    states = {f.state for f in findings}
    wanted = [f for f in findings if f.node.name in ("table", "figure")]
    if all(f.state == "current" for f in wanted) and not states & {"stale", "behind"}:
        return "Tables and figures are current."
    return f"Next: snakemake --cores all --config grid={study.grid} (with -n: what it would run)"
