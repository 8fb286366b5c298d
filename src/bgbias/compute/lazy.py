"""torch, imported when something of it is first used: ``from bgbias.compute.lazy import F, Tensor, nn, torch``.

For files that planning reads, too, and must not wait for: what a loss, a method or a backbone says of itself needs no torch, what
it computes does. Classes at a module's top level that derive from torch's stand in modules that import it as usual. ``Tensor`` is
for annotations alone: ask ``isinstance(x, torch.Tensor)``.
"""

from typing import TYPE_CHECKING, Any

__all__ = ["F", "Tensor", "nn", "torch"]

if TYPE_CHECKING:
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn
else:
    import importlib

    class _Lazy:
        def __init__(self, name):
            self._name = name

        def __repr__(self):
            return f"{self._name}, when it is used"

        def __getattr__(self, attribute):
            if attribute.startswith("__"):  # asked by who copies or documents it
                raise AttributeError(attribute)
            import torch  # noqa: F401  # by this statement the version of torch counts in digests of code

            return getattr(importlib.import_module(self._name), attribute)

    torch, nn, F = map(_Lazy, ("torch", "torch.nn", "torch.nn.functional"))
    Tensor = Any  # for annotations alone
