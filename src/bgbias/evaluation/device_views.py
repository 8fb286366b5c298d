"""Views of many photos at once in a GPU's memory, by the same conditions: the bytes that ``EvaluationPhotos.views`` makes.

A network on a GPU embeds views faster than processors make them. So what a condition asks of a photo, ``PhotoBatch`` answers for
many of them; a condition that is not ``BATCHED`` makes its views on the processor, in processes beside this one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from bgbias import plugins
from bgbias.compute.device import threads
from bgbias.compute.transfer import to_device
from bgbias.evaluation.conditions import View
from bgbias.evaluation.photos import EvaluationPhotos, Photo
from bgbias.images.composite import DeviceCutOuts
from bgbias.models.inference import embed_batches, embed_views
from bgbias.models.model import EmbeddingModel
from bgbias.models.settings import USUAL, How
from bgbias.photos.crops import SHARE, DeviceCrops, PillowCrops, cropper
from bgbias.photos.picture_cache import Pictures, check_mask


def embed_photos(
    model: EmbeddingModel, photos: EvaluationPhotos, views: Sequence[View], how: How = USUAL
) -> np.ndarray:
    """Embeddings float32 [N, V, D] of these views of every photo of the split, which a GPU makes itself."""
    if how.device.startswith("cuda"):
        # Of as many photos as a batch has views, so that all batches but the last are full.
        with closing(on_device(photos, how.device).views(views, how.batch_size)) as made:
            flat = embed_batches(model, (part for batch in made for part in batch.split(how.batch_size)), how)
    else:
        with closing(photos.views(views)) as stream:
            flat = embed_views(model, stream, how)
    return flat.reshape(len(photos.table), len(views), -1)


def on_device(photos: EvaluationPhotos, device: str) -> DevicePhotos:
    """The photos on a device, to which their pictures are brought once."""
    kept: dict[str, DevicePhotos] = vars(photos).setdefault("_on_device", {})
    return kept.setdefault(device, DevicePhotos(photos, device))


@dataclass(frozen=True)
class DevicePhotos:
    """A split's pictures in the memory of a device, as far as it takes them; each kind is brought there when it is first asked
    for.
    """

    split: EvaluationPhotos
    device: str
    share: float = SHARE  # of the device's memory for each kind

    def views(
        self,
        views: Sequence[View],
        photos: int,
        rows: Sequence[int] | None = None,
        workers: int | None = None,
    ) -> Generator[Tensor, None, None]:
        """What ``EvaluationPhotos.views`` gives, of so many photos at once: uint8 [photos * views, S, S, 3] on the device.

        ``workers``, two fewer than threads unless given, make the views that the device does not make.
        """
        self.split.require(views)
        modules = [(plugins.load("conditions", name), draw) for name, draw in views]
        elsewhere = [view for view, (module, _) in zip(views, modules, strict=True) if not is_batched(module)]
        selected = np.arange(len(self.split.table)) if rows is None else np.asarray(rows, np.int64)
        processes = (workers or max(1, threads() - 2)) if elsewhere else 1
        with closing(self.split.views(elsewhere, processes, selected.tolist())) as stream:
            for start in range(0, len(selected), photos):
                batch = PhotoBatch(self, selected[start : start + photos])
                made = self._bring(list(islice(stream, len(batch.rows) * len(elsewhere))), len(elsewhere))
                shown = [
                    batch.see(module, draw) if is_batched(module) else made.pop(0) for module, draw in modules
                ]
                yield torch.stack(shown, dim=1).flatten(0, 1)

    def _bring(self, pictures: Sequence[np.ndarray], views: int) -> list[Tensor]:
        """For each of so many views, the pictures of all photos, which come photo by photo."""
        return [to_device(torch.from_numpy(np.stack(pictures[n::views])), self.device) for n in range(views)]

    @cached_property
    def photos(self) -> PillowCrops | DeviceCrops:
        return self._open(self.split.photos, self.split.table.ids)

    @cached_property
    def masks(self) -> PillowCrops | DeviceCrops:
        masks, photos = self.split.masks, self.split.photos
        assert masks is not None  # NEEDS says so
        for image_id in self._trusted_ids:
            check_mask(image_id, masks.shapes[masks.row(image_id)], photos.shapes[photos.row(image_id)])
        return self._open(masks, self._trusted_ids)

    @cached_property
    def inpainted(self) -> PillowCrops | DeviceCrops:
        assert self.split.inpainted is not None  # NEEDS says so
        return self._open(self.split.inpainted, self._trusted_ids)

    @cached_property
    def backgrounds(self) -> PillowCrops | DeviceCrops:
        assert self.split.backgrounds is not None  # NEEDS says so
        pictures = self.split.backgrounds.pictures
        shapes = [picture.shape for picture in pictures]
        size, share = self.split.size, self.share
        return cropper(pictures.__getitem__, shapes, size, self.device, few=True, share=share)

    @cached_property
    def is_trusted(self) -> np.ndarray:
        """Which photos have a trusted mask, bool [N]."""
        return np.isin(np.arange(len(self.split.table)), self.split.trusted)

    @cached_property
    def place(self) -> np.ndarray:
        """Where a photo's mask lies among the trusted ones, int64 [N]; anywhere if it has none."""
        return np.maximum(np.cumsum(self.is_trusted) - 1, 0)

    @cached_property
    def _trusted_ids(self) -> list[str]:
        return [self.split.table.ids[row] for row in self.split.trusted]

    def _open(self, pictures: Pictures, ids: Sequence[str]) -> PillowCrops | DeviceCrops:
        places = [pictures.row(image_id) for image_id in ids]
        shapes = [pictures.shapes[place] for place in places]
        return cropper(
            lambda row: pictures[places[row]], shapes, self.split.size, self.device, share=self.share
        )


@dataclass(frozen=True)
class PhotoBatch:
    """Photos as conditions get them, many at once: what ``Photo`` has, with a dimension more in front, on a device."""

    source: DevicePhotos
    rows: np.ndarray

    def see(self, condition: ModuleType, draw: int) -> Tensor:
        """The view of each photo, uint8 [B, S, S, 3]; one without a trusted mask stays as it is where masks are needed."""
        if "masks" not in condition.NEEDS:
            return condition.view(self, draw)
        if not self._trusted.any():
            return self.view
        trusted = to_device(torch.from_numpy(self._trusted), self.source.device)
        return torch.where(trusted[:, None, None, None], condition.view(self, draw), self.view)

    @cached_property
    def view(self) -> Tensor:
        """The centre crops, uint8 [B, S, S, 3]."""
        return self._bring(self.source.photos.centres(self.rows))

    @cached_property
    def mask(self) -> Tensor:
        """The masks' centre crops, uint8 [B, S, S]; of a photo without a trusted one, another photo's."""
        return self._bring(self.source.masks.centres(self.source.place[self.rows]))[..., 0]

    @cached_property
    def surroundings(self) -> Tensor:
        """The views without their objects, uint8 [B, S, S, 3]; of a photo without a trusted mask, another photo's."""
        return self._bring(self.source.inpainted.centres(self.source.place[self.rows]))

    def background(self, draw: int) -> Tensor:
        """The backgrounds that keys and the number of a draw name, uint8 [B, S, S, 3]."""
        pool, keys = self.source.split.backgrounds, self.source.split.table.keys
        assert pool is not None  # NEEDS says so
        draws = [pool.draw(keys[row], draw) for row in self.rows]
        parts = [d.index for d in draws], [d.box for d in draws], [d.flip for d in draws]
        return self._bring(self.source.backgrounds.crops(*parts))

    def lender(self, donor: Callable[[Photo, int], Photo], draw: int) -> PhotoBatch:
        """The photos whose surroundings a condition's ``donor`` takes in a draw."""
        photos = map(self.source.split.photo, self.rows.tolist())
        rows = [donor(photo, draw).row if photo.trusted else photo.row for photo in photos]
        return PhotoBatch(self.source, np.array(rows, np.int64))

    @cached_property
    def foreground(self) -> DeviceCutOuts:
        """The objects, cut out once for all the backgrounds that they are put before."""
        return DeviceCutOuts(self.view, self.mask)

    @property
    def _trusted(self) -> np.ndarray:
        return self.source.is_trusted[self.rows]

    def _bring(self, crops: Tensor) -> Tensor:
        return to_device(crops.permute(0, 2, 3, 1), self.source.device)


def is_batched(condition: ModuleType) -> bool:
    """Whether a condition makes the views of many photos at once."""
    return getattr(condition, "BATCHED", False)
