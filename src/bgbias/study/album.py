"""A dataset of the study as a model sees it: photos, masks and backgrounds, prepared at its short side and crop."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bgbias.backgrounds import draws
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.files.store import ImageStore
from bgbias.images import pixels
from bgbias.masks import policy as masking
from bgbias.models import backbones
from bgbias.photos import picture_cache
from bgbias.photos import table as image_table
from bgbias.photos.picture_cache import Pictures
from bgbias.photos.table import ImageTable
from bgbias.study import plan
from bgbias.study.params import Study
from bgbias.study.sources import parts_of

if TYPE_CHECKING:
    from bgbias.segmentation.truth import Truth
    from bgbias.training.batches import TrainingPhotos


class Album:
    """Opens what is asked for, and nothing else: a method that reads no masks runs without them."""

    def __init__(
        self, study: Study, dataset: str, side: int, size: int, fold: int = 0, backbone: str = ""
    ) -> None:
        """``side``: short side of the photos in pixels; ``size``: of the crop; ``fold``: which classes train and validate;
        ``backbone``: whose textures are meant.
        """
        self._study, self._dataset, self._side, self._size = study, dataset, side, size
        self._fold, self._backbone = fold, backbone
        self._photos = self._prepared(study.files.at("photos", dataset=dataset), dataset)

    @classmethod
    def seen_by(cls, study: Study, dataset: str, backbone: str) -> Self:
        """The dataset as a backbone of params.yaml sees it."""
        network = plan.backbone(study, backbone)
        facts = backbones.facts(network.kind, network.params())
        return cls(study, dataset, facts.resize, facts.input_size)

    def table(self, split: str) -> ImageTable:
        """The photos of a split."""
        table = image_table.read_table(self._study.files.at("table", dataset=self._dataset))
        return table.of_fold(self._fold).split(split)

    def training(self, needed: Collection[str], device: str = "cpu") -> TrainingPhotos:
        """The training split for this device, with masks, training backgrounds and textures where they are ``needed``."""
        from bgbias.training.batches import TrainingPhotos

        masks, usable = self._masks() if "masks" in needed else (None, frozenset())
        pool = self._pool("train") if "backgrounds" in needed else None
        textures = None
        if "textures" in needed:
            store = self._study.files.at("textures", dataset=self._dataset, backbone=self._backbone)
            textures = self._prepared(store, f"{self._dataset}/textures/{self._study.grid}/{self._backbone}")
        return TrainingPhotos(
            self.table("train"), self._photos, self._size, masks, usable, pool, device, textures
        )

    def evaluation(self, table: ImageTable, needed: Collection[str], role: str) -> EvaluationPhotos:
        """The photos of ``table`` with what is ``needed`` of masks, pool ``role``, inpainting."""
        masks, usable = self._masks() if "masks" in needed else (None, frozenset())
        pool, inpainted = None, None
        if "backgrounds" in needed:
            pool = draws.Pool(self._pool(role), draws.sizes(self._pool_path(role)))
        if "inpainted" in needed:
            assert masks is not None  # whatever needs one needs the other
            from bgbias.images.inpainting import remove_object

            masker = self._study.datasets[self._dataset].masker
            folder = self._study.files.at("prepared", owner=f"{self._dataset}/{masker}")
            name = f"inpainted-{self._side}"
            inpainted = picture_cache.combined(name, folder, self._photos, masks, remove_object)
        return EvaluationPhotos(table, self._photos, self._size, masks, usable, pool, inpainted)

    def objects(self, photos: Collection[str]) -> Truth:
        """Where the objects of these ``photos`` are, as the dataset knows it: by true masks, or by boxes."""
        from bgbias.segmentation.truth import TrueBoxes, TrueMasks, in_crop

        study, dataset = self._study, self._dataset
        if plan.truth(study, dataset) == "masks":
            masks = self._prepared(study.files.at("truth", dataset=dataset), dataset, mode="L")
            return TrueMasks(masks, photos, self._size)
        entry, store = study.dataset(dataset), ImageStore(study.files.at("photos", dataset=dataset))
        parts = {p: study.files.at("part", dataset=dataset, part=p) for p in parts_of(study, dataset)}
        boxes = entry.module.boxes(entry.params(), parts)
        seen_boxes = {
            name: in_crop(boxes[name], pixels.size(store.read(name), name), self._side, self._size)
            for name in photos
            if name in boxes
        }
        return TrueBoxes({name: box for name, box in seen_boxes.items() if box.area > 0}, self._size)

    def _masks(self) -> tuple[Pictures, frozenset[str]]:
        files, masker = self._study.files, self._study.datasets[self._dataset].masker
        where = {"dataset": self._dataset, "masker": masker}
        policy = self._study.mask_policy
        usable = masking.usable(masking.read_mask_table(files.at("mask_table", **where)), policy)
        tag = f"-from{policy.threshold}" if policy.kind == "threshold" else ""
        used = partial(masking.as_used, policy=policy)
        store, owner = files.at("masks", **where), f"{self._dataset}/{masker}"
        masks = self._prepared(store, owner, mode="L", change=used, tag=tag)
        return masks, usable & frozenset(masks.ids)

    def _pool(self, role: str) -> Pictures:
        pool = self._study.datasets[self._dataset].backgrounds
        return self._prepared(self._pool_path(role), f"backgrounds/{pool}")

    def _pool_path(self, role: str) -> Path:
        return self._study.files.at(f"{role}_pool", pool=self._study.datasets[self._dataset].backgrounds)

    def _prepared(self, store: Path, owner: str, **how: Any) -> Pictures:
        return picture_cache.pictures(store, self._side, self._study.files.at("prepared", owner=owner), **how)
