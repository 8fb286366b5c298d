"""The last feature map is pooled where the object is: pictures stay as they are, and so does what the network saw around it."""

from __future__ import annotations

from bgbias.compute.lazy import F, Tensor

TITLE = "pooling on the object"
INDEX = "again"
FITTED = False
AT = "features"
LEAST = 1e-3  # weight of a place without any object: nothing is divided by 0


def apply(features: Tensor, masks: Tensor) -> Tensor:
    """Feature maps whose plain mean is the mean weighted by the mask at the map's resolution."""
    weights = F.adaptive_avg_pool2d(masks, (features.shape[2], features.shape[3])) + LEAST
    return features * (weights / weights.mean(dim=(2, 3), keepdim=True))
