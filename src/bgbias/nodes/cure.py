"""Node: a model with each of the cures that need no training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from bgbias import plugins, progress
from bgbias.engine import inputs, records
from bgbias.engine.forecast import Cost, photos_of
from bgbias.engine.node import Dependencies, Limits, files_of, step
from bgbias.evaluation import conditions
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.files.store import ImageStore
from bgbias.models.settings import How
from bgbias.nodes._models import open_model
from bgbias.study import CELL, Cell, Study, plan

if TYPE_CHECKING:
    from bgbias.evaluation import cure_eval
    from bgbias.evaluation.conditions import View
    from bgbias.evaluation.embeddings import Embeddings
    from bgbias.evaluation.photos import EvaluationPhotos
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
DRAWN = (RANDOM_BACKGROUND, 0)  # how validation photos are seen that a fit is judged by


def depends(study: Study, cell: Cell) -> Dependencies:
    photos = inputs.album(study, cell.dataset, {"masks", "backgrounds"}, "val", "test")
    masks = files_of(step("remask", dataset=cell.dataset, backbone=cell.backbone), "seen_masks", "remasking")
    embeddings = files_of(step("embed", cell=cell), "embeddings")
    metrics = [plugins.load("metrics", name) for name in plugins.names("metrics")]
    return Dependencies(
        files=photos | inputs.model(study, cell) | masks | embeddings,
        settings={
            "cures": study.cures.model_dump(),
            "precision": study.evaluation.precision,
            **inputs.network_settings(study, cell),
            **inputs.mask_policy(study),
        },
        code=[*(plugins.load("cures", name) for name in study.cures.names), *metrics],
    )


def cost(study: Study, cell: Cell) -> Cost:
    """Every test photo in every view for each cure, and the crossed validation photos where one is fitted."""
    test, unknown = photos_of(study, cell.dataset, "test")
    val, unknown_too = photos_of(study, cell.dataset, "val")
    cures = [plugins.load("cures", name) for name in study.cures.names]
    passes = test * (1 + study.cures.draws) * sum(hasattr(one, "AT") for one in cures)
    fitted = [getattr(one, "AT", "") for one in cures if one.FITTED]
    if fitted:
        passes += val * (1 + fitted.count("beside"))
    if "" in fitted:
        passes += min(val, study.cures.objects) * study.cures.backgrounds
    return Cost(test, (passes, passes), unknown=unknown or unknown_too)


def cure(study: Study, cell: Cell, device: str = "auto") -> None:
    """Score cures that need no training. Fits see validation photos alone."""
    import pandas as pd

    from bgbias.evaluation import cure_eval, embeddings, late_interaction, scores
    from bgbias.evaluation.late_interaction import similarity
    from bgbias.models.inference import for_inference

    names = plan.require_setting(study, "cures", "names", "names no cures")
    with records.node(study, step("cure", cell=cell)) as record:
        model, album, how = open_model(study, cell, record.on(device), fold=cell.fold)
        model = for_inference(model)
        photos = album.evaluation(album.table("test"), {"masks", "backgrounds"}, "test")
        if "patches" in [getattr(plugins.load("cures", name), "AT", "") for name in names]:
            late_interaction.refuse_many(len(photos.table), cell.dataset)
        remasked = step("remask", dataset=cell.dataset, backbone=cell.backbone)
        masks = ImageStore(remasked.file(study, "seen_masks"))
        before = embeddings.read(study.files.at("embeddings", **cell.wildcards))
        views = conditions.views((CLEAN, RANDOM_BACKGROUND), study.cures.draws)
        masker_ms = float(pd.read_csv(remasked.file(study, "remasking"))["masker_ms"].iloc[0])
        validation = CureFits(study, album, model, how)

        def show(view: View) -> Iterator[cure_eval.Seen]:
            return cure_eval.with_found_masks(photos, view, masks, study.mask_policy)

        def milliseconds(chosen: ModuleType | None, embed: Callable[..., object] = cure_eval.embed) -> float:
            timed = list(islice(show(views[-1]), TIMED))
            return cure_eval.milliseconds(lambda: embed(model, timed, chosen, how), len(timed))

        def patchwise(name: str, chosen: ModuleType) -> tuple[pd.DataFrame, dict[str, float]]:
            patches = {view: cure_eval.embed_patches(model, show(view), chosen, how) for view in views}
            gallery = patches[views[-1]]
            queries = gallery.first(TIMED)
            took = cure_eval.milliseconds(lambda: similarity(queries, gallery), len(queries.counts))
            took += milliseconds(chosen, cure_eval.embed_patches) + masker_ms
            scored = late_interaction.score_queries(before, patches, {"cure": name})
            return scored, {"ms": took, "bytes": gallery.vectors.nbytes / len(gallery.counts)}

        index = before.views[views[0]]
        alone, tables, facts = milliseconds(None), [], []
        for name in progress.track(names, len(names), f"cures of {cell.name}"):
            chosen = plugins.load("cures", name)
            at = getattr(chosen, "AT", "")
            fact = {"cure": name, "index": chosen.INDEX, "removed": 0, "alone_ms": alone}
            fact |= {"weight": float("nan"), "bytes": index[0].nbytes}
            if at == "patches":
                scored, own = patchwise(name, chosen)
                tables.append(scored)
                facts.append(fact | own)
                continue
            if at == "":
                fitted = chosen.fit(validation.crossed, validation.judge)
                by_view = {view: fitted(before.views[view]) for view in views}
                # A product of d x d numbers is nothing beside the network.
                fact |= {"ms": alone, "removed": fitted.rank}
            else:
                by_view = {view: cure_eval.embed(model, show(view), chosen, how) for view in views}
                fact |= {"ms": milliseconds(chosen) + masker_ms}
            if at == "beside":
                fitted = chosen.fit(validation.judge_beside(chosen))
                by_view = {view: fitted(before.views[view], seconds) for view, seconds in by_view.items()}
                fact |= {"ms": fact["ms"] + alone, "weight": fitted.weight}
            facts.append(fact)
            after = replace(before, views=by_view, donors={})
            tables.append(scores.score_queries(after, {"cure": name}, index))
        record.write("cured", pd.concat(tables, ignore_index=True))
        record.write("cures", pd.DataFrame(facts))
        record.metrics |= {f"ms_{fact['cure']}": fact["ms"] for fact in facts}


@dataclass(frozen=True)
class CureFits:
    """What cures are fitted by, made when it is asked for: validation photos on backgrounds of the validation pool."""

    study: Study
    album: Album
    model: EmbeddingModel
    how: How

    @cached_property
    def photos(self) -> EvaluationPhotos:
        return self.album.evaluation(self.album.table("val"), {"masks", "backgrounds"}, "val")

    @cached_property
    def crossed(self) -> np.ndarray:
        """Embeddings [n, m, d] of a keyed subset of the photos, each on the same backgrounds."""
        from bgbias.evaluation import crossing

        ids = crossing.objects(self.photos, self.study.cures.objects)
        return crossing.embed(self.model, self.photos, ids, self.study.cures.backgrounds, self.how).vectors

    @cached_property
    def before(self) -> Embeddings:
        """Of all photos on backgrounds that are drawn for each."""
        from bgbias.evaluation import embedding

        return embedding.embed(self.model, self.photos, [DRAWN], self.how)

    def judge(self, cure: Callable[[np.ndarray], np.ndarray]) -> float:
        """MAP@R of these photos with the cure, query and gallery alike."""
        return self._map_at_r(cure(self.before.views[DRAWN]))

    def judge_beside(self, chosen: ModuleType) -> Callable[[Callable[..., np.ndarray]], float]:
        """The same of a cure that sees second pictures, made with the masks that objects were pasted by."""
        from bgbias.evaluation import cure_eval

        masked = ((picture, mask) for _, picture, mask in self.photos.with_masks([DRAWN]))
        seconds = cure_eval.embed(self.model, masked, chosen, self.how)
        return lambda cure: self._map_at_r(cure(self.before.views[DRAWN], seconds))

    def _map_at_r(self, vectors: np.ndarray) -> float:
        from bgbias.evaluation.metrics import map_at_r
        from bgbias.evaluation.whole_gallery import rank_among

        values = map_at_r.per_query(rank_among(vectors, vectors, self.before.labels, self.before.given))
        return float(np.nanmean(values[self.before.is_query]))
