"""Node: what a dataset's photos are made of: a texture that was quilted of each photo of the training classes.

Photos that validate have one, too: in another fold they train.
"""

from concurrent.futures import ThreadPoolExecutor

from bgbias import progress
from bgbias.compute import device
from bgbias.engine import inputs, records
from bgbias.engine.forecast import NODE_BYTES, Cost, photos_of, side_of, threads_by_photos
from bgbias.engine.node import Dependencies, Limits, step
from bgbias.files.store import writing
from bgbias.images import pixels
from bgbias.study import Study, plan

SPLITS = ("train", "val")
PIXEL_SECONDS = 6e-6  # of quilting: about
LEVEL_BYTES = 0.7  # a channel's pixel, as PNG: about
WIDER = 4 / 3  # a photo's long side by its short one

SUBJECT = ("dataset", "backbone")
OUTPUTS = {
    "textures": "RUNS/models/textures/{dataset}/{backbone}/textures.zip",
    "textures_record": "RUNS/models/textures/{dataset}/{backbone}/textures.json",
}
LIMITS = Limits(minutes=720)


def depends(study: Study, dataset: str, backbone: str) -> Dependencies:
    """Which network sees the photos, and so how large they are; its weights see nothing."""
    from bgbias.images import quilting

    code = [plan.backbone(study, backbone).module, quilting]
    return Dependencies(inputs.photos(dataset), inputs.without_weights(study, backbone), code)


def threads(study: Study, dataset: str, backbone: str) -> int:
    return threads_by_photos(study, dataset)


def cost(study: Study, dataset: str, backbone: str) -> Cost:
    """A picture as large as each photo."""
    count, unknown = photos_of(study, dataset, *SPLITS)
    pixels = count * WIDER * side_of(study, backbone) ** 2
    return Cost(
        count, disk=NODE_BYTES + 3 * LEVEL_BYTES * pixels, unknown=unknown, seconds=PIXEL_SECONDS * pixels
    )


def textures(study: Study, dataset: str, backbone: str) -> None:
    """Quilt a texture of each training photo. As large as a backbone sees it; of a dataset's training classes."""
    from bgbias.images.quilting import texture
    from bgbias.photos import picture_cache
    from bgbias.photos.table import read_table

    with records.node(study, step("textures", dataset=dataset, backbone=backbone)) as record:
        table = read_table(study.files.at("table", dataset=dataset)).frame
        ids = table.loc[table["split"].isin(SPLITS), "image_id"].tolist()
        store, prepared = study.files.at("photos", dataset=dataset), study.files.at("prepared", owner=dataset)
        photos = picture_cache.pictures(store, plan.backbone(study, backbone).facts.resize, prepared)

        def quilted(image_id: str) -> bytes:
            return pixels.encode_png(texture(photos.get(image_id)))

        with writing(record.outputs["textures"]) as pictures, ThreadPoolExecutor(device.threads()) as workers:
            every = zip(ids, workers.map(quilted, ids), strict=True)
            for image_id, png in progress.track(every, len(ids), f"textures of {dataset}"):
                pictures.add(image_id, png)
        record.metrics["photos"] = len(ids)
