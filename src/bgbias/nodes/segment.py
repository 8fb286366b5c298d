"""Segmentation node: one-shot segmentation of a cell's test photos."""

from __future__ import annotations

import numpy as np

from bgbias.engine import records
from bgbias.errors import UserError
from bgbias.files.atomic import replacing
from bgbias.nodes._models import model_of
from bgbias.segmentation import episodes
from bgbias.study import plan
from bgbias.study.album import Album
from bgbias.study.cell import Cell
from bgbias.study.params import Study

SHOWN = 4  # episodes kept for the figure


def segment(study: Study, cell: Cell, device: str = "auto") -> None:
    """Segment a keyed subset of a cell's test photos by similarity attention, and judge the masks by the dataset's truth."""
    files, settings = study.files, study.segmentation
    if settings.episodes is None:
        raise UserError(
            f"Grid '{study.grid}' asks for no segmentation; set grids.{study.grid}.segmentation.episodes in params.yaml."
        )
    outputs = {name: files.at(name, **cell.wildcards) for name in ("segmentation", "segments")}
    with records.node(
        study, "segment", outputs, files.at("segment_record", **cell.wildcards), cell=cell
    ) as made:
        from bgbias.compute.device import describe, pick
        from bgbias.segmentation import truth as object_truth
        from bgbias.segmentation.one_shot import segment_photos
        from bgbias.study.album import of_dataset

        device = pick(device)
        made.device = describe(device)
        model = model_of(study, cell).to(device)
        side, size = model.resize, model.input_size
        album = Album(study, cell.dataset, side, size)
        test, val = album.table("test"), album.table("val")
        truth = of_dataset(study, cell.dataset, album, (*test.ids, *val.ids), side, size)
        drawn = episodes.draw(test, truth.ids, settings.episodes)
        area = object_truth.mean_area(truth, val.ids)
        frame, segments = segment_photos(
            model,
            not plan.trains(study, cell),
            album.evaluation(test, set(), "test"),
            truth,
            drawn,
            area,
            settings,
            device,
            keep=SHOWN,
        )
        with replacing(outputs["segmentation"]) as temporary:
            frame.to_csv(temporary, index=False)
        with replacing(outputs["segments"]) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **vars(segments))
        made.metrics |= {f"iou_{task}": float(part.mean()) for task, part in frame.groupby("task")["iou"]}
        made.metrics |= {"episodes": len(drawn), "object_area": area}
