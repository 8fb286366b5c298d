"""Node: what a model's attribution score is worth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from bgbias import progress, seeds
from bgbias.compute.lazy import torch
from bgbias.engine import inputs, records
from bgbias.engine.forecast import NODE_BYTES, Cost, photos_of
from bgbias.engine.node import Dependencies, Limits, step
from bgbias.models.settings import How
from bgbias.nodes._models import open_model
from bgbias.study import CELL, Cell, Study, plan

if TYPE_CHECKING:
    from bgbias.evaluation.photos import EvaluationPhotos

SUBJECT = ("cell",)
OUTPUTS = {
    "sanity": f"RUNS/scores/{CELL}/sanity.csv",
    "sanity_record": f"RUNS/scores/{CELL}/sanity.json",
}
LIMITS = Limits(memory_mb=8000, minutes=480)
NETWORKS = 4  # the model's own, and one of each level that forgot


def depends(study: Study, cell: Cell) -> Dependencies:
    photos = inputs.photos(cell.dataset) | inputs.masks(study, cell.dataset)
    return Dependencies(
        files=photos | inputs.model(study, cell),
        settings={
            "attribution": study.attribution.model_dump(exclude={"images", "similarity", "pretrained"}),
            "distance": plan.distance(cell),
            "sanity": study.sanity.model_dump(),
            **inputs.mask_policy(study),
        },
    )


def cost(study: Study, cell: Cell) -> Cost:
    """Every photo once per noisy sample of each network, forward and backward; and each time that places are taken out."""
    from bgbias.attribution.sanity import FRACTIONS

    test, unknown = photos_of(study, cell.dataset, "test")
    images = min(test, study.sanity.images or 0)
    noisy = NETWORKS * images * study.attribution.samples
    passes = noisy + images * NETWORKS * 2 * len(FRACTIONS)
    return Cost(images, (passes, passes), (noisy, noisy), NODE_BYTES, unknown)


def sanity(study: Study, cell: Cell, device: str = "auto") -> None:
    """Sanity-check attribution maps. Scores models with randomised weights and blind maps, and how faithful maps are."""
    import pandas as pd

    from bgbias.attribution.sanity import LEVELS, centre, noise, randomise
    from bgbias.attribution.score import score_photo
    from bgbias.attribution.smoothgrad import attribute_photos

    count = plan.require_setting(study, "sanity", "images", "doubts no scores")
    with records.node(study, step("sanity", cell=cell)) as record:
        device = record.on(device)
        model, album, _ = open_model(study, cell, device)
        table = album.table("test")
        # Of the photos that `attribute` scores the first ones.
        photos = album.evaluation(table.keyed("attribution", count), {"masks"}, "test")
        distance, settings = plan.distance(cell), study.attribution
        networks = {"model": model} | {level: randomise(model, level) for level in LEVELS}
        frames, maps = [], {}
        for kind, network in networks.items():
            frame, arrays = attribute_photos(network, photos, distance, settings, device, len(photos.table))
            frames.append(frame[frame["variant"] == "ref"].assign(kind=kind))
            maps[kind] = dict(zip(arrays["ids"].tolist(), arrays["ref"].astype(np.float64), strict=True))
        keys = dict(zip(photos.table.ids, photos.table.keys, strict=True))
        blind = {
            "centre": {name: centre(photos.size) for name in keys},
            "noise": {name: noise(photos.size, key) for name, key in keys.items()},
        }
        for kind, of_photos in blind.items():
            rows = [score_photo(photos, name, "ref", torch.from_numpy(m))[0] for name, m in of_photos.items()]
            frames.append(pd.DataFrame(rows).assign(kind=kind))
        judged = {kind: maps[kind] for kind in ("model", "all")} | blind
        faithful = _faithful(study, model, photos, judged, device)
        scores = pd.concat(frames, ignore_index=True).merge(faithful, on=["image_id", "kind"], how="left")
        columns = ["image_id", "kind", "score", "faithful"]
        record.write("sanity", table.labelled(scores[columns]))
        means = scores.groupby("kind")[["score", "faithful"]].mean()
        record.metrics |= {f"score_{kind}": float(value) for kind, value in means["score"].items()}
        record.metrics |= {f"faithful_{k}": float(v) for k, v in means["faithful"].dropna().items()}


def _faithful(
    study: Study, model: Any, photos: EvaluationPhotos, judged: dict[str, dict[str, np.ndarray]], device: str
) -> Any:
    """How faithful each kind of map is to the model, photo by photo: columns image_id, kind, faithful."""
    import pandas as pd

    from bgbias.attribution.sanity import FRACTIONS, area, removals
    from bgbias.models.inference import embed_views, for_inference

    names = [
        (kind, name) for kind, of_photos in judged.items() for name in of_photos if name in photos.usable
    ]
    frame = pd.DataFrame(names, columns=["kind", "image_id"])
    if not names:  # no mask of these few is trusted
        return frame.assign(faithful=np.nan)

    def views() -> Iterator[np.ndarray]:
        for kind, name in progress.track(names, len(names), "faithfulness"):
            photo = photos.clean(name)
            yield photo
            generator = seeds.generator("faithfulness", kind, name)
            yield from removals(photo, judged[kind][name], generator)

    how = How(device, study.attribution.precision, study.evaluation.batch_size)
    vectors = embed_views(for_inference(model), views(), how)
    by_map = vectors.reshape(len(names), 1 + 2 * len(FRACTIONS), -1).astype(np.float64)
    similarity = np.einsum("nvd,nd->nv", by_map[:, 1:], by_map[:, 0])
    return frame.assign(faithful=area(similarity))
