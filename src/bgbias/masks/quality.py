"""How good a mask is: its area, what it misses and what it adds, where the truth is known.

Overlap alone hides false foreground: a mask may cover nearly all of an object, and much else. Hence both are given, and the share
of the mask that lies off the object.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from bgbias.errors import UserError

# A pixel is object from this grey level on, in masks and in hand-drawn truths alike.
THRESHOLD = 128
# Outside these shares of object a mask found nothing, or everything.
EMPTY_BELOW = 0.01
FULL_ABOVE = 0.95
# Seen at so many pixels, neighbours of a mask of an object are alike but for 3 % of them.
SEEN_AT, NOISE_ABOVE = 64, 0.15
CLEAR_AT = 512  # pixels of the short side, or a little more, of which clarity is counted


def measure(
    alpha: NDArray[np.uint8],
    confidence: float,
    truth: NDArray[np.uint8] | None = None,
    image_id: str = "a photo",
) -> dict[str, Any]:
    """One row of the mask table (``policy.QUALITY``), of a soft mask (uint8 [H, W]) whose ``confidence`` is NaN where somebody
    drew it; so is its ``clarity`` then. What compares it with the truth is None or NaN where it is not defined. UserError where
    the truth has another size.
    """
    if truth is not None and truth.shape != alpha.shape:
        raise UserError(
            f"{image_id}: the true mask is {truth.shape[1]}x{truth.shape[0]} pixels, the photo"
            f" {alpha.shape[1]}x{alpha.shape[0]}; give both one size, then repeat the command."
        )
    share = area(alpha)
    return {
        "area": share,
        "confidence": confidence,
        "clarity": math.nan if math.isnan(confidence) else clarity(alpha),
        "empty": share < EMPTY_BELOW,
        "full": share > FULL_ABOVE,
        "overlap": None if truth is None else overlap(alpha, truth),
        "iou": None if truth is None else iou(alpha, truth),
        "off_object": None if truth is None else off_object(alpha, truth),
    }


def fault(alpha: NDArray[np.uint8]) -> str:
    """What a mask is that shows no object: ``nothing``, ``everything`` or ``noise``; empty if it may show one."""
    square = Image.fromarray(alpha).resize((SEEN_AT, SEEN_AT), Image.Resampling.BOX)
    mask = np.asarray(square) >= THRESHOLD
    if mask.mean() < EMPTY_BELOW:
        return "nothing"
    if mask.mean() > FULL_ABOVE:
        return "everything"
    edges = ((mask[1:] != mask[:-1]).mean() + (mask[:, 1:] != mask[:, :-1]).mean()) / 2
    return "noise" if edges > NOISE_ABOVE else ""


def area(alpha: NDArray[np.uint8]) -> float:
    """The share of object in a soft mask, f(M) in the papers: its mean, in 0..1."""
    return float(alpha.sum() / (255 * alpha.size))


def clarity(alpha: NDArray[np.uint8]) -> float:
    """How far a soft mask is one piece that is all object or all background: in 0..1, 0 without object.

    Its mean grey level in 0..1, weighted by itself, times its largest connected part's share of the object's pixels. Of a masker
    that is never in doubt of a pixel it says nothing but the latter. How well it tells wrong masks: docs/masks.md.
    """
    import cv2

    step = max(1, min(alpha.shape) // CLEAR_AT)
    alpha = np.ascontiguousarray(alpha[::step, ::step])
    levels, pixels = np.arange(256), np.bincount(alpha.ravel(), minlength=256)
    count, _, facts, _ = cv2.connectedComponentsWithStats((alpha >= THRESHOLD).astype(np.uint8))
    if count < 2:
        return 0.0
    parts = facts[1:, cv2.CC_STAT_AREA]
    return float(pixels @ levels**2 / (255 * (pixels @ levels)) * parts.max() / parts.sum())


def overlap(alpha: NDArray[np.uint8], truth: NDArray[np.uint8]) -> float | None:
    """The share of the true object's pixels that the mask covers; None where the truth has no object."""
    predicted, true = alpha >= THRESHOLD, truth >= THRESHOLD
    return float((predicted & true).sum() / true.sum()) if true.any() else None


def iou(alpha: NDArray[np.uint8], truth: NDArray[np.uint8]) -> float:
    """Intersection over union of the mask's and the truth's objects; NaN where both have none."""
    predicted, true = alpha >= THRESHOLD, truth >= THRESHOLD
    union = (predicted | true).sum()
    return float((predicted & true).sum() / union) if union else math.nan


def off_object(alpha: NDArray[np.uint8], truth: NDArray[np.uint8]) -> float | None:
    """The share of the soft mask's mass that lies outside the true object; None where the mask has none."""
    mass = int(alpha.sum(dtype=np.int64))
    return float(alpha[truth < THRESHOLD].sum(dtype=np.int64) / mass) if mass else None
