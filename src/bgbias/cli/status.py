"""What `bgbias status` prints: how many steps of each kind are current, why the others are not, and the next command."""

import shlex
from collections import Counter

from bgbias.cli.arguments import WORDS
from bgbias.engine.freshness import ARCHIVES, Finding
from bgbias.errors import for_this_study
from bgbias.study.params import Study

STATES = ("current", "stale", "behind", "missing")


def format_status(study: Study, findings: list[Finding], deep: bool = False) -> str:
    """A line for each kind of step, then the reason of everything that is stale, then the next command.

    ``findings``: what ``freshness.examine`` gave, ``deep`` or not. What only a deep look finds, `restore` has to set aside, since
    nothing else tells Snakemake of it.
    """
    from bgbias.report import prose  # with pandas, which other commands do without

    counts = Counter((f.node.name, f.state) for f in findings)
    missing = [f.node for f in findings if f.state == "missing" and f.node.name not in ARCHIVES]
    targets = dict.fromkeys(
        WORDS["targets"].get(n.name) or shlex.quote(str(n.record(study))) for n in missing
    )
    text = prose.lines(
        "status.j2",
        study=study,
        states=STATES,
        kinds={f.node.name: [counts[f.node.name, state] for state in STATES] for f in findings},
        stale=[f for f in findings if f.state == "stale"],
        has_work=counts.keys() & {("table", "missing"), ("figure", "missing")}
        or any(state in ("stale", "behind") for _, state in counts),
        is_deep=deep,
        missing=missing,
        numbers=Counter(node.name for node in missing),
        targets=list(targets),
    )
    return for_this_study(text)
