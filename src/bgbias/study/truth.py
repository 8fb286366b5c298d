"""Where the objects of a study's photos are, as its datasets know it: true masks, or boxes."""

from collections.abc import Collection

from bgbias.files.store import ImageStore
from bgbias.images import pixels
from bgbias.images.boxes import in_crop
from bgbias.segmentation.truth import TrueBoxes, TrueMasks, Truth
from bgbias.study import plan
from bgbias.study.album import Album
from bgbias.study.params import Study
from bgbias.study.sources import parts_of


def of_dataset(
    study: Study, dataset: str, album: Album, photos: Collection[str], side: int, size: int
) -> Truth:
    """What a dataset knows of the objects of these ``photos``, at the short side and crop of a model."""
    if plan.truth(study, dataset) == "masks":
        return TrueMasks(album.truth(), photos, size)
    named = study.dataset(dataset)
    parts = {p: study.files.at("part", dataset=dataset, part=p) for p in parts_of(study, dataset)}
    boxes = named.module.boxes(named.params(), parts)
    store = ImageStore(study.files.at("photos", dataset=dataset))
    found = {
        name: in_crop(boxes[name], pixels.size(store.read(name), name), side, size)
        for name in photos
        if name in boxes
    }
    return TrueBoxes({name: box for name, box in found.items() if box.area > 0}, size)
