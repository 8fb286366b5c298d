"""Node: a model with each of the cures that need no training."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bgbias import plugins, progress
from bgbias.engine import inputs, records
from bgbias.engine.forecast import Cost, photos_of
from bgbias.engine.node import Limits, Made, files_of, step
from bgbias.evaluation.conditions import RANDOM_BACKGROUND
from bgbias.files.atomic import write_frame
from bgbias.models.settings import How
from bgbias.nodes._models import open_model
from bgbias.study import plan
from bgbias.study.cell import CELL, Cell
from bgbias.study.params import Study

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from bgbias.evaluation import cured
    from bgbias.evaluation.conditions import View
    from bgbias.evaluation.cures._projected import Erasure
    from bgbias.evaluation.embeddings import Embeddings
    from bgbias.models.model import EmbeddingModel
    from bgbias.study.album import Album

SUBJECT = ("cell",)
OUTPUTS = {
    "cured": f"RUNS/scores/{CELL}/cured.parquet",
    "cures": f"RUNS/scores/{CELL}/cures.csv",
    "cure_record": f"RUNS/scores/{CELL}/cure.json",
}
LIMITS = Limits(memory_mb=8000)
TIMED = 64  # pictures, in memory


def reads(study: Study, cell: Cell) -> dict[str, Made]:
    """Photos, masks and both pools, the masks of test photos as the backbone sees them, the model, and its embeddings."""
    seen = step("remask", dataset=cell.dataset, backbone=cell.backbone)
    return (
        inputs.photos(cell.dataset)
        | inputs.masks(study, cell.dataset)
        | inputs.pools(study, cell.dataset, "val", "test")
        | inputs.model(study, cell)
        | files_of(seen, "seen_masks", "remasking")
        | files_of(step("embed", cell=cell), "embeddings")
    )


def settings(study: Study, cell: Cell) -> dict[str, Any]:
    return {
        "cures": study.cures.model_dump(),
        "precision": study.evaluation.precision,
        **inputs.untrained(study, cell, "cure"),
        **inputs.mask_policy(study),
    }


def uses(study: Study, cell: Cell) -> list[ModuleType]:
    named = [plugins.load("cures", name) for name in study.cures.names]
    metrics = [plugins.load("metrics", name) for name in plugins.names("metrics")]
    return [*named, *metrics]


def cost(study: Study, cell: Cell) -> Cost:
    """Every test photo in every view for each cure, and the crossed validation photos where one is fitted."""
    test, unknown = photos_of(study, cell.dataset, "test")
    val, unknown_too = photos_of(study, cell.dataset, "val")
    fitted = [plugins.load("cures", name).FITTED for name in study.cures.names]
    seen = test * (1 + study.cures.draws) * fitted.count(False)
    if any(fitted):
        seen += min(val, study.cures.objects) * study.cures.backgrounds + val * (1 + study.cures.draws)
    return Cost(test, (seen, seen), unknown=unknown or unknown_too)


def cure(study: Study, cell: Cell, device: str = "auto") -> None:
    """Score cures that need no training.

    Fits see validation photos alone.
    """
    import pandas as pd

    from bgbias.evaluation import cured, embeddings, scores
    from bgbias.evaluation.seen import masked, views_of
    from bgbias.files.store import ImageStore
    from bgbias.models.inference import for_inference

    names = plan.asked(study, "cures", "names", "names no cures")
    with records.node(study, step("cure", cell=cell)) as made:
        model, album, how = open_model(study, cell, made.on(device), fold=cell.fold)
        model = for_inference(model)
        photos = album.evaluation(album.table("test"), {"masks", "backgrounds"}, "test")
        seen = step("remask", dataset=cell.dataset, backbone=cell.backbone)
        masks = ImageStore(seen.file(study, "seen_masks"))
        before = embeddings.read(study.files.at("embeddings", **cell.wildcards))
        views = views_of(study.cures.draws)
        masker_ms = float(pd.read_csv(seen.file(study, "remasking"))["masker_ms"].iloc[0])
        is_fitted = any(plugins.load("cures", name).FITTED for name in names)
        fits = _prepare_fits(study, album, model, how) if is_fitted else ()

        def shown(view: View) -> Iterator[cured.Seen]:
            return masked(photos, view, masks, study.mask_policy)

        def milliseconds(chosen: ModuleType | None) -> float:
            timed = list(islice(shown(views[-1]), TIMED))
            return cured.milliseconds(lambda: cured.embed(model, timed, chosen, how), len(timed))

        alone, tables, facts = milliseconds(None), [], []
        for name in progress.track(names, len(names), f"cures of {cell.name}"):
            chosen = plugins.load("cures", name)
            if chosen.FITTED:
                erasure = chosen.fit(*fits)
                by_view = {view: erasure(before.views[view]) for view in views}
                # A product of d x d numbers is nothing beside the network.
                took, removed = alone, erasure.rank
            else:
                by_view = {view: cured.embed(model, shown(view), chosen, how) for view in views}
                took, removed = milliseconds(chosen) + masker_ms, 0
            after = replace(before, views=by_view, donors={})
            tables.append(scores.of_queries(after, {"cure": name}, before.views[views[0]]))
            fact = {"cure": name, "index": chosen.INDEX, "removed": removed, "ms": took, "alone_ms": alone}
            facts.append(fact)
        write_frame(made.outputs["cured"], pd.concat(tables, ignore_index=True))
        write_frame(made.outputs["cures"], pd.DataFrame(facts))
        made.metrics |= {f"ms_{fact['cure']}": fact["ms"] for fact in facts}


def _prepare_fits(
    study: Study, album: Album, model: EmbeddingModel, how: How
) -> tuple[np.ndarray, Callable[[Erasure], float]]:
    """What cures are fitted by: embeddings [n, m, d] of a keyed subset of the validation photos, each in front of the same
    backgrounds; and what gives MAP@R of all of them, query and gallery in front of backgrounds that are drawn for each.
    """
    import numpy as np

    from bgbias.evaluation import crossing, embedding
    from bgbias.evaluation.metrics import map_at_r
    from bgbias.evaluation.whole_gallery import among

    photos = album.evaluation(album.table("val"), {"masks", "backgrounds"}, "val")
    shown = crossing.objects(photos, study.cures.objects)
    crossed = crossing.embed(model, photos, shown, study.cures.backgrounds, how).vectors

    @cache
    def embedded() -> Embeddings:
        return embedding.embed(model, photos, [(RANDOM_BACKGROUND, 0)], how)

    def judge(erasure: Erasure) -> float:
        before = embedded()
        vectors = erasure(before.views[RANDOM_BACKGROUND, 0])
        values = map_at_r.per_query(among(vectors, vectors, before.labels, before.given))
        return float(np.nanmean(values[before.asked]))

    return crossed, judge
