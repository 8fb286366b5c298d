"""The library's face: from photos and a trained model to embeddings, neighbours, attribution scores and explanations.

Everything here takes photos as they come (``Photo``) and gives arrays and tables; no study and no params.yaml is needed. The
examples are run by the tests, in a folder with rendered toys (two ``mug``s, a ``house``), their masks (``*_mask.png``), photos of
scenes without objects, and a small model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from PIL import Image

from bgbias.errors import UserError, name_arguments
from bgbias.images import pixels
from bgbias.images.drawn_masks import read_mask
from bgbias.images.pixels import Photo, decode_all, decode_photo
from bgbias.models.adapters import OPTION_NAMES, Adapted, Options
from bgbias.models.adapters import load as adapted
from bgbias.progress import say

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

    from bgbias.attribution.explanation import Explanation
    from bgbias.evaluation.embedder import Embedder
    from bgbias.evaluation.retrieval import Neighbours

Embedding = Callable[[list[np.ndarray]], Any]
"""Any function from photos, each uint8 [H, W, 3], to a vector of each: an array or a tensor [N, D]."""

BATCH = 64  # photos


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

    is_name = isinstance(weights, str) and weights.partition(":")[0] in plugins.names("adapters")
    if is_name or not isinstance(weights, (str, Path)):
        subject = f"'{weights}'" if is_name else f"a {type(weights).__name__}"
        raise UserError(
            f"load() reads a file of a model that bgbias trained, and was given {subject}. A network, a function and names like"
            " timm:resnet50 go into bgbias.audit(photos, model), bgbias.embed(model, photos) and the like as they are."
        )
    return Embedder(Path(weights), device)


@name_arguments(*OPTION_NAMES)
def embed(
    model: object,
    photos: Iterable[Photo],
    batch_size: int | None = None,
    *,
    out: str | Path | None = None,
    **options: Any,
) -> np.ndarray:
    """Embeddings float32 [N, D] of unit length, in the photos' order; a photo that cannot be read is a UserError naming it.

    ``model``: what ``load`` gives, or any that the command's ``--model`` takes: "timm:resnet50", a file, a network of torch's, an
    object with ``encode``, or a function from a list of decoded photos to their vectors. The function is given whole photos, or,
    with ``size``, the squares that an audit would show it. A model that gives a photo another vector among others than alone is a
    UserError. Photos are read batch by batch, so that ``photos`` may be a generator over more than fits into memory.

    ``batch_size``: photos that go through the model at once (64; fewer where its memory is short). ``out``: a file .npy for the
    embeddings. ``options``: ``weights``, ``size``, ``resize``, ``squash``, ``interpolation``, ``mean``,
    ``std``, ``pooling``, where the model does not tell them; ``device``; ``precision`` (float32, bfloat16, float16).

    >>> vectors = bgbias.embed(model, ["mug_0.png", "mug_1.png", "house.png"])
    >>> vectors.shape, vectors.dtype
    ((3, 16), dtype('float32'))
    >>> colours = bgbias.embed(lambda batch: [photo.mean((0, 1)) for photo in batch], ["mug_0.png", "house.png"])
    >>> np.linalg.norm(colours, axis=1).round(6)
    array([1., 1.], dtype=float32)
    """
    from bgbias.auditing import embedding
    from bgbias.evaluation.embedder import Embedder
    from bgbias.files.atomic import replacing
    from bgbias.models.adapters._pictures import embed_whole, is_function

    if isinstance(photos, (str, Path, Image.Image)):
        raise UserError("embed() takes several photos: put the one into a list.")
    if out is not None and Path(out).suffix != ".npy":
        raise UserError(f"out={out}: embeddings are saved as .npy; give such a name.")
    settings = _check_options(batch_size=batch_size, **options)
    pictures = decode_all(photos)
    if isinstance(model, Embedder) and not options:
        vectors = model.embed(pictures, batch_size or BATCH)
    elif is_function(model) and not options:
        vectors = embed_whole(cast("Embedding", model), pictures, batch_size or BATCH)
    else:
        loaded = _adapt(model, settings)
        vectors = embedding.vectors(loaded, (np.asarray(loaded.look(picture)) for picture in pictures))
    if out is not None:
        with replacing(Path(out)) as temporary, temporary.open("wb") as file:
            np.save(file, vectors)
    return vectors


def corrupt(
    photo: Photo | list[Photo],
    mask: Photo | list[Photo],
    backgrounds: Photo | Sequence[Photo],
    key: str | list[str],
    draw: int = 0,
) -> Any:
    """The photo's object on another background, uint8 [H, W, 3] of the photo's size: ``M * x + (1 - M) * b``.

    One of the backgrounds, a random part of it and whether it is mirrored follow from ``key``, the photo's name, and ``draw``
    alone: the same for every model, machine and order of photos. With the key "<dataset>|<split>|<item>" they are those of the
    study's corrupted sets (docs/methods.md, section 2); the study cuts out what a model sees first, which ``model.view`` does.
    A mask of another size than the photo's, and no backgrounds, are a UserError. Lists of photos, masks and keys of one length
    give a list.

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

    is_one = not isinstance(photo, (list, tuple))
    lists = ([photo], [mask], [key]) if is_one else (photo, mask, key)
    photos, masks, keys = cast("tuple[list[Photo], list[Photo], list[str]]", lists)
    _check_lengths(photos=photos, masks=masks, keys=keys)
    pool = [backgrounds] if isinstance(backgrounds, (str, Path, Image.Image, np.ndarray)) else backgrounds
    if not len(pool):
        raise UserError("There is no background to put behind the photo; give one picture or several.")
    scenes = [decode_photo(background, f"backgrounds[{number}]") for number, background in enumerate(pool)]
    results = []
    for number, (one, of_one, name) in enumerate(zip(photos, masks, keys, strict=True)):
        whole = decode_photo(one, "photo" if is_one else f"photos[{number}]")
        cut = read_mask(of_one, one, whole.shape[:2], "mask" if is_one else f"masks[{number}]")
        key_set, _, item = name.rpartition("|")
        drawn = draws.draw(key_set, draw, item, [picture.shape[:2] for picture in scenes])
        picture = Image.fromarray(scenes[drawn.index])
        part = pixels.crop_picture(picture, drawn.box, cut.shape[::-1], drawn.flip)
        results.append(CutOut(whole, cut).before(np.asarray(part)))
    return results[0] if is_one else results


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


@name_arguments(*OPTION_NAMES)
def rank(
    queries: np.ndarray | Sequence[Photo],
    query_labels: ArrayLike,
    gallery: np.ndarray | Sequence[Photo] | None = None,
    gallery_labels: ArrayLike | None = None,
    k: int | None = None,
    device: str | None = None,
    *,
    model: object = None,
    **options: Any,
) -> Ranking:
    """Rank a gallery [M, D] for queries [N, D] by cosine similarity, exactly; equally near ones come in the gallery's order.

    Vectors have unit length, as ``embed`` gives them; others are a UserError. With a ``model``, queries and gallery are photos,
    which ``embed(model, photos, **options)`` embeds. Labels, of any kind that compares as equal, say who is of one class.

    Without a gallery the queries are searched among themselves, each without itself. Every query keeps
    at least ``k`` neighbours, and as many as the metrics need. ``device`` "cuda" embeds and searches on a GPU, in the same order;
    without it the search is the processor's. A function as model chooses its own: embed first, then rank its vectors.

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
    if model is not None:
        options |= {"device": device} if device else {}
        queries = embed(model, cast("Sequence[Photo]", queries), **options)
        gallery = None if gallery is None else embed(model, cast("Sequence[Photo]", gallery), **options)
    elif options:
        raise UserError(f"{next(iter(options))}= is of a model that embeds photos; give model=, too.")
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
    ranked = neighbours(queries, of_queries, searched, of_gallery, deep, gallery is None, device or "cpu")
    values = {name: plugins.load("metrics", name).per_query(ranked) for name in metrics.names()}
    return Ranking(ranked, pd.DataFrame(values))


@name_arguments(*OPTION_NAMES)
def attribute(
    model: object,
    photos: Sequence[Photo],
    masks: Sequence[Photo | None],
    names: Sequence[str] | None = None,
    distance: Literal["l2", "cosine"] | None = None,
    samples: int = 25,
    noise: float = 0.15,
    **options: Any,
) -> pd.DataFrame:
    """How much of what moves a photo's embedding lies on its object: the attribution score (docs/methods.md, section 3).

    A row a photo: ``ref``, the published score, and ``robust``, the one without cancelling (1: all on the object; 0: spread
    evenly; below 0: more on the background than its share); ``mask_fraction``, the object's share of the crop; and ``skipped``,
    why there is no score (NaN), as where a mask is None, empty or full.

    ``model`` and ``options`` are those of ``embed``; a function is shown the squares of an audit. The table's ``attrs["how"]``
    is "gradients", or "occlusion" of a model without any: places are blurred, both scores are one, and ``distance``, ``samples``
    and ``noise`` mean nothing.

    ``names`` key the noise of the ``samples`` noisy copies (by default each photo's position), so that models are compared on
    the same ones; ``noise`` is its sigma as a share of the input's range; ``distance`` is that of the model's loss, by default,
    and cosine where that is not known.

    >>> scores = bgbias.attribute(model, ["mug_0.png", "house.png"], ["mug_0_mask.png", None], samples=4)
    >>> scores["skipped"].tolist(), list(scores.columns)
    (['', 'no mask'], ['ref', 'robust', 'mask_fraction', 'skipped'])
    >>> bool(-1 < scores.loc[0, "ref"] <= 1), bool(np.isnan(scores.loc[1, "ref"]))
    (True, True)
    >>> scores.attrs["how"]
    'gradients'
    """
    from bgbias.attribution import any_model
    from bgbias.attribution.settings import Attribution
    from bgbias.evaluation.embedder import Embedder

    keys = [str(number) for number in range(len(photos))] if names is None else [str(name) for name in names]
    _check_lengths(photos=photos, masks=masks, names=keys)
    if not len(photos):
        raise UserError("There are no photos to attribute.")
    loaded = _adapt(model, _check_options(**options))
    views: list[np.ndarray] = []
    alphas: list[np.ndarray | None] = []
    for number, (photo, mask) in enumerate(zip(photos, masks, strict=True)):
        whole = decode_photo(photo, f"photos[{number}]")
        of_photo = None if mask is None else read_mask(mask, photo, whole.shape[:2], f"masks[{number}]")
        views.append(loaded.look(whole))
        alphas.append(None if of_photo is None else loaded.look(of_photo))
    inputs = any_model.as_photos(views, alphas, keys)
    settings = Attribution(samples=samples, noise=noise)
    if isinstance(model, Embedder):
        return any_model.score_photos(model, inputs, settings, distance or _read_distance(model))
    return any_model.score_photos(loaded, inputs, settings, distance or "cosine")


@name_arguments(*OPTION_NAMES)
def explain(
    model: object,
    photos: Sequence[Photo],
    same: bool = True,
    score: Literal["magnitude", "published"] = "magnitude",
    **options: Any,
) -> Explanation:
    """By which places a model compares two, three or four photos (similarity attention; docs/methods.md, section 7).

    Two photos: what they share, or what sets them apart if not ``same``. Three or four: anchor, positive and one or two
    negatives. Another number of photos is a UserError. The explanation's ``photos`` are what the model saw, uint8 [S, S, 3];
    ``maps``, float32 [S, S] of each, are 1 at the place that counts most; ``distances`` are those to the first photo, 0..2.

    ``model`` and ``options`` are those of ``embed``, of networks of torch that pool a feature map; any
    other is a UserError that says what is possible.

    >>> explanation = bgbias.explain(model, ["mug_0.png", "mug_1.png"])
    >>> [attention.shape for attention in explanation.maps], len(explanation.distances)
    ([(56, 56), (56, 56)], 1)
    """
    from bgbias.attribution import explanation
    from bgbias.evaluation.embedder import Embedder

    settings = _check_options(**options)
    pictures = list(decode_all(photos))  # a photo that is missing is said before a model is fetched
    loaded = model.model if isinstance(model, Embedder) and not options else _adapt(model, settings)
    return explanation.explain(loaded, pictures, same, score)


def _check_options(**options: Any) -> Options:
    """What is said of a model, checked; another argument is a TypeError."""
    if unknown := options.keys() - set(OPTION_NAMES):
        raise TypeError(f"unexpected argument {min(unknown)}; there are {', '.join(OPTION_NAMES)}")
    return Options(**options)


def _adapt(model: object, settings: Options) -> Adapted:
    """The model as a function of what it sees; what was guessed of it is printed."""
    loaded = adapted(model, settings)
    for guess in loaded.guesses:
        say(guess.replace("--", ""))
    return loaded


def _check_lengths(**lists: Sequence[Any]) -> None:
    if len({len(values) for values in lists.values()}) > 1:
        *counts, last = (f"{len(values)} {name}" for name, values in lists.items())
        raise UserError(f"Give as many of each: there are {', '.join(counts)} and {last}.")


def _read_distance(model: Embedder) -> str:
    """That of the loss that the model was trained with, as its file tells; cosine where it does not."""
    from bgbias import plugins
    from bgbias.models.model import metadata

    loss = metadata(model.weights).get("cell", {}).get("loss", "")
    return str(plugins.load("losses", loss).DISTANCE) if plugins.known("losses", loss) else "cosine"
