"""``audit.html``: the audit as an HTML report that needs no other file. Its numbers are those of ``audit.json``."""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from bgbias.attribution.settings import Attribution
from bgbias.auditing import findings, slices, text, workplace
from bgbias.auditing.looks import ShownMap
from bgbias.auditing.measured import Measured
from bgbias.auditing.text import AuditFacts
from bgbias.evaluation.conditions import QUERY_ONLY, SYMMETRIC
from bgbias.photos.examination import TURNED_MASKS
from bgbias.report import html, maps
from bgbias.report import queries as asking
from bgbias.report.html.pictures import inside, outlined
from bgbias.results.decomposition import STEPS
from bgbias.results.uncertainty import FEWEST_HARD, Estimate
from bgbias.version import VERSION

CLASSES = 500  # rows of the page's table; classes.csv has all
SMALL = 150  # pixels
SETTINGS = (QUERY_ONLY, SYMMETRIC)


def render(audit: Measured, files: Sequence[str]) -> str:
    """The page, which links to ``files`` beside it."""
    facts = AuditFacts(audit)
    values: dict[str, Any] = {
        "a": facts,
        "audit": audit,
        "model": workplace.without_folders(audit.model.name),
        "command": workplace.without_folders(audit.question.command),
        "verdict": text.verdict(audit),
        "evidence": text.sentences(audit, "evidence"),
        "trusted": text.sentences(audit, "masks"),
        "advice": text.sentences(audit, "advice"),
        "scale": text.attribution_scale(),
        "shares": text.shares(audit),
        "of_turned_masks": [o.told() for o in audit.question.collection.oddities if o.name in TURNED_MASKS],
        "interval": html.interval,
        "version": VERSION,
        "files": files,
        "levels": [],
        "queries": [],
        "samples": Attribution().samples,
        "maps": [
            {"photo": inside(outlined(m.photo, m.mask), SMALL), "map": inside(_coloured(m), SMALL), "of": m}
            for m in audit.looks.maps
        ],
        "doubtful": [{"picture": inside(outlined(m.photo, m.mask), SMALL), "of": m} for m in audit.doubtful],
    }
    return html.render("audit.html", values | _of_labelled(facts))


def _of_labelled(facts: AuditFacts) -> dict[str, Any]:
    audit, found = facts.audit, facts.audit.findings
    if found is None:
        return {}
    short = findings.without_common_folder(found.classes["class_name"])
    steps = {name: {s: facts.step(name, s) for s in SETTINGS} for name in found.steps["step"].unique()}
    least = facts.drop().low
    tested = audit.leak is not None and not math.isnan(audit.leak.more.low + least)
    parts = [steps[name][QUERY_ONLY] for name in STEPS] if steps else []
    has_tests = bool(parts) and not any(math.isnan(part.low) for part in parts)
    return {
        "four": {(audit.leak.found, least > 0): ()} if audit.leak and tested else {},
        "levels": [
            {"title": title, "condition": name} | {s: facts.level(name, s) for s in SETTINGS}
            for name, title in facts.levels
        ],
        "steps": [{"title": text.STEP_TITLES[name]} | of for name, of in steps.items()],
        "relative": {s: facts.drop(s) for s in SETTINGS},
        "points": {s: facts.drop(s, "points") for s in SETTINGS},
        "spread": _spread([*chain(*(of.values() for of in steps.values())), *(t.lost for t in audit.thirds)]),
        "significant": [n for n, e in zip(STEPS, parts, strict=True) if e.low > 0] if has_tests else None,
        "classes": [
            row | {"name": short[row["class_name"]], "picture": audit.portraits.get(row["class_name"], "")}
            for row in found.classes.head(CLASSES).to_dict("records")
        ],
        "fewest_hard": FEWEST_HARD,
        "properties": slices.PROPERTIES,
        "queries": asking.on_page(audit.queries),
    }


def _spread(shown: list[Estimate]) -> tuple[int, int]:
    """The ends of the lines that points are drawn on, in tens of points."""
    ends = np.array([[e.value, e.low, e.high] for e in shown or [Estimate(0.0)]])
    low, high = 100 * np.nanmin(ends, initial=0), 100 * np.nanmax(ends, initial=0.1)
    return 10 * math.floor(max(low, -100) / 10), 10 * math.ceil(min(high, 100) / 10)


def _coloured(shown: ShownMap) -> np.ndarray:
    return np.round(255 * maps.overlay(shown.photo, shown.attribution)).astype(np.uint8)
