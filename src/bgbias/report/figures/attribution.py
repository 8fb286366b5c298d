"""Figure 2: where models look, as attribution maps beside the photo and its mask (docs/methods.md, section 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bgbias.engine.node import Made
from bgbias.images import contact_sheet
from bgbias.report import names
from bgbias.report.figures import _look as look
from bgbias.report.figures import _shown as shown
from bgbias.report.figures._maps import FOOT, GAP, HEAD, MARGIN, at_size, number, overlay, scale
from bgbias.study.params import Study

PLACE = 4
ABOUT = (
    "Where in a photo each model's answer comes from: the brighter, the more. The object is outlined; the number is the"
    " attribution score."
)
wanted, settings = shown.has_pair, shown.settings
PHOTOS = 4
SIDE = 1.3


def reads(study: Study) -> dict[str, Made]:
    """Photos and masks, and both models' maps and scores."""
    return shown.corrupted(study) | shown.of_pair(study, "attribute", "maps", "attribution")


def draw(study: Study) -> look.Figure:
    """Attribution maps of both models on the same photos."""
    photos = shown.evaluation(study)
    read = reads(study)
    maps, scores = {}, {}
    for cell in shown.pair(study):
        with np.load(read[f"maps {cell.name}"].path(study), allow_pickle=False) as file:
            maps[cell.method] = dict(zip(file["ids"].tolist(), file["ref"], strict=True))
        frame = pd.read_csv(read[f"attribution {cell.name}"].path(study))
        scores[cell.method] = frame[frame["variant"] == "ref"].set_index("image_id")["score"].to_dict()
    ids = [i for i in maps["plain"] if all(i in m for m in maps.values())][:PHOTOS]
    return figure_attribution(
        [
            AttributedPhoto(
                photos.clean(i),
                photos.mask(i),
                {method: m[i].astype(np.float32) for method, m in maps.items()},
                {method: float(s[i]) for method, s in scores.items()},
            )
            for i in ids
        ]
    )


@dataclass(frozen=True)
class AttributedPhoto:
    """A photo uint8 [H, W, 3] as the model saw it, its soft mask [h, w] (uint8, or float in 0..1), and for
    each method an attribution map [h, w] in 0..1 and its score (NaN: none).
    """

    photo: np.ndarray
    mask: np.ndarray
    maps: Mapping[str, np.ndarray]
    scores: Mapping[str, float]


def figure_attribution(examples: Sequence[AttributedPhoto]) -> look.Figure:
    """A row a photo: the photo, the object's outline, then one map a method with its attribution score.

    Bright pixels move the embedding most; the outline of the object is drawn into every map.
    """
    methods = list(examples[0].maps)
    columns = 2 + len(methods)
    width = 2 * MARGIN + columns * SIDE + (columns - 1) * GAP
    height = HEAD + len(examples) * (SIDE + GAP) + FOOT
    with look.style():
        figure = look.blank(width, height)
        for line, example in enumerate(examples):
            top = HEAD + line * (SIDE + GAP)
            row = [look.panel(figure, MARGIN + c * (SIDE + GAP), top, SIDE, SIDE) for c in range(columns)]
            look.photo(row[0], example.photo)
            look.photo(row[1], _lit(example))
            _outline(row[1], example, "white", 1.2)
            for axes, method in zip(row[2:], methods, strict=True):
                look.photo(axes, overlay(example.photo, example.maps[method]))
                _outline(axes, example, "white", 0.7)
                number(axes, example.scores[method], look.colour(method))
            if line == 0:
                _heads(row, methods)
        scale(figure, width, height - FOOT + 0.03, "number: attribution score      attribution: none")
    return figure


def _heads(row: Sequence[look.Axes], methods: Sequence[str]) -> None:
    words = ["Photo", "Object", *map(names.method, methods)]
    colours = [contact_sheet.INK, contact_sheet.INK, *map(look.colour, methods)]
    for axes, word, colour in zip(row, words, colours, strict=True):
        axes.set_title(word, loc="center", pad=4, color=colour)


def _lit(example: AttributedPhoto) -> np.ndarray:
    """The photo with everything around the object dimmed."""
    alpha = _alpha(example)[..., None]
    return np.clip(example.photo / 255 * (0.3 + 0.7 * alpha), 0, 1)


def _alpha(example: AttributedPhoto) -> np.ndarray:
    mask = np.asarray(example.mask, dtype=np.float64)
    return at_size(mask / 255 if example.mask.dtype == np.uint8 else mask, example.photo)


def _outline(axes: look.Axes, example: AttributedPhoto, colour: str, line: float) -> None:
    alpha = look.square(_alpha(example))
    # A mask that is empty or full has no outline.
    if alpha.min() < 0.5 <= alpha.max():
        axes.contour(alpha, levels=[0.5], colors=[colour], linewidths=[line])
