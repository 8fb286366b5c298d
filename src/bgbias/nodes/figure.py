"""Node: a figure of the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bgbias import seeds
from bgbias.engine import records
from bgbias.engine.node import Made, step
from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND, random_background
from bgbias.nodes import _inputs
from bgbias.nodes import masks as masks_node
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study, options

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from bgbias.evaluation.photos import EvaluationPhotos
    from bgbias.models import backbones
    from bgbias.study.album import Album


NEIGHBOURS = 6  # shown for each query
SHEET_CLASSES, SHEET_DRAWS = 8, 2
MAPS_SHOWN = 4

SUBJECT = ("figure",)
VERSION = 2
OUTPUTS = {
    "figure_pdf": "REPORT/figures/{figure}.pdf",
    "figure_png": "REPORT/figures/{figure}.png",
    "figure_record": "REPORT/figures/{figure}.json",
}


def goals(study: Study) -> list[dict[str, str]]:
    """The figures of the grid."""
    return [{"figure": figure} for figure in plan.figures(study)]


def reads(study: Study, figure: str) -> dict[str, Made]:
    """What the figure shows; one that the grid does not have is an error."""
    if figure not in plan.figures(study):
        raise UserError(
            f"Grid '{study.grid}' has no figure '{figure}'; it has: {', '.join(plan.figures(study))}."
        )
    if figure in ("drop", "calibration"):
        return {"table1": Made(step("table", table="table1"), "table_csv")}
    dataset = plan.shown_dataset(study)
    if figure == "masks":
        masker = study.datasets[dataset].masker
        return masks_node.reads(study, dataset, masker) | _inputs.masks(study, dataset)
    read = _inputs.photos(dataset)
    if figure == "segmentation":
        read |= _inputs.truth(study, dataset)
    else:
        read |= _inputs.masks(study, dataset) | _inputs.pools(study, dataset, "test")
    shown = {
        "retrieval": ("embed", ("embeddings",)),
        "attribution": ("attribute", ("maps", "attribution")),
        "segmentation": ("segment", ("segments",)),
    }
    name, outputs = shown.get(figure, ("", ()))
    for cell in plan.pair(study) or ():
        read |= {f"{output} {cell.name}": Made(step(name, cell=cell), output) for output in outputs}
    return read


def settings(study: Study, figure: str) -> dict[str, Any]:
    """How masks are used, where the figure shows them."""
    return {} if figure in ("drop", "calibration", "segmentation") else _inputs.mask_policy(study)


def figure(study: Study, figure: str) -> None:
    """Draw a figure as PDF and PNG."""
    from bgbias.report.figures import _look as figures

    with records.node(study, step("figure", figure=figure)) as made:
        figures.save(_DRAWN[figure](study), made.outputs["figure_pdf"].parent, figure)


def _photos(study: Study):  # type: ignore[no-untyped-def]
    """One test photo of each of several classes: as it is, its mask, and before two other backgrounds."""
    from bgbias.images import contact_sheet
    from bgbias.report.figures import _look as figures

    shown = _evaluation(study)
    ids, labels = shown.table.ids, shown.table.labels
    order = seeds.generator("contact sheet", study.grid).permutation(len(ids))
    chosen: dict[int, int] = {}
    for row in order:
        if ids[row] in shown.usable and len(chosen) < SHEET_CLASSES:
            chosen.setdefault(int(labels[row]), int(row))
    pictures: list[np.ndarray] = []
    for row in chosen.values():
        photo = shown.photo(row)
        replaced = [random_background.view(photo, draw) for draw in range(SHEET_DRAWS)]
        pictures += [photo.view, photo.mask, *replaced]
    return figures.picture(contact_sheet.contact_sheet(pictures, columns=2 * (2 + SHEET_DRAWS)))


def _masks(study: Study):  # type: ignore[no-untyped-def]
    """The worst and the most doubtful masks of the shown dataset."""
    from bgbias.files.store import ImageStore
    from bgbias.masks import policy
    from bgbias.report.figures.masks import MaskTile, figure_masks, shown

    dataset = plan.shown_dataset(study)
    where = {"dataset": dataset, "masker": study.datasets[dataset].masker}
    photos, truth = (ImageStore(study.files.at(n, dataset=dataset)) for n in ("photos", "truth"))
    masks = ImageStore(study.files.at("masks", **where))

    def tile(row: dict[str, object], excluded: bool) -> MaskTile:
        image_id = str(row["image_id"])
        true = truth.array(image_id, "L") if image_id in truth else None
        return MaskTile(photos.array(image_id), masks.array(image_id, "L"), true, row, excluded)

    chosen = shown(policy.read(study.files.at("mask_table", **where)), study.mask_policy)
    tiles = {reason: [tile(*of_photo) for of_photo in row] for reason, row in chosen.items()}
    return figure_masks(tiles, study.mask_policy)


def _retrieval(study: Study):  # type: ignore[no-untyped-def]
    """A query before its own and before another background, and what both models retrieve for it."""
    from bgbias.evaluation import embeddings
    from bgbias.evaluation.retrieval import neighbours
    from bgbias.report.figures.retrieval import Retrieval, figure_retrieval

    shown = _evaluation(study)
    found = {c.method: embeddings.read(study.files.at("embeddings", **c.wildcards)) for c in _pair(study)}
    labels = shown.table.labels
    hits, ranked = {}, {}
    for method, e in found.items():
        for condition, view in (("own", (CLEAN, 0)), ("other", (RANDOM_BACKGROUND, 0))):
            near = neighbours(e.views[view], labels, e.views[CLEAN, 0], labels)
            ranked[method, condition], hits[method, condition] = (
                near.indices[:, :NEIGHBOURS],
                near.same_label[:, :NEIGHBOURS],
            )
    query = chosen_query({k: h.sum(1) for k, h in hits.items()}, found["plain"].usable)
    photo = shown.photo(query)
    seen = {
        "own": (photo.view, "own background"),
        "other": (random_background.view(photo, 0), "another"),
    }
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
    import numpy as np

    (other_method,) = {method for method, _ in hits} - {"plain"}
    both_found = np.minimum(hits["plain", "own"], hits[other_method, "own"])
    contrast = hits[other_method, "other"] - hits["plain", "other"]
    return int(np.argmax(np.where(usable, both_found + 2 * contrast, -np.inf)))


def _attribution(study: Study):  # type: ignore[no-untyped-def]
    """Attribution maps of both models on the same photos."""
    import numpy as np
    import pandas as pd

    from bgbias.report.figures.attribution import Attribution, figure_attribution

    shown = _evaluation(study)
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
    import numpy as np

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
    import pandas as pd

    path = study.files.at("table_csv", table="table1")
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def _pair(study: Study) -> tuple[Cell, Cell]:
    shown = plan.pair(study)
    assert shown is not None  # plan.figures() offers these figures only with a pair
    return shown


def _evaluation(study: Study) -> EvaluationPhotos:
    """The shown dataset's test photos at the size of the grid's first backbone, with what replaces their backgrounds."""
    _, album = _album(study)
    return album.evaluation(album.table("test"), random_background.NEEDS, "test")


def _album(study: Study) -> tuple[backbones.Facts, Album]:
    """The shown dataset as the grid's first backbone sees it."""
    from bgbias.models import backbones
    from bgbias.study.album import Album

    name = study.cells[0].backbones[0]
    facts = backbones.facts(name, options(study, "backbones", name, study.backbones[name]))
    return facts, Album(study, plan.shown_dataset(study), facts.resize, facts.input_size)
