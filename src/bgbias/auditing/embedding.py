"""Embeddings of every view of every photo, and of objects on the same backgrounds each.

They lie in files that are mapped, so that a killed audit goes on. What cannot be a working model's embeddings, or is not in the
photos' order, is refused.
"""

import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from math import gcd
from pathlib import Path

import numpy as np

from bgbias.auditing.config import AuditConfig
from bgbias.auditing.resumable import ResumableRows
from bgbias.errors import UserError
from bgbias.evaluation import crossing
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND, View
from bgbias.evaluation.crossing import Shares
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.evaluation.retrieval import neighbours
from bgbias.models.adapters import Adapted, embed_unit
from bgbias.progress import showing

VIEWS, CROSSING = "views", "crossing"  # files in the folder of unfinished work
NAMED = 8  # photos that an error names
VIEWS_AT_ONCE = 512  # that a GPU makes
SHARE = 0.02  # of a GPU's memory for each kind of pictures: how much the model needs is not known


def embed_views(
    model: Adapted, photos: EvaluationPhotos, views: Sequence[View], work: Path
) -> dict[View, np.ndarray]:
    """Embeddings float32 [N, D] of unit length by view, in ``work``; all views of a photo are embedded in one batch."""
    # View by view in the file: whoever reads one finds its vectors side by side.
    shape = (len(views), len(photos.table), model.dim)
    rows = ResumableRows(work, VIEWS, np.float32, shape, axis=1)
    at_once = max(1, model.batch.size // len(views))
    with closing(make_views(model, photos, views, rows.missing)) as pictures:
        _embed_missing(model, rows, photos.table.ids, pictures, at_once, "embeddings")
    return {view: rows.values[:, number] for number, view in enumerate(views)}


def measure_shares(
    model: Adapted, photos: EvaluationPhotos, config: AuditConfig, work: Path
) -> Shares | None:
    """Of variance, of a keyed subset of objects; None where too few have a trusted mask."""
    if len(photos.trusted) < 2:
        return None
    assert photos.backgrounds is not None
    objects = crossing.objects(photos, config.objects)
    drawn = photos.backgrounds.for_all(config.backgrounds)
    backgrounds = [photos.backgrounds.picture(draw, photos.size) for draw in drawn]
    rows = ResumableRows(work, CROSSING, np.float32, (len(objects), len(backgrounds), model.dim))
    # In whole batches: another one moves vectors by their last digit, and takes memory anew.
    at_once = model.batch.size // gcd(model.batch.size, len(backgrounds))
    pictures = crossing.views(photos, [objects.ids[row] for row in rows.missing], backgrounds)
    _embed_missing(model, rows, objects.ids, pictures, at_once, "crossing")
    return crossing.shares(rows.values)


def make_views(
    model: Adapted, photos: EvaluationPhotos, views: Sequence[View], rows: Sequence[int]
) -> Generator[np.ndarray, None, None]:
    """The views of these rows' photos, by the GPU that the model is on, or by the processor."""
    if not model.device.startswith("cuda"):
        return photos.views(views, model.workers or 1, rows)
    from bgbias.compute.transfer import to_host
    from bgbias.evaluation.device_views import DevicePhotos

    at_once = max(1, VIEWS_AT_ONCE // len(views))
    batches = DevicePhotos(photos, model.device, SHARE).views(views, at_once, rows, model.workers)
    return (view for batch in to_host(batches) for view in batch.numpy())


def _embed_missing(
    model: Adapted,
    rows: ResumableRows,
    ids: Sequence[str],
    pictures: Iterator[np.ndarray],
    at_once: int,
    label: str,
) -> None:
    """Fill the ``rows`` [N, V, D] of the photos ``ids`` [N] that are missing, so many at once, with embeddings of V ``pictures``
    of each; what is left after a kill begins with a batch.
    """
    missing, of_each = rows.missing, rows.values.shape[1]
    with showing(len(missing), label) as done:
        for start in range(0, len(missing), at_once):
            some = missing[start : start + at_once]
            names = (ids[row] for row in some for _ in range(of_each))
            flat = vectors(model, itertools.islice(pictures, len(some) * of_each), names)
            rows[some] = flat.reshape(len(some), of_each, -1)
            done(len(some))


def vectors(model: Adapted, views: Iterator[np.ndarray], names: Iterable[str] = ()) -> np.ndarray:
    """Embeddings float32 [N, D] of unit length, of N views uint8 [S, S, 3]; ``names``: the photo of each, for errors. A vector of
    zeros is an error.
    """
    parts, photos = [], iter(names)
    while batch := list(itertools.islice(views, model.batch.size)):
        with name_photos_in_errors(itertools.islice(photos, len(batch))):
            parts.append(embed_unit(model, np.stack(batch)))
    if not parts:
        raise UserError("There are no photos to embed.")
    return np.concatenate(parts)


@contextmanager
def name_photos_in_errors(photos: Iterable[str]) -> Iterator[None]:
    """An error of a model names the photos that it was shown."""
    try:
        yield
    except UserError as error:
        names = list(dict.fromkeys(photos))
        if not names:
            raise
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        raise UserError(
            f"{error} It was shown views of {', '.join(names[:NAMED])}{more}. What is finished is kept: with the same --out it"
            " goes on from here."
        ) from error


# A photo's views that show its own object on other backgrounds: where one finds its photo, the others do.
ON_OTHERS = (RANDOM_BACKGROUND, "mixed_same", "mixed_rand")
# Of photos in a random order one is nearest to itself in the mean, and more than so many in one case of a thousand (Poisson).
MOST_BY_CHANCE = 5
FEWEST = 20  # photos of which so few can be told from all
MOST_ALIKE = 0.5  # of the photos may share one vector


def equal_vectors(vectors: np.ndarray) -> int:
    """How many of the embeddings [N, D] are also another photo's."""
    counts = np.unique(vectors, axis=0, return_counts=True)[1]
    return int(counts[counts > 1].sum())


def refuse_constant(vectors: np.ndarray, name: str) -> None:
    """Refuse a model that gives many photos one and the same vector [N, D]: no background can change what it finds."""
    most = int(np.unique(vectors, axis=0, return_counts=True)[1].max())
    if most > max(1, MOST_ALIKE * len(vectors)):
        raise UserError(
            f"{name} gives {most} of {len(vectors)} photos the same embedding, so that it cannot tell them apart. Check its"
            " weights, the layer that is taken, and the preparation of photos (--mean, --std, --size)."
        )


def refuse_another_order(vectors: Mapping[View, np.ndarray], ids: Sequence[str]) -> str:
    """Refuse embeddings [N, D] by view whose rows are not the same photos: a photo's own views are nearest to it far more often
    than chance. ``ids`` [N]: the photos in their order. Gives a line with their number, since rows
    that are partly in order are not refused.
    """
    clean = vectors[CLEAN, 0]
    rows = np.arange(len(ids))
    nearest_of = {
        view: neighbours(array, rows, clean, rows, k=1, exclude_self=False).indices[:, 0]
        for view, array in vectors.items()
        if view[0] != CLEAN
    }
    hits = {view: int((nearest == rows).sum()) for view, nearest in nearest_of.items()}
    alike = [hits[view] for view in hits if view[0] in ON_OTHERS]
    for view, nearest in nearest_of.items():
        pasted = view[0] in ON_OTHERS and max(alike) > 4 * MOST_BY_CHANCE
        if len(ids) >= FEWEST and hits[view] <= MOST_BY_CHANCE and (view[0] == "own_inpainted" or pasted):
            row = int(np.flatnonzero(nearest != rows)[0])
            raise UserError(
                f"The embeddings of {CLEAN}-0 and {view[0]}-{view[1]} are not of the same photos in the same order:"
                f" {hits[view]} of {len(ids)} photos are nearest to themselves, as many as by chance. The first that is not:"
                f" {ids[row]}, whose nearest is {ids[nearest[row]]}. Embed each folder in the order of photos.csv."
            )
    return (
        f"order of the rows: {hits['own_inpainted', 0]} of {len(ids)} photos are nearest to themselves on their own backgrounds,"
        " filled; if these are not nearly all, rows of clean.npy and views.npz may be of other photos"
    )
