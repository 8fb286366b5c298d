"""Cures on the last feature map: pictures stay as they are, and so does what the network saw around the object."""

from __future__ import annotations

from bgbias.compute.lazy import F, Tensor

INDEX = "again"
FITTED = False
LEAST = 1e-3  # weight of a place without any object: nothing is divided by 0


def pool_on_object(features: Tensor, masks: Tensor) -> Tensor:
    """Feature maps whose plain mean is the mean weighted by the mask at the map's resolution."""
    weights = F.adaptive_avg_pool2d(masks, (features.shape[2], features.shape[3])) + LEAST
    return features * (weights / weights.mean(dim=(2, 3), keepdim=True))


def find_places(features: Tensor, masks: Tensor) -> Tensor:
    """Where half of a place or more is object, bool [B, h, w]; the places with most of it where there is none such. They are
    compared one by one, and not their mean (``late_interaction``).
    """
    share = F.adaptive_avg_pool2d(masks, (features.shape[2], features.shape[3]))[:, 0]
    return share >= share.amax(dim=(1, 2), keepdim=True).clamp(max=0.5)


MEMBERS = {
    "object_pooling": {"TITLE": "pooling on the object", "AT": "features", "apply": pool_on_object},
    "patchwise": {"TITLE": "patches of the object", "AT": "patches", "apply": find_places},
}
