"""Node: masks of a dataset's test photos as models see them, on other backgrounds too.

Whoever would cure a model by masks has to find the object in the picture that comes, whatever stands behind it: the mask that the
object was cut out by would be no cure but the answer. A masker whose masks do not follow from the picture (true ones, or files)
can say no more than the mask that the picture was made with.
"""

import time
from itertools import islice

from bgbias import progress
from bgbias.engine import inputs, records
from bgbias.engine.forecast import Cost, photos_of
from bgbias.engine.node import Dependencies, Limits, step
from bgbias.evaluation import conditions
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.files.store import writing
from bgbias.images import pixels
from bgbias.nodes.masks import find_predictor
from bgbias.study import Study, plan

PICTURES_AT_ONCE = 64
PICTURE_BYTES = 4_000  # PNG of a soft mask at the size that a network sees

SUBJECT = ("dataset", "backbone")
OUTPUTS = {
    "seen_masks": "RUNS/scores/{dataset}/{backbone}/seen_masks.zip",
    "remasking": "RUNS/scores/{dataset}/{backbone}/remasking.csv",
    "remask_record": "RUNS/scores/{dataset}/{backbone}/remask.json",
}
LIMITS = Limits(memory_mb=8000, minutes=720)


def depends(study: Study, dataset: str, backbone: str) -> Dependencies:
    from bgbias.evaluation.conditions import clean, random_background

    masker, facts = study.masker_of(dataset), plan.backbone(study, backbone).facts
    photos = inputs.album(study, dataset, {"masks", "backgrounds"}, "test")
    return Dependencies(
        files=photos | inputs.weights(masker),
        settings={
            "draws": study.cures.draws,
            "size": [facts.resize, facts.input_size],
            "masker": study.maskers[masker.name].model_dump(),
            **inputs.mask_policy(study),
        },
        code=[masker.module, clean, random_background],
    )


def cost(study: Study, dataset: str, backbone: str) -> Cost:
    """Every test photo in every view once through the masker's network."""
    test, unknown = photos_of(study, dataset, "test")
    passes = test * (1 + study.cures.draws)
    return Cost(test, (passes, passes), disk=passes * PICTURE_BYTES, unknown=unknown)


def remask(study: Study, dataset: str, backbone: str, device: str = "auto") -> None:
    """Mask test photos as a backbone sees them. Original ones, and ones on other backgrounds."""
    import pandas as pd

    from bgbias.study.album import Album

    masker = study.datasets[dataset].masker
    with records.node(study, step("remask", dataset=dataset, backbone=backbone)) as record:
        album = Album.seen_by(study, dataset, backbone)
        photos = album.evaluation(album.table("test"), {"masks", "backgrounds"}, "test")
        views = conditions.views((CLEAN, RANDOM_BACKGROUND), study.cures.draws)
        predicts = study.masker(masker).module.PREDICTS
        make = find_predictor(study, masker, record.on(device)).build() if predicts else None
        count, seconds = len(photos.table) * len(views), 0.0
        stream = progress.track(photos.with_masks(views), count, f"masks of {dataset} as {backbone} sees it")
        with writing(record.outputs["seen_masks"]) as store:
            while batch := list(islice(stream, PICTURES_AT_ONCE)):
                start = time.perf_counter()
                names, arrays, masks = map(list, zip(*batch, strict=True))
                if make:
                    masks = [mask.alpha for mask in make(arrays)]
                    seconds += time.perf_counter() - start
                for name, mask in zip(names, masks, strict=True):
                    store.add(name, pixels.encode_png(mask))
        facts_of = {"pictures": count, "masker_ms": 1000 * seconds / count, "predicts": predicts}
        record.write("remasking", pd.DataFrame([facts_of]))
        record.metrics |= {"pictures": count, "masker_ms": facts_of["masker_ms"]}
