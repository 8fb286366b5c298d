"""Training batches: which photos come together, and the crops, masks and backgrounds they come with.

Every draw is keyed by (dataset, seed, epoch, step), not by the method: two methods with the same seed see the same photos in
the same crops, and a run that was interrupted goes on as if it had not been.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bgbias import seeds
from bgbias.backgrounds.draws import Draw
from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.images.pixels import RelativeBox
from bgbias.photos.crops import DeviceCrops, PillowCrops, cropper
from bgbias.photos.picture_cache import Pictures, check_mask
from bgbias.photos.table import ImageTable
from bgbias.training.methods import Batch
from bgbias.training.settings import Train

Key = tuple[object, ...]
Range = tuple[float, float]


def sample(
    labels: np.ndarray,
    batch_size: int,
    images_per_class: int,
    steps: int,
    generator: np.random.Generator,
    batches: int = 1,
) -> np.ndarray:
    """Rows of the photos of each batch, int64 [steps, batch_size]: distinct classes, ``images_per_class`` photos of each.

    Within a class photos are drawn without replacement where it has enough, with replacement otherwise. With one
    photo a class and fewer classes than the batch has places, every class comes in turn, so that classification
    losses still get a full, balanced batch. Too few classes for several photos a class are an error, which speaks of
    a grid's batches where ``batches`` of them are one.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    class_count = batch_size // images_per_class
    if len(classes) < class_count and images_per_class > 1:
        raise UserError(
            f"A batch of {batch_size} with {images_per_class} photos a class needs {class_count} classes;"
            f" training has {len(classes)}. Set train.batch_size to at most {len(classes) // batches * images_per_class}"
            " in params.yaml."
        )
    members = [np.flatnonzero(codes == c) for c in range(len(classes))]
    rows = np.empty((steps, batch_size), np.int64)
    for step in range(steps):
        rounds = -(-class_count // len(classes))
        turns = np.concatenate([generator.permutation(len(classes)) for _ in range(rounds)])[:class_count]
        counts = np.bincount(turns, minlength=len(classes)) * images_per_class
        chosen = [
            generator.choice(members[c], counts[c], replace=len(members[c]) < counts[c])
            for c in dict.fromkeys(turns)
        ]
        rows[step] = np.concatenate(chosen)
    return rows


class TrainingPhotos:
    """The training split's photos, with masks and background pool where the method needs them, ready to be cropped."""

    def __init__(
        self,
        table: ImageTable,
        photos: Pictures,
        size: int,
        masks: Pictures | None = None,
        usable: frozenset[str] = frozenset(),
        pool: Sequence[np.ndarray] | Pictures | None = None,
        device: str = "cpu",
        textures: Pictures | None = None,
    ) -> None:
        """``size``: pixels of the crop; ``usable``: ids whose mask is trusted (others keep their background);
        ``pool``: decoded backgrounds, uint8 [H, W, 3] each; ``device``: where crops are made, if it has the memory;
        ``textures``: of what photos are made of, each as large as its photo."""
        self.table = table
        self.labels = np.unique(table.labels, return_inverse=True)[1]
        indices = [photos.row(name) for name in table.ids]
        shapes = [photos.shapes[index] for index in indices]
        self._sizes = [(h, w) for h, w, *_ in shapes]
        # Of what shares its photo's crop, by its name in a batch.
        self._croppers = {"images": cropper(lambda row: photos[indices[row]], shapes, size, device)}
        if masks is not None:
            self._croppers["masks"] = self._make_mask_cropper(masks, usable, size, device)
        if textures is not None:
            quilted = [textures.row(name) for name in table.ids]
            self._croppers["textures"] = cropper(lambda row: textures[quilted[row]], shapes, size, device)
        pool_shapes = pool.shapes if isinstance(pool, Pictures) else [p.shape for p in pool or ()]
        self._pool_sizes = [(h, w) for h, w, *_ in pool_shapes]
        self._pool = cropper(pool.__getitem__, pool_shapes, size, device, few=True) if pool else None
        self.without_trusted_mask = len(set(table.ids) - usable) if masks is not None else 0
        """Photos that the method takes as all object, though it needs to know what is."""

    def batch(
        self,
        rows: np.ndarray,
        generator: np.random.Generator,
        background_generator: np.random.Generator,
        scale: Range,
        ratio: Range,
    ) -> Batch:
        """The photos of ``rows``, randomly cropped and flipped; masks share their photo's crop, backgrounds have their own."""
        sizes = [self._sizes[row] for row in rows.tolist()]
        parts = [pixels.random_box(generator, height, width, scale, ratio) for height, width in sizes]
        draws = []
        for _ in rows if self._pool else ():
            index = int(background_generator.integers(len(self._pool_sizes)))
            height, width = self._pool_sizes[index]
            box, flip = pixels.random_box(background_generator, height, width, scale, ratio)
            draws.append(Draw(index, box, flip))
        return self.crop(rows, parts, draws)

    def crop(
        self, rows: np.ndarray, parts: Sequence[tuple[RelativeBox, bool]], draws: Sequence[Draw]
    ) -> Batch:
        """The same with these parts of the photos, mirrored or not, and these backgrounds."""
        boxes, flips = zip(*parts, strict=True)
        shown = {name: source.crops(rows, boxes, flips) for name, source in self._croppers.items()}
        if "masks" in shown:
            shown["masks"] = _to_shares(shown["masks"])
        if self._pool:
            arguments = [d.index for d in draws], [d.box for d in draws], [d.flip for d in draws]
            shown["backgrounds"] = self._pool.crops(*arguments)
        return Batch(labels=torch.from_numpy(self.labels[rows]), index=torch.from_numpy(rows), **shown)

    def _make_mask_cropper(
        self, masks: Pictures, usable: frozenset[str], size: int, device: str
    ) -> PillowCrops | DeviceCrops:
        """The photos' masks; where none is trusted all is foreground, so that the background stays."""
        white = np.full((1, 1), 255, np.uint8)
        indices = [masks.row(name) if name in usable else None for name in self.table.ids]
        shapes = [white.shape if index is None else masks.shapes[index] for index in indices]
        for name, index, shape, photo in zip(self.table.ids, indices, shapes, self._sizes, strict=True):
            if index is not None:
                check_mask(name, shape, photo)

        def mask(row: int) -> np.ndarray:
            index = indices[row]
            return white if index is None else masks[index]

        return cropper(mask, shapes, size, device)


def _to_shares(levels: Tensor) -> Tensor:
    """Grey levels as shares, float32 in 0..1."""
    if levels.device.type != "cpu":
        return levels.float() / 255
    # By one thread, as it happens beside the network: torch would start threads of its own for this one, and all would wait for
    # each other.
    return torch.from_numpy(np.divide(levels.numpy(), np.float32(255), dtype=np.float32))


@dataclass(frozen=True)
class Epochs:
    """The batches of one training: what an epoch draws is keyed by ``key`` (dataset, seed) and its own number, nothing else."""

    photos: TrainingPhotos
    key: Key
    settings: Train
    images_per_class: int
    batches_a_step: int = 1
    """Batches of the grid's size that are drawn as one."""

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The steps of an epoch, numbered from 1."""
        s, key = self.settings, (*self.key, epoch)
        generator = seeds.generator("sampler", *key, self.images_per_class)
        size, steps = self.batches_a_step * s.batch_size, s.iterations_per_epoch
        labels = self.photos.labels
        rows = sample(labels, size, self.images_per_class, steps, generator, self.batches_a_step)
        yield from self._crop(key, list(rows))

    def passes(self, epoch: int, name: str, batch_size: int) -> Iterator[Batch]:
        """Every training photo once in random order, cropped as in training, for the purpose ``name``; the last batch has what is
        left.
        """
        key = (*self.key, epoch, name)
        order = seeds.generator("pass", *key).permutation(len(self.photos.labels))
        rows = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
        yield from self._crop(("pass", *key), rows)

    def _crop(self, key: Key, rows: Sequence[np.ndarray]) -> Iterator[Batch]:
        for step, chosen in enumerate(rows):
            crops = seeds.generator("crop", *key, step)
            backgrounds = seeds.generator("background", *key, step)
            scale, ratio = self.settings.crop_scale, self.settings.crop_ratio
            yield self.photos.batch(chosen, crops, backgrounds, scale, ratio)
