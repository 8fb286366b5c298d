"""Node: how much of a model's attribution lies on the object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bgbias import plugins, seeds
from bgbias.engine import records
from bgbias.files.atomic import replacing
from bgbias.nodes._models import model_of
from bgbias.photos.table import ImageTable
from bgbias.study.album import Album
from bgbias.study.cell import Cell
from bgbias.study.params import Study

if TYPE_CHECKING:
    pass


PAIRED_MAPS = 8  # attribution maps kept for figures


def attribute(study: Study, cell: Cell, device: str = "auto") -> None:
    """Score how much of a cell's attribution lies on the object, for a keyed subset of its test photos."""
    from bgbias.compute.device import describe, pick

    files, settings = study.files, study.attribution
    outputs = {name: files.at(name, **cell.wildcards) for name in ("attribution", "maps")}
    with records.node(
        study, "attribute", outputs, files.at("attribute_record", **cell.wildcards), cell=cell
    ) as made:
        device = pick(device)
        made.device = describe(device)
        model = model_of(study, cell).to(device)
        album = Album(study, cell.dataset, model.resize, model.input_size)
        photos = album.evaluation(attribution_subset(album.table("test"), settings.images), {"masks"}, "test")
        from bgbias.attribution.smoothgrad import attribute_photos

        distance = plugins.load("losses", cell.loss).DISTANCE
        frame, maps = attribute_photos(model, photos, distance, settings, device, keep=PAIRED_MAPS)
        if settings.similarity is not None:
            from bgbias.attribution.similarity_score import attribute_pairs

            pairs = attribute_pairs(model, photos, album.table("test"), settings, device)
            frame = pd.concat([frame, pairs], ignore_index=True)
        with replacing(outputs["attribution"]) as temporary:
            frame.to_csv(temporary, index=False)
        with replacing(outputs["maps"]) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **maps)  # type: ignore[arg-type]  # the stubs see an option
        for variant, part in frame.groupby("variant"):
            made.metrics |= {
                f"attribution_{variant}": float(part["score"].mean()),
                f"attribution_{variant}_below_0": float((part["score"] < 0).mean()),
                f"attribution_{variant}_skipped": int(part["score"].isna().sum()),
            }


def attribution_subset(table: ImageTable, count: int | None) -> ImageTable:
    """The first ``count`` photos in the order of their keys' numbers (all if None): the same ones for every model."""
    numbers = [seeds.number(seeds.key("attribution", *key)) for key in table.keys]
    chosen = np.argsort(np.array(numbers, dtype=np.uint64), kind="stable")[:count]
    return ImageTable(table.frame.iloc[chosen].reset_index(drop=True))
