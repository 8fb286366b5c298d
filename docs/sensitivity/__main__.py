"""What masks do to the drop and its parts: `make docs-sensitivity`, after `make run GRID=controls`.

``python docs/sensitivity [toys] [birds]`` makes the named parts, both of them if none is named. It sees the test photos of the
grid's toys, whose true masks are known, through each of its trained models with the masks of ``VARIANTS`` in turn: true ones,
grown, eroded, with other edges, another photo's, the masker's, and
GrabCut's. What they do to the drop stands in ``controls.csv`` beside this file, a row for each dataset, method and variant.
How high each model stands with each of three maskers, on these toys and on the birds of ``make run GRID=controls_cub50``,
stands in ``maskers.csv``.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
import pandas as pd
from scipy import stats

from bgbias import progress
from bgbias.evaluation import embedding, scores
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, RANDOM_BACKGROUND
from bgbias.evaluation.metrics import OTHERS
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.images.inpainting import remove_object
from bgbias.masks.maskers import grabcut
from bgbias.masks.quality import EMPTY_BELOW, FULL_ABOVE, area
from bgbias.models.inference import for_inference
from bgbias.nodes._models import model_of
from bgbias.photos.picture_cache import Pictures
from bgbias.report import columns, names
from bgbias.report.pages import markdown
from bgbias.results import rows, uncertainty
from bgbias.results.publication import note_tables
from bgbias.results.rows import MODEL
from bgbias.study import params, plan
from bgbias.study.album import Album
from bgbias.study.cell import Cell
from bgbias.study.params import Study

ROOT = Path(__file__).resolve().parents[2]
TABLE, RANKS = (Path("docs/sensitivity") / f"{name}.csv" for name in ("controls", "maskers"))
GRID, BIRDS, METHODS = "controls", "controls_cub50", ("plain", "bgaugment")
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


TRUE, FOUND, CUT, ANOTHERS = "true", "the masker's", "GrabCut's", "another photo's, of the same area"
VARIANTS: dict[str, Change | None] = {
    TRUE: lambda mask: mask,
    **{
        f"true, {n} px {'larger' if n > 0 else 'smaller'}".replace("-", ""): grown(n)
        for n in (-5, -3, -1, 1, 3, 5)
    },
    "true, hard edge": hard,
    "true, blended edge": blended,
    ANOTHERS: None,
    FOUND: None,
    CUT: None,
}
MASKERS = (TRUE, FOUND, CUT)


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Pictures that are made when they are asked for, and kept."""

    get: Callable[[str], np.ndarray]


def changed(photos: EvaluationPhotos, truth: Pictures, variant: str) -> EvaluationPhotos:
    """The photos with the masks of a variant; a mask with nothing or everything in it is not trusted."""
    if variant == FOUND:
        return photos
    known = photos.table.ids if variant == CUT else [i for i in photos.table.ids if i in truth.ids]
    mask = cache(_cut_out(photos) if variant == CUT else _true_ones(known, truth, variant))
    usable = frozenset(i for i in known if EMPTY_BELOW <= area(mask(i)) <= FULL_ABOVE)
    filled = Drawn(cache(lambda image_id: remove_object(photos.photos.get(image_id), mask(image_id))))
    return dataclasses.replace(
        photos, masks=cast(Pictures, Drawn(mask)), usable=usable, inpainted=cast(Pictures, filled)
    )


def _true_ones(ids: list[str], truth: Pictures, variant: str) -> Callable[[str], np.ndarray]:
    """The true mask of a photo, changed, or another photo's."""
    change, another = VARIANTS[variant], _of_the_same_area(ids, truth)
    return lambda image_id: change(truth.get(image_id)) if change else truth.get(another[image_id])


def _cut_out(photos: EvaluationPhotos) -> Callable[[str], np.ndarray]:
    """GrabCut's mask of a photo; all models of a dataset see the same."""
    name = photos.photos.name
    if name not in _cut:
        make = grabcut.build(grabcut.Params(), "cpu")
        some = [photos.photos.get(image_id) for image_id in photos.table.ids]
        masks = (make([photo])[0].alpha for photo in progress.track(some, len(some), "GrabCut"))
        _cut[name] = dict(zip(photos.table.ids, masks, strict=True))
    return _cut[name].__getitem__


_cut: dict[str, dict[str, np.ndarray]] = {}


def _of_the_same_area(ids: list[str], truth: Pictures) -> dict[str, str]:
    """Of each photo the one whose mask is next in size."""
    in_order = sorted(ids, key=lambda i: (float(truth.get(i).mean()), i))
    return dict(zip(in_order, [*in_order[1:], in_order[-2]], strict=True))


def seen(study: Study, cell: Cell, variants: Iterable[str]) -> Iterator[pd.DataFrame]:
    """The queries of a model with each variant's masks."""
    model = for_inference(model_of(study, cell))
    album = Album(study, cell.dataset, model.resize, model.input_size)
    photos = album.evaluation(album.table("test"), {"masks", "backgrounds", "inpainted"}, "test")
    for variant in variants:
        shown = changed(photos, album.truth(), variant)
        queries = scores.score_queries(embedding.embed(model, shown, VIEWS), {})
        kept = queries.loc[queries["setting"] != QUERY_ONLY, KEPT]
        yield kept.assign(**cell.wildcards, masks=variant)


def measured(study: Study, cells: Iterable[Cell], variants: Iterable[str]) -> pd.DataFrame:
    """The queries of these models with each variant's masks."""
    known = list(cells)
    progressed = progress.track(known, len(known), "sensitivity")
    return pd.concat([part for cell in progressed for part in seen(study, cell, variants)])


def drops(found: pd.DataFrame) -> pd.DataFrame:
    """One row for each dataset, method and variant: estimates of the drop, and of what of it pasting costs."""
    lines: list[dict[str, Any]] = []
    for (*model, variant), own in found.groupby([*MODEL, "masks"], sort=False):
        parts = {c: own.loc[own["condition"] == c, [*KEPT[1:], "seed"]] for c, _ in VIEWS}
        values = rows.Values.from_parts(cast(rows.Model, tuple(model)), parts, "map_at_r", OTHERS)
        row = dict(zip(MODEL, model, strict=True)) | {"masks": variant, "queries": len(values.queries)}
        row |= rows.interval("drop", values.estimate([CLEAN, RANDOM_BACKGROUND], uncertainty.difference), 100)
        row |= rows.interval(
            "pasting", values.estimate([CLEAN, "own_inpainted"], uncertainty.difference), 100
        )
        lines.append(row)
    return pd.DataFrame(lines)


def levels(found: pd.DataFrame) -> pd.DataFrame:
    """One row for each model, seed and masker: MAP@R x 100 in front of other backgrounds."""
    corrupted = found[(found["condition"] == RANDOM_BACKGROUND) & found["masks"].isin(MASKERS)]
    means = 100 * corrupted.groupby([*MODEL, "seed", "masks"], sort=False)["map_at_r"].mean()
    return means.rename("corrupted").reset_index()


def ranked(table: pd.DataFrame) -> str:
    """As Markdown: for each dataset and two maskers, how alike they rank the models, and what they say of the two methods."""
    lines = []
    for dataset, own in table.groupby("dataset", sort=False):
        by_masker = own.set_index([*MODEL[1:], "seed", "masks"])["corrupted"].unstack("masks")
        for a, b in itertools.combinations([m for m in MASKERS if m in by_masker], 2):
            tau = stats.kendalltau(by_masker[a], by_masker[b]).statistic
            told = " and ".join(
                f"{above} of {pairs}" for above, pairs in (_above(by_masker[m]) for m in (a, b))
            )
            lines.append([str(dataset), f"{a} and {b}", told, str(len(by_masker)), f"{tau:.2f}"])
    heads = ["dataset", "masks", "BGAugment above plain, of the same seed", "models", "Kendall's tau"]
    return markdown(pd.DataFrame(lines, columns=heads), labels=3)


def _above(corrupted: pd.Series) -> tuple[int, int]:
    """Of how many pairs of models of one loss and seed the one with BGAugment stands higher, and of how many."""
    pairs = corrupted.unstack("method")[list(METHODS)].dropna()
    return int((pairs["bgaugment"] > pairs["plain"]).sum()), len(pairs)


def shown(table: pd.DataFrame) -> str:
    """As Markdown: a row for each variant, and of each dataset and method the drop and what of it pasting costs."""
    groups = [(d, m) for d in DATASETS for m in METHODS]
    heads = [f"{d}, {names.method(m)}: {what}" for d, m in groups for what in ("pasting", "drop")]
    lines = []
    for variant in VARIANTS:
        line = [variant]
        for dataset, method in groups:
            (row,) = table[
                (table["dataset"] == dataset) & (table["method"] == method) & (table["masks"] == variant)
            ].to_dict("records")
            line += [columns.interval(what, 1)(cast(dict[str, Any], row)) for what in ("pasting", "drop")]
        lines.append(line)
    return markdown(pd.DataFrame(lines, columns=["masks", *heads]))


def tables() -> dict[str, str]:
    """Each table as its page shows it."""
    return {"controls": shown(pd.read_csv(ROOT / TABLE)), "maskers": ranked(pd.read_csv(ROOT / RANKS))}


def of_toys() -> tuple[Path, ...]:
    """All variants of the toys' masks, and how high their models stand with each masker."""
    toys = params.load(grid=GRID)
    cells = [c for c in plan.trained_models(toys) if c.dataset in DATASETS and c.method in METHODS]
    found = measured(toys, cells, VARIANTS)
    drops(found).to_csv(ROOT / TABLE, index=False)
    keep_levels(found)
    return TABLE, RANKS


def of_birds() -> tuple[Path, ...]:
    """How high the birds' models stand with each of two maskers."""
    birds = params.load(grid=BIRDS)
    keep_levels(measured(birds, plan.trained_models(birds), (FOUND, CUT)))
    return (RANKS,)


def keep_levels(found: pd.DataFrame) -> None:
    """Put the levels of these datasets into the table, in place of what it had of them."""
    made = [levels(found)]
    if (ROOT / RANKS).exists():
        before = pd.read_csv(ROOT / RANKS)
        made.insert(0, before[~before["dataset"].isin(found["dataset"])])
    pd.concat(made).to_csv(ROOT / RANKS, index=False)


PARTS = {"toys": of_toys, "birds": of_birds}


def made(names: list[str]) -> Iterator[Path]:
    """Make the named parts, all of them if none is named."""
    if unknown := set(names) - set(PARTS):
        sys.exit(f"There is nothing called {min(unknown)}; there are: {', '.join(PARTS)}.")
    for name in names or PARTS:
        yield from PARTS[name]()


if __name__ == "__main__":
    note_tables("sensitivity", "make docs-sensitivity", made(sys.argv[1:]))
