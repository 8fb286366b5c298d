"""Several audits in words: the lines of the terminal, and ``comparison.html``, which needs no other file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bgbias.report import choice, html
from bgbias.report.columns import with_interval
from bgbias.report.html.pictures import url
from bgbias.results import comparison, decomposition
from bgbias.results.uncertainty import SIGNIFICANT, Estimate
from bgbias.version import VERSION

if TYPE_CHECKING:
    from bgbias.auditing.side_by_side import SideBySide

STEPS = dict(zip(decomposition.STEPS, ("pasting", "own background", "class's backgrounds"), strict=True))


def headline(group: SideBySide) -> str:
    """Which model to take, and whether that is more than chance."""
    found = group.comparison.choice
    best = next(row for row in _rows(group) if row["model"] == found.best)
    return choice.headline(found, _estimate(best, "changed", 100))


def details(group: SideBySide) -> list[str]:
    """What else to know before one is taken."""
    return choice.details(group.comparison.choice, _rows(group), group.comparison.stability)


def lines(group: SideBySide) -> Iterator[str]:
    """What the terminal shows."""
    yield headline(group)
    yield from details(group)
    yield ""
    yield f"{'MAP@R, %':<36}{'original':>10}{'other':>11}{'drop, % [95 %]':>20}{'against the best':>22}"
    against = _against_best(group)
    for row in _rows(group):
        name = row["model"] if len(row["model"]) < 36 else f"...{row['model'][-32:]}"
        drop = _said(_estimate(row, "drop", 100))
        difference = against.get(row["model"])
        more = "" if difference is None else _said(difference[0]) + " *" * difference[1]
        yield f"{name:<36}{100 * row['clean']:>10.1f}{100 * row['changed']:>11.1f}{drop:>20}{more:>22}"
    yield "[ ]: 95 %, over classes; *: significant among all pairs (Holm, p < 0.05)"


def render(groups: Sequence[SideBySide]) -> str:
    """The page: a section for each group of audits of the same photos."""
    return html.render(
        "comparison.html",
        {
            "title": "Which model finds best when the background changes?",
            "groups": [_of_page(group, number) for number, group in enumerate(groups)],
            "steps": STEPS,
            "trusted_tau": comparison.TRUSTED_TAU,
            "version": VERSION,
        },
    )


def _of_page(group: SideBySide, number: int) -> dict[str, Any]:
    against = _against_best(group)
    rows = [
        row
        | {name: _estimate(row, name) for name in ("clean", "changed", "drop")}
        | {"steps": {name: _estimate(row, name) for name in STEPS if name in row}}
        | {"against": against.get(row["model"])}
        for row in _rows(group)
    ]
    return {
        "id": f"photos-{number}",
        "about": group.about,
        "headline": headline(group),
        "details": details(group),
        "rows": rows,
        "has_steps": any(row["steps"] for row in rows),
        "stability": group.comparison.stability,
        "disputed": [
            {
                "query": query,
                "photo": url(query.photo),
                "elsewhere": url(query.elsewhere),
                "answers": [
                    (answer, [(name, right, data and url(data)) for name, right, data in answer.first])
                    for answer in query.answers
                ],
            }
            for query in group.disputed()
        ],
        "downloads": {
            "models.csv": url(group.models.to_csv(index=False).encode(), "text/csv"),
            "pairs.csv": url(group.comparison.pairs.to_csv(index=False).encode(), "text/csv"),
            "comparison.json": url(json.dumps(group.as_json()).encode(), "application/json"),
        },
    }


def _rows(group: SideBySide) -> list[dict[str, Any]]:
    return [{str(k): v for k, v in row.items()} for row in group.models.to_dict("records")]


def _against_best(group: SideBySide) -> dict[str, tuple[Estimate, bool]]:
    """How far the MAP@R of other models on other backgrounds is above that of the best one, in points, and
    whether that is significant.
    """
    found = comparison.differences(group.comparison.pairs, group.comparison.choice.best)
    return {
        name: (Estimate(100 * e.value, 100 * e.low, 100 * e.high), e.p < SIGNIFICANT)
        for name, e in found.items()
    }


def _estimate(row: dict[str, Any], name: str, scale: float = 1) -> Estimate:
    return Estimate(*(scale * row[f"{name}{end}"] for end in ("", "_low", "_high")))


def _said(found: Estimate) -> str:
    return with_interval(found.value, found.low, found.high, 1)
