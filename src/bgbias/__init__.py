"""bgbias: does a retrieval model look at the object, or at what stands behind it?

What ``__all__`` names is stable. It is imported when it is first asked for: ``import bgbias`` alone loads no network library.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bgbias.version import VERSION

__version__ = VERSION
__all__ = [
    "Audit",
    "ComparedAudits",
    "Embedder",
    "Estimate",
    "Explanation",
    "Ranking",
    "UserError",
    "__version__",
    "attribute",
    "audit",
    "corrupt",
    "embed",
    "estimate",
    "explain",
    "load",
    "plugins",
    "rank",
    "relative_drop",
]

if TYPE_CHECKING:
    from bgbias import plugins
    from bgbias.api import Ranking, attribute, corrupt, embed, explain, load, rank
    from bgbias.attribution.explanation import Explanation
    from bgbias.auditing.comparison import ComparedAudits
    from bgbias.auditing.finished import Audit
    from bgbias.auditing.request import audit
    from bgbias.errors import UserError
    from bgbias.evaluation.embedder import Embedder
    from bgbias.results.uncertainty import Estimate, estimate, relative_drop
else:
    # Not of api.py.
    _ELSEWHERE = {
        "Audit": "auditing.finished",
        "audit": "auditing.request",
        "ComparedAudits": "auditing.comparison",
        "Embedder": "evaluation.embedder",
        "Estimate": "results.uncertainty",
        "Explanation": "attribution.explanation",
        "UserError": "errors",
        "estimate": "results.uncertainty",
        "relative_drop": "results.uncertainty",
    }

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'bgbias' has no attribute '{name}'")
        if name == "plugins":
            return import_module("bgbias.plugins")
        return getattr(import_module(f"bgbias.{_ELSEWHERE.get(name, 'api')}"), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
