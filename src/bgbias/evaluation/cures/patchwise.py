"""Places of the last feature map that lie on the object are compared one by one, and not their mean (``late_interaction``)."""

from __future__ import annotations

from bgbias.compute.lazy import F, Tensor

TITLE = "patches of the object"
INDEX = "again"
FITTED = False
AT = "patches"


def apply(features: Tensor, masks: Tensor) -> Tensor:
    """Where half of a place or more is object, bool [B, h, w]; the places with most of it where there is none such."""
    share = F.adaptive_avg_pool2d(masks, (features.shape[2], features.shape[3]))[:, 0]
    return share >= share.amax(dim=(1, 2), keepdim=True).clamp(max=0.5)
