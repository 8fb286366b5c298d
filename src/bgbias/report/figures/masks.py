"""The worst and the most doubtful masks of one dataset's photos, with the reason why each is
shown. Good: the outline is the object's. One around a part of it, or around something else, makes a
loss that is the mask's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
import pandas as pd

from bgbias.engine import inputs
from bgbias.engine.node import files_of, step
from bgbias.files.store import ImageStore
from bgbias.images import contact_sheet
from bgbias.masks import policy as masking
from bgbias.masks.quality import THRESHOLD
from bgbias.masks.settings import MaskPolicy
from bgbias.report import sources, style
from bgbias.report.figures import _subject as subject
from bgbias.report.sheets import LABEL, Outline, Picture, sheet
from bgbias.study.params import Study

PLACE = 2
settings = inputs.mask_policy
TILES = 6  # masks of one kind
OUTLINE, TRUTH = "#FFB000", "#FFFFFF"
DIMMED = 0.42  # brightness of what the mask takes for background
LONGEST_ID = 20
LARGEST = 300  # pixels of a photo's side in a file


def reads(study: Study) -> sources.Sources:
    dataset = subject.dataset(study)
    return files_of(step("index", dataset=dataset), "photos", "truth") | inputs.masks(study, dataset)


def draw(study: Study) -> style.Figure:
    read = {role: file.path(study) for role, file in reads(study).items()}
    photos, truth, masks = (ImageStore(read[name]) for name in ("photos", "truth", "masks"))
    table = masking.read_mask_table(read["mask_table"])
    usable = masking.usable(table, study.mask_policy)
    rows = {str(row["image_id"]): row for row in table.to_dict("records")}

    def tile(image_id: str) -> MaskTile:
        true = truth.array(image_id, "L") if image_id in truth else None
        row = {str(column): value for column, value in rows[image_id].items()}
        return MaskTile(photos.array(image_id), masks.array(image_id, "L"), true, row, image_id not in usable)

    chosen = select_doubtful(table, study.mask_policy)
    tiles = {reason: [tile(image_id) for image_id in ids] for reason, ids in chosen.items()}
    return figure_masks(tiles, study.mask_policy)


@dataclass(frozen=True)
class MaskTile:
    """A photo (uint8 [H, W, 3]) with its mask and, where known, its true mask (uint8 [H, W]); ``row`` is the mask table's."""

    photo: np.ndarray
    alpha: np.ndarray
    truth: np.ndarray | None
    row: Mapping[str, object]
    excluded: bool = False


def select_doubtful(table: pd.DataFrame, policy: MaskPolicy, count: int = TILES) -> dict[str, list[str]]:
    """Ids by the reason to look at them, at most ``count`` each; a photo stands under its first reason only.

    Reasons without a mask to show are left out: lowest IoU where no truth is known, say.
    """
    area = table["area"]
    to_bound = np.minimum((area - policy.min_area).abs(), (area - policy.max_area).abs())
    measures = {
        "lowest IoU": table["iou"],
        "least clear": table["clarity"],
        "smallest": area,
        "largest": -area,
        "nearest to the\npolicy's bounds": to_bound,
    }
    chosen: dict[str, list[str]] = {}
    taken: set[str] = set()
    for reason, measure in measures.items():
        remaining = table.assign(measure=measure)[~table["image_id"].isin(taken)].dropna(subset="measure")
        # Ids break ties, so that the same masks always give the same picture.
        ids = remaining.sort_values(["measure", "image_id"], kind="stable")["image_id"].head(count).tolist()
        if ids:
            chosen[reason] = ids
            taken.update(ids)
    return chosen


def figure_masks(rows: Mapping[str, Sequence[MaskTile]], policy: MaskPolicy) -> style.Figure:
    """A row of photos for every reason: what the mask takes for background is dark, its outline at 128 amber, the truth's
    dashed white. Photos that the policy excludes have a red frame."""
    bounds = f"{100 * policy.min_area:g} % to {100 * policy.max_area:g} %"
    usage = "all masks are used" if policy.keep_all else f"red frame: not used, for its area is not {bounds}"
    legend = (
        f"amber: outline of the mask at {THRESHOLD} of 255 · dashed white: of the true object, where known · {usage}\n"
        "below each photo: area · clarity · IoU, where known"
    )
    labels = [(reason, contact_sheet.INK) for reason in rows]
    pictures = [[_draw_tile(tile) for tile in tiles] for tiles in rows.values()]
    return sheet(pictures, labels=labels, legend=legend, side=(style.WIDTH - LABEL) / TILES)


def _draw_tile(tile: MaskTile) -> Picture:
    photo, alpha = _fit(tile.photo), _fit(tile.alpha)
    shade = DIMMED + (1 - DIMMED) * alpha[..., None] / 255.0
    outlines = [] if tile.truth is None else [Outline(_fit(tile.truth) / 255, 0.8, TRUTH, (0, (2.5, 1.5)))]
    outlines.append(Outline(alpha / 255, 0.95, OUTLINE))
    return Picture(
        (photo * shade).astype(np.uint8),
        tuple(outlines),
        caption=f"{_shorten(str(tile.row['image_id']))}\n{_format_measures(tile.row)}",
        frame=(style.WRONG, 1.8) if tile.excluded else (contact_sheet.RULE, 0.6),
    )


def _format_measures(row: Mapping[str, object]) -> str:
    area, *measures = (float(str(row[name])) for name in ("area", "clarity", "iou"))
    texts = [f"{measure:.2f}" for measure in measures if not math.isnan(measure)]
    return " · ".join([f"{100 * area:.0f} %", *texts])


def _shorten(image_id: str) -> str:
    """The photo's name, its middle left out where it is long; its folder is left out always."""
    name = PurePosixPath(image_id).stem
    return name if len(name) <= LONGEST_ID else f"{name[:9]}…{name[-10:]}"


def _fit(picture: np.ndarray) -> np.ndarray:
    from PIL import Image

    image, longest = Image.fromarray(picture), LARGEST
    image.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    return np.asarray(image)
