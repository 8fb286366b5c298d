"""Figure nodes: they gather photos, neighbours and maps, and leave the drawing to the figure modules."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from bgbias import seeds
from bgbias.engine import records
from bgbias.evaluation import embeddings
from bgbias.evaluation.conditions.random_background import Corruption
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.files.store import ImageStore
from bgbias.images import contact_sheet
from bgbias.masks import policy
from bgbias.models import backbones
from bgbias.report.figures import _look as figures
from bgbias.study import plan
from bgbias.study.album import Album
from bgbias.study.cell import Cell
from bgbias.study.params import Study, options

NEIGHBOURS = 6  # shown for each query
SHEET_CLASSES, SHEET_DRAWS = 8, 2
MAPS_SHOWN = 4


def figure(study: Study, name: str) -> None:
    """Draw a figure as PDF and PNG."""
    outputs = {form: study.files.at("figures", figure=name, format=form) for form in ("pdf", "png")}
    with records.node(study, "figure", outputs, study.files.at("figures_record", figure=name), name=name):
        figures.save(_DRAWN[name](study), outputs["pdf"].parent, name)


def _photos(study: Study):  # type: ignore[no-untyped-def]
    """One test photo of each of several classes: as it is, its mask, and before two other backgrounds."""
    shown, replaced = _evaluation(study)
    ids, keys, labels = shown.table.ids, shown.table.keys, shown.table.labels
    order = seeds.generator("contact sheet", study.grid).permutation(len(ids))
    chosen: dict[int, int] = {}
    for row in order:
        if ids[row] in shown.usable and len(chosen) < SHEET_CLASSES:
            chosen.setdefault(int(labels[row]), int(row))
    pictures: list[np.ndarray] = []
    for row in chosen.values():
        view, mask = shown.clean(ids[row]), shown.mask(ids[row])
        pictures += [view, mask, *(replaced(view, mask, keys[row], d) for d in range(SHEET_DRAWS))]
    return figures.picture(contact_sheet.contact_sheet(pictures, columns=2 * (2 + SHEET_DRAWS)))


def _masks(study: Study):  # type: ignore[no-untyped-def]
    """The worst and the most doubtful masks of the shown dataset."""
    from bgbias.report.figures.masks import MaskTile, figure_masks, shown

    dataset = plan.shown_dataset(study)
    where = {"dataset": dataset, "masker": study.datasets[dataset].masker}
    photos, truth = (ImageStore(study.files.at(n, dataset=dataset)) for n in ("photos", "truth"))
    masks = ImageStore(study.files.at("masks", **where))

    def tile(row: dict[str, object], excluded: bool) -> MaskTile:
        image_id = str(row["image_id"])
        true = truth.array(image_id, "L") if image_id in truth else None
        return MaskTile(photos.array(image_id), masks.array(image_id, "L"), true, row, excluded)

    chosen = shown(policy.read_mask_table(study.files.at("mask_table", **where)), study.mask_policy)
    tiles = {reason: [tile(*of_photo) for of_photo in row] for reason, row in chosen.items()}
    return figure_masks(tiles, study.mask_policy)


def _retrieval(study: Study):  # type: ignore[no-untyped-def]
    """A query before its own and before another background, and what both models retrieve for it."""
    from bgbias.evaluation.retrieval import neighbours
    from bgbias.report.figures.retrieval import Retrieval, figure_retrieval

    shown, replaced = _evaluation(study)
    found = {c.method: embeddings.read(study.files.at("embeddings", **c.wildcards)) for c in _pair(study)}
    labels = shown.table.labels
    hits, ranked = {}, {}
    for method, e in found.items():
        for condition, queries in (("own", e.clean), ("other", e.corrupted[0])):
            near = neighbours(queries, labels, e.clean, labels)
            ranked[method, condition], hits[method, condition] = (
                near.indices[:, :NEIGHBOURS],
                near.same_label[:, :NEIGHBOURS],
            )
    query = chosen_query({k: h.sum(1) for k, h in hits.items()}, found["plain"].usable)
    view = shown.clean(shown.table.ids[query])
    mask, key = shown.mask(shown.table.ids[query]), shown.table.keys[query]
    seen = {"own": (view, "own background"), "other": (replaced(view, mask, key, 0), "another")}
    return figure_retrieval(
        {
            method: [
                Retrieval(
                    seen[c][0],
                    [shown.clean(shown.table.ids[i]) for i in ranked[method, c][query]],
                    hits[method, c][query].tolist(),
                    seen[c][1],
                )
                for c in ("own", "other")
            ]
            for method in found
        }
    )


def chosen_query(hits: dict[tuple[str, str], np.ndarray], usable: np.ndarray) -> int:
    """The usable query that shows the contrast best: found by both models before its own background, lost most by plain and
    least by the other before another one. The figure illustrates; the tables measure."""
    (other_method,) = {method for method, _ in hits} - {"plain"}
    both_found = np.minimum(hits["plain", "own"], hits[other_method, "own"])
    contrast = hits[other_method, "other"] - hits["plain", "other"]
    return int(np.argmax(np.where(usable, both_found + 2 * contrast, -np.inf)))


def _attribution(study: Study):  # type: ignore[no-untyped-def]
    """Attribution maps of both models on the same photos."""
    from bgbias.report.figures.attribution import Attribution, figure_attribution

    shown, _ = _evaluation(study)
    maps, scores = {}, {}
    for cell in _pair(study):
        with np.load(study.files.at("maps", **cell.wildcards), allow_pickle=False) as file:
            maps[cell.method] = dict(zip(file["ids"].tolist(), file["ref"], strict=True))
        frame = pd.read_csv(study.files.at("attribution", **cell.wildcards))
        scores[cell.method] = frame[frame["variant"] == "ref"].set_index("image_id")["score"].to_dict()
    ids = [i for i in maps["plain"] if all(i in m for m in maps.values())][:MAPS_SHOWN]
    return figure_attribution(
        [
            Attribution(
                shown.clean(i),
                shown.mask(i),
                {method: m[i].astype(np.float32) for method, m in maps.items()},
                {method: float(s[i]) for method, s in scores.items()},
            )
            for i in ids
        ]
    )


def _segmentation(study: Study):  # type: ignore[no-untyped-def]
    """What both models make of the same episodes."""
    from bgbias.report.figures.segmentation import Segmentation, figure_segmentation
    from bgbias.study.album import of_dataset

    facts, album = _album(study)
    shown = album.evaluation(album.table("test"), set(), "test")
    found = {}
    for cell in _pair(study):
        with np.load(study.files.at("segments", **cell.wildcards), allow_pickle=False) as file:
            found[cell.method] = {name: file[name] for name in file.files}
    drawn = next(iter(found.values()))
    truth = of_dataset(
        study, plan.shown_dataset(study), album, drawn["ids"].tolist(), facts.resize, facts.input_size
    )
    return figure_segmentation(
        [
            Segmentation(
                shown.clean(str(name)),
                shown.clean(str(drawn["supports"][row])),
                truth.shown(str(name)),
                {method: f["maps"][row].astype(np.float32) for method, f in found.items()},
                {method: f["masks"][row] for method, f in found.items()},
                {method: truth.iou(str(name), f["masks"][row]) for method, f in found.items()},
            )
            for row, name in enumerate(drawn["ids"])
        ]
    )


def _drop(study: Study):  # type: ignore[no-untyped-def]
    """Clean to corrupted for every model of the grid."""
    from bgbias.report.figures.drop import figure_drop

    return figure_drop(_table1(study))


def _calibration(study: Study):  # type: ignore[no-untyped-def]
    """The drop over the toy datasets' known bias."""
    from bgbias.report.figures.calibration import figure_calibration

    described = {name: d for name, d in study.datasets.items() if d.kind == "toy"}
    return figure_calibration(
        _table1(study), {n: float(d.options["test_correlation"]) for n, d in described.items()}
    )


_DRAWN: dict[str, Callable] = {
    "photos": _photos,
    "masks": _masks,
    "retrieval": _retrieval,
    "attribution": _attribution,
    "segmentation": _segmentation,
    "drop": _drop,
    "calibration": _calibration,
}


def _table1(study: Study) -> pd.DataFrame:
    path = study.files.at("report_table", table="table1", format="csv")
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def _pair(study: Study) -> tuple[Cell, Cell]:
    shown = plan.pair(study)
    assert shown is not None  # plan.figures() offers these figures only with a pair
    return shown


def _evaluation(study: Study) -> tuple[EvaluationPhotos, Corruption]:
    """The shown dataset's test photos at the size of the grid's first backbone, and what replaces their backgrounds."""
    _, album = _album(study)
    return album.evaluation(album.table("test"), {"masks"}, "test"), album.corruption("test")


def _album(study: Study) -> tuple[backbones.Facts, Album]:
    """The shown dataset as the grid's first backbone sees it."""
    name = study.cells[0].backbones[0]
    facts = backbones.facts(name, options(study, "backbones", name, study.backbones[name]))
    return facts, Album(study, plan.shown_dataset(study), facts.resize, facts.input_size)
