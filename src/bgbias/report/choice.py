"""Which of several models to take, in sentences."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bgbias.report import prose
from bgbias.results.comparison import Choice, Stability
from bgbias.results.uncertainty import Estimate

TEMPLATE = "choice.j2"


def headline(choice: Choice, changed: Estimate) -> str:
    """The model to take, and whether that is more than chance; ``changed``: its MAP@R in front of other
    backgrounds, in percent.
    """
    return " ".join(prose.fill_macro(TEMPLATE, "headline", choice=choice, changed=changed))


def details(choice: Choice, models: Sequence[Mapping[str, Any]], stability: Stability | None) -> list[str]:
    """What else to know before one is taken: who is ahead on original photos, who is fastest, and whether
    the order of the drops holds. ``models``: rows of ``ModelComparison.models`` with ``seconds_a_photo``.
    """
    candidates = [row for row in models if not row["is_reference"]]
    may_be_best = [row for row in candidates if row["model"] in (choice.best, *choice.as_good)]
    timed = [row for row in may_be_best if not math.isnan(row["seconds_a_photo"])]
    return prose.fill_macro(
        TEMPLATE,
        "details",
        choice=choice,
        on_original=max(candidates, key=lambda row: row["clean"]) if len(candidates) > 1 else None,
        fastest=min(timed, key=lambda row: row["seconds_a_photo"]) if len(timed) > 1 else None,
        stability=stability,
    )
