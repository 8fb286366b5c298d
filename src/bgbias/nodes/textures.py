"""Node: what a dataset's photos are made of: a texture that was quilted of each photo of the training classes.

Photos that validate have one, too: in another fold they train.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

from bgbias import progress
from bgbias.engine import inputs, records
from bgbias.engine.forecast import Cost, photos_of
from bgbias.engine.node import Made, step
from bgbias.study.params import Study

SPLITS = ("train", "val")
LEVEL_BYTES = 0.7  # a channel's pixel, as PNG: about

SUBJECT = ("dataset", "side")
OUTPUTS = {
    "textures": "RUNS/models/textures/{dataset}/{side}/textures.zip",
    "textures_record": "RUNS/models/textures/{dataset}/{side}/textures.json",
}


def reads(study: Study, dataset: str, side: str) -> dict[str, Made]:
    """The photos."""
    return inputs.photos(dataset)


def settings(study: Study, dataset: str, side: str) -> dict[str, Any]:
    """Nothing else: the short side in pixels, at which photos are quilted, is whose textures these are."""
    return {}


def uses(study: Study, dataset: str, side: str) -> list[ModuleType]:
    """What makes a texture."""
    from bgbias.images import quilting

    return [quilting]


def cost(study: Study, dataset: str, side: str) -> Cost:
    """A picture as large as each photo."""
    count, unknown = photos_of(study, dataset, *SPLITS)
    return Cost(count, disk=count * LEVEL_BYTES * 3 * int(side) ** 2, unknown=unknown)


def textures(study: Study, dataset: str, side: str) -> None:
    """Quilt a texture of each photo of a dataset's training classes, at this short side."""
    from bgbias.compute.device import threads
    from bgbias.files.store import writing
    from bgbias.images import pixels
    from bgbias.images.quilting import texture
    from bgbias.photos import prepared
    from bgbias.photos.table import read_table

    with records.node(study, step("textures", dataset=dataset, side=side)) as made:
        table = read_table(study.files.at("table", dataset=dataset)).frame
        ids = table.loc[table["split"].isin(SPLITS), "image_id"].tolist()
        store, kept = study.files.at("photos", dataset=dataset), study.files.at("prepared", owner=dataset)
        photos = prepared.pictures(store, int(side), kept)

        def quilted(image_id: str) -> bytes:
            return pixels.encode_png(texture(photos.get(image_id)))

        with writing(made.outputs["textures"]) as pictures, ThreadPoolExecutor(threads()) as workers:
            every = zip(ids, workers.map(quilted, ids), strict=True)
            for image_id, png in progress.track(every, len(ids), f"textures of {dataset}"):
                pictures.add(image_id, png)
        made.metrics["photos"] = len(ids)
