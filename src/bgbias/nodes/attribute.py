"""Node: how much of a model's attribution lies on the object."""

import numpy as np

from bgbias.engine import inputs, records
from bgbias.engine.forecast import NODE_BYTES, Cost, photos_of
from bgbias.engine.node import Dependencies, Limits, step
from bgbias.files.atomic import replacing
from bgbias.nodes._models import open_model
from bgbias.study import CELL, Cell, Study, plan

PAIRED_MAPS = 8  # attribution maps kept for figures

SUBJECT = ("cell",)
OUTPUTS = {
    "attribution": f"RUNS/scores/{CELL}/attribution.csv",
    "maps": f"RUNS/scores/{CELL}/attribution.npz",
    "attribute_record": f"RUNS/scores/{CELL}/attribute.json",
}
LIMITS = Limits(memory_mb=8000, minutes=480)


def depends(study: Study, cell: Cell) -> Dependencies:
    true = inputs.truth(study, cell.dataset) if plan.truth(study, cell.dataset) == "masks" else {}
    photos = inputs.photos(cell.dataset) | inputs.masks(study, cell.dataset) | true
    # Scores that were made before there was a choice stay what they are.
    left_out = {"pretrained"} | (set() if study.attribution.similarity else {"similarity"})
    return Dependencies(
        files=photos | inputs.model(study, cell),
        settings={
            "attribution": study.attribution.model_dump(exclude=left_out),
            "distance": plan.distance(cell),
            **inputs.network_settings(study, cell),
            **inputs.mask_policy(study),
        },
    )


def cost(study: Study, cell: Cell) -> Cost:
    """Every photo once per noisy sample, forward and backward, and twice more for similarity attention."""
    test, unknown = photos_of(study, cell.dataset, "test")
    images = min(test, study.attribution.images or test)
    noisy = images * study.attribution.samples
    passes = noisy + (2 * images if study.attribution.similarity else 0)
    return Cost(images, (passes, passes), (noisy, noisy), NODE_BYTES, unknown)


def attribute(study: Study, cell: Cell, device: str = "auto") -> None:
    """Score how much of the attribution lies on the object. For a keyed subset of the test photos."""
    import pandas as pd

    from bgbias.attribution.smoothgrad import attribute_photos

    settings = study.attribution
    with records.node(study, step("attribute", cell=cell)) as record:
        device = record.on(device)
        model, album, how = open_model(study, cell, device)
        if how.pooled:
            model.embed_by_features()
        attributed = album.table("test").keyed("attribution", settings.images)
        photos = album.evaluation(attributed, {"masks"}, "test")
        distance = plan.distance(cell)
        truth = None
        if plan.truth(study, cell.dataset) == "masks":
            truth = album.objects(photos.table.ids).find
        frame, maps = attribute_photos(model, photos, distance, settings, device, PAIRED_MAPS, truth)
        if settings.similarity is not None:
            from bgbias.attribution.score import attribute_pairs

            pairs = attribute_pairs(model, photos, album.table("test"), settings, device)
            frame = pd.concat([frame, pairs], ignore_index=True)
        record.write("attribution", album.table("test").labelled(frame))
        with replacing(record.outputs["maps"]) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **maps)  # type: ignore[arg-type]  # the stubs see an option
        for variant, part in frame.groupby("variant"):
            record.metrics |= {
                f"attribution_{variant}": float(part["score"].mean()),
                f"attribution_{variant}_below_0": float((part["score"] < 0).mean()),
                f"attribution_{variant}_skipped": int(part["score"].isna().sum()),
            }
