"""What masks do to the drop and its parts: `make docs-sensitivity`, after `make run GRID=controls`.

``python docs/sensitivity`` sees the test photos of the grid's toys, whose true masks are known, through each of its trained
models with the masks of ``VARIANTS`` in turn: true ones, grown, eroded, with other edges, another photo's, and the
masker's. What they do to the drop stands in ``controls.csv`` beside this file, a row for each dataset, method and variant.
Then the page is written; with ``--check`` it says whether the page has what the table holds.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
import pandas as pd

from bgbias import progress
from bgbias.evaluation import embedding, scores
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, RANDOM_BACKGROUND
from bgbias.evaluation.metrics import OTHERS
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.images.inpainting import without_object
from bgbias.models.inference import for_inference
from bgbias.nodes._models import model_of
from bgbias.photos.prepared import Pictures
from bgbias.report import columns, names
from bgbias.results import rows, uncertainty
from bgbias.results.rows import MODEL
from bgbias.study import params, plan
from bgbias.study.album import Album
from bgbias.study.cell import Cell
from bgbias.study.params import Study

HERE = Path(__file__).resolve().parent
TABLE = HERE / "controls.csv"
PAGE = HERE.parent / "results/controls.md"
PART = re.compile(r"(<!-- sensitivity -->\n).*?(<!-- end -->)", re.DOTALL)
GRID, METHODS = "controls", ("plain", "bgaugment")
DATASETS = ("demo_00", "demo_90")
VIEWS = ((CLEAN, 0), ("own_inpainted", 0), (RANDOM_BACKGROUND, 0))
KEPT = ["condition", "image_id", "label", "map_at_r", OTHERS]

# From a photo's true mask uint8 [H, W] to the one that is used.
Change = Callable[[np.ndarray], np.ndarray]


def grown(pixels: int) -> Change:
    """Larger by so many pixels on each side, or smaller."""

    def change(mask: np.ndarray) -> np.ndarray:
        kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * abs(pixels) + 1,) * 2)
        return np.asarray(cv2.dilate(mask, kernel) if pixels > 0 else cv2.erode(mask, kernel))

    return change


def hard(mask: np.ndarray) -> np.ndarray:
    """Object or not."""
    return np.where(mask > 127, np.uint8(255), np.uint8(0))


def blended(mask: np.ndarray) -> np.ndarray:
    """Under a Gaussian blur of two pixels."""
    return np.asarray(cv2.GaussianBlur(mask, (0, 0), 2))


FOUND, ANOTHERS = "the masker's", "another photo's, of the same area"
VARIANTS: dict[str, Change | None] = {
    "true": lambda mask: mask,
    **{
        f"true, {n} px {'larger' if n > 0 else 'smaller'}".replace("-", ""): grown(n)
        for n in (-5, -3, -1, 1, 3, 5)
    },
    "true, hard edge": hard,
    "true, blended edge": blended,
    ANOTHERS: None,
    FOUND: None,
}


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Pictures that are made when they are asked for, and kept."""

    get: Callable[[str], np.ndarray]


def changed(photos: EvaluationPhotos, truth: Pictures, variant: str) -> EvaluationPhotos:
    """The photos with the masks of a variant; a mask with nothing or everything in it is not trusted."""
    change = VARIANTS[variant]
    if variant == FOUND:
        return photos
    ids = [i for i in photos.table.ids if i in truth.ids]

    @cache
    def mask(image_id: str) -> np.ndarray:
        return change(truth.get(image_id)) if change else truth.get(another[image_id])

    another = _of_the_same_area(ids, truth)
    usable = frozenset(i for i in ids if 0.01 <= mask(i).mean() / 255 <= 0.95)
    filled = Drawn(cache(lambda image_id: without_object(photos.photos.get(image_id), mask(image_id))))
    return dataclasses.replace(
        photos, masks=cast(Pictures, Drawn(mask)), usable=usable, inpainted=cast(Pictures, filled)
    )


def _of_the_same_area(ids: list[str], truth: Pictures) -> dict[str, str]:
    """Of each photo the one whose mask is next in size."""
    in_order = sorted(ids, key=lambda i: (float(truth.get(i).mean()), i))
    return dict(zip(in_order, [*in_order[1:], in_order[-2]], strict=True))


def seen(study: Study, cell: Cell) -> Iterator[pd.DataFrame]:
    """The queries of a model with each variant's masks."""
    model = for_inference(model_of(study, cell))
    album = Album(study, cell.dataset, model.resize, model.input_size)
    photos = album.evaluation(album.table("test"), {"masks", "backgrounds", "inpainted"}, "test")
    for variant in VARIANTS:
        shown = changed(photos, album.truth(), variant)
        queries = scores.of_queries(embedding.embed(model, shown, VIEWS), {})
        kept = queries.loc[queries["setting"] != QUERY_ONLY, KEPT]
        yield kept.assign(**cell.wildcards, masks=variant)


def measured(study: Study) -> pd.DataFrame:
    """One row for each dataset, method and variant: estimates of the drop, and of what of it pasting costs."""
    cells = [c for c in plan.trained(study) if c.dataset in DATASETS and c.method in METHODS]
    found = pd.concat(
        part for cell in progress.track(cells, len(cells), "sensitivity") for part in seen(study, cell)
    )
    lines: list[dict[str, Any]] = []
    for (*model, variant), own in found.groupby([*MODEL, "masks"], sort=False):
        parts = {c: own.loc[own["condition"] == c, [*KEPT[1:], "seed"]] for c, _ in VIEWS}
        values = rows.Values.of(cast(rows.Model, tuple(model)), parts, "map_at_r", OTHERS)
        row = dict(zip(MODEL, model, strict=True)) | {"masks": variant, "queries": len(values.queries)}
        row |= rows.interval("drop", values.estimate([CLEAN, RANDOM_BACKGROUND], uncertainty.difference), 100)
        row |= rows.interval(
            "pasting", values.estimate([CLEAN, "own_inpainted"], uncertainty.difference), 100
        )
        lines.append(row)
    return pd.DataFrame(lines)


def shown(table: pd.DataFrame) -> str:
    """As Markdown: a row for each variant, and of each dataset and method the drop and what of it pasting costs."""
    groups = [(d, m) for d in DATASETS for m in METHODS]
    heads = [f"{d}, {names.method(m)}: {what}" for d, m in groups for what in ("pasting", "drop")]
    lines = [["masks", *heads], ["---", *["---:"] * len(heads)]]
    for variant in VARIANTS:
        line = [variant]
        for dataset, method in groups:
            (row,) = table[
                (table["dataset"] == dataset) & (table["method"] == method) & (table["masks"] == variant)
            ].to_dict("records")
            line += [columns.interval(what, 1)(cast(dict[str, Any], row)) for what in ("pasting", "drop")]
        lines.append(line)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def page(text: str) -> str:
    """The page with the part that the table holds."""
    return PART.sub(lambda found: found[1] + shown(pd.read_csv(TABLE)) + found[2], text)


def main(arguments: list[str]) -> int:
    """The command; its exit status."""
    if arguments == ["--check"]:
        text = PAGE.read_text(encoding="utf-8")
        if page(text) == text:
            return 0
        print("docs/results/controls.md differs from docs/sensitivity; write it anew: make docs-sensitivity")
        return 1
    measured(params.load(grid=GRID)).to_csv(TABLE, index=False)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
