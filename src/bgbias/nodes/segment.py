"""Node: one-shot segmentation of a model's test photos."""

import numpy as np

from bgbias.engine import inputs, records
from bgbias.engine.forecast import NODE_BYTES, Cost, photos_of
from bgbias.engine.node import Dependencies, Limits, step
from bgbias.files.atomic import replacing
from bgbias.nodes._models import open_model
from bgbias.segmentation import episodes
from bgbias.study import CELL, Cell, Study, plan

SHOWN = 4  # episodes kept for the figure

SUBJECT = ("cell",)
OUTPUTS = {
    "segmentation": f"RUNS/scores/{CELL}/segmentation.csv",
    "segments": f"RUNS/scores/{CELL}/segmentation.npz",
    "segment_record": f"RUNS/scores/{CELL}/segment.json",
}
LIMITS = Limits(memory_mb=8000)


def depends(study: Study, cell: Cell) -> Dependencies:
    photos = inputs.photos(cell.dataset) | inputs.truth(study, cell.dataset)
    return Dependencies(
        files=photos | inputs.model(study, cell),
        settings={
            "segmentation": study.segmentation.model_dump(),
            **inputs.network_settings(study, cell),
        },
        code=[study.dataset(cell.dataset).module],  # it says where its objects are
    )


def cost(study: Study, cell: Cell) -> Cost:
    """Every episode: a photo, and its supports twice."""
    test, unknown = photos_of(study, cell.dataset, "test")
    images = min(test, study.segmentation.episodes or 0)
    passes = images * (1 + 2 * episodes.SHOTS)
    return Cost(images, (passes, passes), disk=NODE_BYTES, unknown=unknown)


def segment(study: Study, cell: Cell, device: str = "auto") -> None:
    """Segment test photos by similarity attention. For a keyed subset; masks are judged by the dataset's truth."""
    from bgbias.segmentation import truth as object_truth
    from bgbias.segmentation.one_shot import segment_photos

    settings = study.segmentation
    count = plan.require_setting(study, "segmentation", "episodes", "asks for no segmentation")
    with records.node(study, step("segment", cell=cell)) as record:
        device = record.on(device)
        model, album, how = open_model(study, cell, device)
        test, val = album.table("test"), album.table("val")
        truth = album.objects((*test.ids, *val.ids))
        drawn = episodes.draw(test, truth.ids, count)
        area = object_truth.mean_area(truth, val.ids)
        photos = album.evaluation(test, set(), "test")
        frame, segments = segment_photos(
            model, how.pooled, photos, truth, drawn, area, settings, device, keep=SHOWN
        )
        record.write("segmentation", test.labelled(frame))
        with replacing(record.outputs["segments"]) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **segments)  # type: ignore[arg-type]  # the stubs see an option
        record.metrics |= {f"iou_{task}": float(part.mean()) for task, part in frame.groupby("task")["iou"]}
        record.metrics |= {"episodes": len(drawn), "object_area": area}
