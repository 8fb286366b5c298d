"""The library's face: from photos and a trained model to embeddings, neighbours, attribution scores and explanations.

Everything here takes photos as they come (``Photo``) and gives arrays and tables; no study and no params.yaml is needed. The
examples are run by the tests, in a folder with rendered toys (two ``mug``s, a ``house``), their masks (``*_mask.png``), photos of
scenes without objects, and a small model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import numpy as np
from PIL import Image

from bgbias.errors import UserError, of_arguments
from bgbias.images import pixels

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

    from bgbias.attribution.explanation import Explanation
    from bgbias.auditing.compared import ComparedAudits
    from bgbias.auditing.finished import Audit
    from bgbias.evaluation.embedder import Embedder
    from bgbias.evaluation.retrieval import Neighbours
    from bgbias.photos.prepared import Pictures
    from bgbias.photos.sources import Source

Photo = str | Path | Image.Image | np.ndarray
"""A picture file's name, a picture of Pillow's, or uint8 [H, W, 3] (RGB). Where a mask is meant, [H, W]: bool, or uint8 whose 255
is object and whose greys are soft edges."""

Embedding = Callable[[list[np.ndarray]], Any]
"""Any function from photos, each uint8 [H, W, 3], to a vector of each: an array or a tensor [N, D]."""


def load(weights: str | Path, device: str = "auto") -> Embedder:
    """The model that bgbias trained, in a file ``model.safetensors``; it resizes, crops and normalises as its evaluation did.

    ``device``: "cpu", "cuda", "cuda:<number>", or "auto", a GPU where there is one. A file that is missing or holds something
    else, and a GPU that is not there, are a UserError, and so is a model of another kind: those go into ``audit`` as they are.

    >>> model = bgbias.load("model.safetensors", device="cpu")
    >>> model
    Embedder(tiny, 16 numbers a photo, cpu)
    """
    from bgbias import plugins
    from bgbias.evaluation.embedder import Embedder

    named = isinstance(weights, str) and weights.partition(":")[0] in plugins.names("adapters")
    if named or not isinstance(weights, (str, Path)):
        shown = f"'{weights}'" if named else f"a {type(weights).__name__}"
        raise UserError(
            f"load() reads a file of a model that bgbias trained, and was given {shown}. A network, a function and names like"
            " timm:resnet50 go into bgbias.audit(photos, model) as they are; bgbias.embed(model, photos) takes a function from"
            " photos to vectors, too."
        )
    return Embedder(Path(weights), device)


def embed(model: Embedder | Embedding, photos: Iterable[Photo], batch_size: int = 64) -> np.ndarray:
    """Embeddings float32 [N, D] of unit length, in the photos' order; a photo that cannot be read is a UserError naming it.

    ``model`` is what ``load`` gives, or any function from a list of decoded photos to their vectors; those are brought to unit
    length, and a function that gives a photo another vector among others than alone is a UserError. Photos are read batch by
    batch, so that ``photos`` may be a generator over more than fits into memory.

    >>> vectors = bgbias.embed(model, ["mug_0.png", "mug_1.png", "house.png"])
    >>> vectors.shape, vectors.dtype
    ((3, 16), dtype('float32'))
    >>> colours = bgbias.embed(lambda batch: [photo.mean((0, 1)) for photo in batch], ["mug_0.png", "house.png"])
    >>> np.linalg.norm(colours, axis=1).round(6)
    array([1., 1.], dtype=float32)
    """
    from bgbias.evaluation.embedder import Embedder

    if isinstance(photos, (str, Path, Image.Image)):
        raise UserError("embed() takes several photos: put the one into a list.")
    if batch_size < 1:
        raise UserError(f"batch_size is {batch_size}; it must be at least 1.")
    decoded = (_rgb(photo, number) for number, photo in enumerate(photos))
    if isinstance(model, Embedder):
        return model.embed(decoded, batch_size)
    vectors = list(_embedded(model, decoded, batch_size))
    if not vectors:
        raise UserError("There are no photos to embed.")
    return np.concatenate(vectors)


def corrupt(
    photo: Photo, mask: Photo, backgrounds: Photo | Sequence[Photo], key: str, draw: int = 0
) -> np.ndarray:
    """The photo's object in front of another background, uint8 [H, W, 3] of the photo's size: ``M * x + (1 - M) * b``.

    One of the backgrounds, a random part of it and whether it is mirrored follow from ``key``, the photo's name, and ``draw``
    alone: the same for every model, machine and order of photos. With the key "<dataset>|<split>|<item>" they are those of the
    study's corrupted sets (docs/methods.md, section 2); the study cuts out what a model sees first, which ``model.view`` does.
    A mask of another size than the photo's, and no backgrounds, are a UserError.

    >>> scenes = ["scene_0.png", "scene_1.png"]
    >>> picture = bgbias.corrupt("mug_0.png", "mug_0_mask.png", scenes, key="mug_0")
    >>> picture.shape, picture.dtype
    ((64, 64, 3), dtype('uint8'))
    >>> again, other = (bgbias.corrupt("mug_0.png", "mug_0_mask.png", scenes, "mug_0", draw) for draw in (0, 1))
    >>> np.array_equal(picture, again), np.array_equal(picture, other)
    (True, False)
    """
    from bgbias.backgrounds import draws
    from bgbias.images.composite import CutOut

    shown = _rgb(photo)
    alpha = _alpha(mask, shown)
    pool = [backgrounds] if isinstance(backgrounds, (str, Path, Image.Image, np.ndarray)) else backgrounds
    if not len(pool):
        raise UserError("There is no background to put behind the photo; give one picture or several.")
    decoded = [_rgb(background, number) for number, background in enumerate(pool)]
    key_set, _, item = key.rpartition("|")
    drawn = draws.draw(key_set, draw, item, [picture.shape[:2] for picture in decoded])
    height, width = alpha.shape
    behind = pixels.cropped(Image.fromarray(decoded[drawn.index]), drawn.box, (width, height), drawn.flip)
    return CutOut(shown, alpha).before(np.asarray(behind))


@dataclass(frozen=True)
class Ranking:
    """Each query's nearest gallery photos, and every metric of it.

    ``neighbours``: ``indices`` int64 [N, K] into the gallery, best first (-1 where it is smaller than K), ``same_label`` bool
    [N, K], ``relevant`` int64 [N]. ``metrics``: a row a query, a column a metric in 0..1 (``map_at_r``, ``precision_at_1``,
    ``recall_at_2``, ...); NaN (recalls: 0) where the gallery has nobody of the query's class. Their means are
    ``ranking.metrics.mean()``.
    """

    neighbours: Neighbours
    metrics: pd.DataFrame


def rank(
    queries: np.ndarray,
    query_labels: ArrayLike,
    gallery: np.ndarray | None = None,
    gallery_labels: ArrayLike | None = None,
    k: int | None = None,
    device: str = "cpu",
) -> Ranking:
    """Rank a gallery [M, D] for queries [N, D] by cosine similarity, exactly; equally near ones come in the gallery's order.

    Vectors have unit length, as ``embed`` gives them; others are a UserError. Labels, of any kind that compares as equal, say
    who is of one class. Without a gallery the queries are searched among themselves, each without itself. Every query keeps
    at least ``k`` neighbours, and as many as the metrics need. ``device`` "cuda" searches on a GPU; the answer is the same.

    >>> ranking = bgbias.rank(vectors, ["mug", "mug", "house"])
    >>> ranking.neighbours.indices[:, :2].shape
    (3, 2)
    >>> ranking.metrics[["map_at_r", "precision_at_1"]].notna().sum().to_dict()
    {'map_at_r': 2, 'precision_at_1': 2}
    >>> searched = bgbias.rank(vectors[:1], ["mug"], vectors, ["mug", "mug", "house"])
    >>> int(searched.neighbours.indices[0, 0]), searched.metrics.loc[0, "precision_at_1"]
    (0, np.float64(1.0))
    """
    import pandas as pd

    from bgbias import plugins
    from bgbias.evaluation import metrics
    from bgbias.evaluation.retrieval import DEEPEST_FIXED_RANK, neighbours

    if (gallery is None) != (gallery_labels is None):
        raise UserError("A gallery comes with its labels: give rank() both, or neither of them.")
    queries, of_queries = np.asarray(queries), np.asarray(query_labels)
    searched = queries if gallery is None else np.asarray(gallery)
    of_gallery = of_queries if gallery_labels is None else np.asarray(gallery_labels)
    for vectors, labels, name in ((queries, of_queries, "queries"), (searched, of_gallery, "gallery photos")):
        if vectors.ndim != 2 or labels.shape != vectors.shape[:1]:
            raise UserError(
                f"There are {name} {list(vectors.shape)} and labels {list(labels.shape)}; vectors are [N, D], labels [N]."
            )
    if queries.shape[1] != searched.shape[1]:
        raise UserError(
            f"Queries have {queries.shape[1]} numbers each, the gallery {searched.shape[1]}; embed both with one model."
        )
    most = max(np.unique(of_gallery, return_counts=True)[1], default=0)
    deep = max(k or 0, int(most), DEEPEST_FIXED_RANK)
    ranked = neighbours(queries, of_queries, searched, of_gallery, deep, gallery is None, device)
    values = {name: plugins.load("metrics", name).per_query(ranked) for name in metrics.names()}
    return Ranking(ranked, pd.DataFrame(values))


def attribute(
    model: Embedder,
    photos: Sequence[Photo],
    masks: Sequence[Photo | None],
    names: Sequence[str] | None = None,
    distance: Literal["l2", "cosine"] | None = None,
    samples: int = 25,
    noise: float = 0.15,
) -> pd.DataFrame:
    """How much of what moves a photo's embedding lies on its object: the attribution score (docs/methods.md, section 3).

    A row a photo: ``ref``, the published score, and ``robust``, the one without cancelling (1: all on the object; 0: spread
    evenly; below 0: more on the background than its share); ``mask_fraction``, the object's share of the crop; and ``skipped``,
    why there is no score (NaN), as where a mask is None, empty or full.

    ``names`` key the noise of the ``samples`` noisy copies (by default each photo's position), so that models are compared on
    the same ones; ``noise`` is its sigma as a share of the input's range; ``distance`` is that of the model's loss, by default.

    >>> scores = bgbias.attribute(model, ["mug_0.png", "house.png"], ["mug_0_mask.png", None], samples=4)
    >>> scores["skipped"].tolist(), list(scores.columns)
    (['', 'no mask'], ['ref', 'robust', 'mask_fraction', 'skipped'])
    >>> bool(-1 < scores.loc[0, "ref"] <= 1), bool(np.isnan(scores.loc[1, "ref"]))
    (True, True)
    """
    import pandas as pd

    from bgbias.attribution.settings import Attribution
    from bgbias.attribution.smoothgrad import attribute_photos
    from bgbias.evaluation.photos import EvaluationPhotos
    from bgbias.photos.table import COLUMNS, ImageTable

    _ours(model, "attribute")
    keys = [str(number) for number in range(len(photos))] if names is None else [str(name) for name in names]
    if not len(photos) == len(masks) == len(keys):
        raise UserError(
            f"Each photo needs a mask (or None) and a name: there are {len(photos)} photos, {len(masks)} masks"
            f" and {len(keys)} names."
        )
    if not len(photos):
        raise UserError("There are no photos to attribute.")
    resize = model.model.resize
    pictures, alphas = {}, {}
    for number, (photo, mask) in enumerate(zip(photos, masks, strict=True)):
        decoded = _rgb(photo, number)
        pictures[str(number)] = pixels.resize_short(decoded, resize)
        if mask is not None:
            alphas[str(number)] = pixels.resize_short(_alpha(mask, decoded, number), resize)
    rows = [(i, 0, "", "test", "", key) for i, key in zip(pictures, keys, strict=True)]
    table = ImageTable(pd.DataFrame(rows, columns=list(COLUMNS)))
    # Of pictures on a disk, attribution asks no more than a dictionary answers.
    evaluated = EvaluationPhotos(
        table,
        cast("Pictures", pictures),
        model.model.input_size,
        cast("Pictures", alphas),
        frozenset(alphas),
    )
    settings = Attribution(samples=samples, noise=noise)
    scores, _ = attribute_photos(model.model, evaluated, distance or _distance(model), settings, model.device)
    ref, robust = (
        scores[scores["variant"] == variant].reset_index(drop=True) for variant in ("ref", "robust")
    )
    return pd.DataFrame(
        {
            "ref": ref["score"],
            "robust": robust["score"],
            "mask_fraction": ref["mask_fraction"],
            "skipped": ref["skipped"].where(ref["skipped"] != "", robust["skipped"]),
        }
    )


def explain(
    model: Embedder,
    photos: Sequence[Photo],
    same: bool = True,
    score: Literal["magnitude", "published"] = "magnitude",
) -> Explanation:
    """By which places a model compares two, three or four photos (similarity attention; docs/methods.md, section 7).

    Two photos: what they share, or what sets them apart if not ``same``. Three or four: anchor, positive and one or two
    negatives. Another number of photos is a UserError. The explanation's ``photos`` are what the model saw, uint8 [S, S, 3];
    ``maps``, float32 [S, S] of each, are 1 at the place that counts most; ``distances`` are those to the first photo, 0..2.

    >>> explanation = bgbias.explain(model, ["mug_0.png", "mug_1.png"])
    >>> [attention.shape for attention in explanation.maps], len(explanation.distances)
    ([(56, 56), (56, 56)], 1)
    """
    from bgbias.attribution import explanation

    _ours(model, "explain")
    decoded = [_rgb(photo, number) for number, photo in enumerate(photos)]
    return explanation.explain(model.model, decoded, same, score)


@overload
def audit(photos: Source, model: Mapping[str, object], **how: Any) -> ComparedAudits: ...  # type: ignore[overload-overlap]
@overload
def audit(photos: Source, model: object, **how: Any) -> Audit: ...
@of_arguments("weights", "size", "resize", "squash", "interpolation", "mean", "std", "pooling")
def audit(
    photos: Source,
    model: object,
    *,
    out: str | Path | None = None,
    sample: int | None = 500,
    masks: str | Path | None = None,
    masker: str = "u2netp",
    mask_weights: str | Path | None = None,
    mask_options: Mapping[str, Any] | None = None,
    backgrounds: str | Path | None = None,
    draws: int = 5,
    attribution: int = 64,
    name: str | None = None,
    class_level: int | None = None,
    image_column: str = "",
    label_column: str = "",
    device: str = "auto",
    **looks: Any,
) -> Audit | ComparedAudits:
    """How much a model loses on these photos when only the background changes: what the command ``bgbias audit`` measures.

    ``photos``: a folder with a folder for each class, a zip, tar, CSV, Parquet or COCO file, the name of
    a dataset of params.yaml, a DataFrame, a ``datasets.Dataset`` or the folder of one, or a list of paths
    or pictures. ``image_column``, ``label_column``: those of a table whose names say nothing. ``model``:
    what the command's ``--model`` takes, or a network of torch's, an object with ``encode``, or a
    function from a list of pictures uint8 [H, W, 3] to their vectors; several of these by name are
    compared (``{"a": a, "b": b}``; ``ComparedAudits`` is given back). ``sample``: at most so many photos;
    None: all. ``mask_options``: the masker's, by name. ``out``: a folder for the files; what was
    begun there goes on. ``looks``: ``weights``, ``size``, ``resize``, ``squash``, ``interpolation``,
    ``mean``, ``std``, ``pooling``, where the model does not tell them. What cannot be used is a UserError.

    >>> def colours(batch):
    ...     return [photo.mean((0, 1)) for photo in batch]
    >>> found = bgbias.audit("photos", colours, masks="masks", size=64, resize=64, attribution=4)
    >>> found.drop.low < found.drop.value < found.drop.high
    True
    >>> found.classes[["class_name", "clean", "corrupted"]].shape
    (6, 3)
    """
    import tempfile

    from bgbias.auditing import masker as masking
    from bgbias.auditing import workplace
    from bgbias.auditing.audit import question, run
    from bgbias.auditing.backgrounds import find
    from bgbias.auditing.finished import Audit
    from bgbias.auditing.photos import choose, look_at
    from bgbias.auditing.question import Asked
    from bgbias.auditing.several import audit_each
    from bgbias.compute.device import pick
    from bgbias.models.adapters import Options
    from bgbias.models.adapters import load as adapted
    from bgbias.photos.tables import NamedColumns

    asked = Asked(draws=draws, attribution=attribution)
    if out is not None:
        workplace.check(Path(out), photos)
    weights = Path(mask_weights) if mask_weights else None
    masking.check(masker, weights, mask_options)
    named = NamedColumns(image_column, label_column)
    chosen = choose(photos, masks, name, class_level, sample or None, named)
    behind = find(None if backgrounds is None else str(backgrounds))
    options = Options(**looks, device=device)
    several = model if isinstance(model, Mapping) else {}
    # Whichever cannot be loaded says so before anything else is done.
    loaded = [adapted(one, options) for one in several.values() or [model]]
    asking = question(
        look_at(chosen), asked, behind, masker, weights, pick(device), mask_options=mask_options
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary if out is None else out)
        if several:
            loads = {str(name): partial(adapted, one, options) for name, one in several.items()}
            return audit_each(asking, loads, folder)[0]
        run(asking, loaded[0], folder)
        return Audit.load(folder)


def _ours(model: object, name: str) -> None:
    """Refuse a model that bgbias did not train."""
    from bgbias.evaluation.embedder import Embedder

    if not isinstance(model, Embedder):
        raise UserError(
            f"{name}() takes a model that bgbias trained, as bgbias.load() gives it, not a {type(model).__name__}. Where a"
            " model of your own looks is in its audit: bgbias.audit(photos, model)."
        )


def _distance(model: Embedder) -> str:
    """That of the loss that the model was trained with, as its file tells; cosine where it does not."""
    from bgbias import plugins
    from bgbias.models.model import metadata

    loss = metadata(model.weights).get("cell", {}).get("loss", "")
    return str(plugins.load("losses", loss).DISTANCE) if plugins.known("losses", loss) else "cosine"


def _embedded(model: Embedding, photos: Iterator[np.ndarray], batch_size: int) -> Iterator[np.ndarray]:
    from bgbias.models.adapters._alone import AloneCheck

    def embed(batch: list[np.ndarray]) -> np.ndarray:
        answer = model(batch)
        # A tensor may want gradients, or lie on a GPU.
        return np.asarray(answer.detach().cpu() if hasattr(answer, "detach") else answer, np.float32)

    check = AloneCheck()
    while batch := list(islice(photos, batch_size)):
        vectors = embed(batch)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True) if vectors.ndim == 2 else np.zeros(0)
        if len(vectors) != len(batch) or lengths.shape != (len(batch), 1):
            raise UserError(
                f"The model gave {list(vectors.shape)} for {len(batch)} photos, not a vector of each."
            )
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise UserError("The model gave a vector that is zero or not finite; it has no direction.")
        check("The model", batch, vectors, embed)
        yield vectors / lengths


def _rgb(photo: Photo, number: int = 0) -> np.ndarray:
    """The photo decoded, uint8 [H, W, 3]; what cannot be one is an error that names it."""
    decoded = _decoded(photo, "RGB", f"photo {number}")
    if decoded.dtype != np.uint8 or decoded.ndim != 3 or decoded.shape[2] != 3:
        raise UserError(f"Photo {number} is {decoded.dtype} {list(decoded.shape)}, not uint8 [H, W, 3].")
    return decoded


def _alpha(mask: Photo, photo: np.ndarray, number: int = 0) -> np.ndarray:
    """The mask decoded, uint8 [H, W] of the photo's size; another size is an error."""
    decoded = _decoded(mask, "L", f"mask {number}")
    alpha = np.where(decoded, np.uint8(255), np.uint8(0)) if decoded.dtype == bool else decoded
    if alpha.dtype != np.uint8 or alpha.shape != photo.shape[:2]:
        raise UserError(
            f"Mask {number} is {alpha.dtype} {list(alpha.shape)}, not uint8 or bool {list(photo.shape[:2])}"
            " as its photo."
        )
    return alpha


def _decoded(picture: Photo, mode: str, name: str) -> np.ndarray:
    if isinstance(picture, np.ndarray):
        return picture
    if isinstance(picture, Image.Image):
        return pixels.from_pillow(picture, mode)
    if not isinstance(picture, (str, Path)):
        raise UserError(f"{name} is a {type(picture).__name__}, not a file's name, a picture or an array.")
    if not Path(picture).is_file():
        raise UserError(f"The picture {picture} is missing.")
    return pixels.decode(Path(picture).read_bytes(), str(picture), mode)
