"""Models that are given whole pictures, and prepare them themselves: encoders of sentence-transformers and of MTEB, and what a
person's own function or object makes of pictures. They have no gradients.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
from PIL import Image

from bgbias.compute.device import pick
from bgbias.errors import UserError
from bgbias.models.adapters import LOOKS, Adapted, Options, as_kind
from bgbias.models.adapters._calls import AloneCheck
from bgbias.models.adapters._library import (
    OFFLINE_FOLDER,
    PAGE,
    check_name,
    folder_or_page,
    import_extra,
    load_source,
)
from bgbias.models.adapters._network import attempt
from bgbias.models.adapters._preparation import (
    Preparation,
    image_processor,
    normalising_alone,
    read_processor,
    usual,
)

TASK = "CIFAR10Clustering"  # encoders of MTEB are told which task they are asked for: one of images alone
OFFLINE_CACHE = "Fetch it where there is a network, and copy that machine's cache of the hub here (HF_HOME)."
LISTING = "python -c \"import mteb; print(*(m.name for m in mteb.get_model_metas(modalities=['image'])))\""


def adapt_sentence_transformers(which: str, options: Options) -> Adapted:
    """Models of sentence-transformers that embed images, by name or folder: ``sentence-transformers:clip-ViT-B-32``.

    Their image processor says what is seen of a photo, and normalises it.
    """
    library = import_extra("sentence_transformers", "sentence-transformers")
    source = folder_or_page(which, "" if "/" in which else f"sentence-transformers/{which}")
    name, device = f"sentence-transformers:{which}", pick(options.device)
    model = load_source(
        name, source, lambda: library.SentenceTransformer(which, device=device), OFFLINE_FOLDER
    )
    return sentence_transformer(model, Options(), name)


def sentence_transformer(model: Any, options: Options, name: str) -> Adapted:
    """A model of sentence-transformers at hand, where it lies. One that embeds no images, or whose processor is none of
    transformers, is an error.
    """
    options.at_home(str(model.device), name)
    if not model.supports("image"):
        raise UserError(
            f"{name} embeds {' and '.join(map(str, model.modalities))}, no images; choose another one."
        )
    processor = image_processor(model[0])
    if processor is None:
        raise UserError(
            f"{name} has no image processor of transformers, which would say what is seen of a photo. Write a function that"
            " embeds pictures with it, and name it: --model file.py:function."
        )

    def embed(views: list[np.ndarray]) -> Any:
        with normalising_alone(processor):
            return model.encode(pillow(views), batch_size=len(views), show_progress_bar=False)

    preparation = read_processor(processor, name, Options())
    embedding = f"embedding: its encode() ({', '.join(type(module).__name__ for module in model)})"
    return adapt_pictures(name, embed, preparation, embedding, str(model.device))


def adapt_mteb(which: str, options: Options) -> Adapted:
    """Image encoders of the embedding benchmark MTEB, by the names of its registry: ``mteb:openai/clip-vit-base-patch32``.

    They are given pictures in batches, as MTEB's image tasks make them. Where they have an image processor of transformers,
    it says what is seen of a photo; else they prepare the pictures themselves.
    """
    library = import_extra("mteb", "mteb")
    name, device = f"mteb:{which}", pick(options.device)
    encoders = {meta.name: meta for meta in library.get_model_metas()}
    check_name(which, encoders, "model of MTEB", LISTING)
    if "image" not in encoders[which].modalities:
        raise UserError(
            f"{name} embeds {' and '.join(encoders[which].modalities)}, no images. Those that do: {LISTING}"
        )
    model = load_source(name, PAGE + which, lambda: library.get_model(which, device=device), OFFLINE_CACHE)
    return replace(mteb_encoder(model, replace(options, device="auto"), name), device=device)


def mteb_encoder(model: Any, options: Options, name: str) -> Adapted:
    """An encoder at hand, where it lies: by ``get_image_embeddings``, which most have, or by ``encode`` alone."""
    home = str(getattr(model, "device", "a device of its own"))
    options.at_home(home, name)
    if (ask := getattr(model, "get_image_embeddings", None)) is None:
        task = import_extra("mteb", "mteb").get_task(TASK)
        ask = partial(model.encode, task_metadata=task.metadata, hf_split="test", hf_subset="default")
    processor = image_processor(model)
    embedding = "embedding: its image embeddings"
    if processor is None:
        preparation = usual(options, normalises_itself=True)
        embedding += ", for which it prepares these pictures itself"
    else:
        options.only(frozenset(), f"{name}, whose processor says what is seen of a photo")
        preparation = read_processor(processor, name, options)

    def embed(views: list[np.ndarray]) -> Any:
        with normalising_alone(processor):
            return ask(_Batches([{"image": pillow(views)}]), show_progress_bar=False)

    device = home if home.startswith("cuda") else "cpu"
    return adapt_pictures(name, embed, preparation, embedding, device)


class _Batches(list[dict[str, Any]]):
    """Batches of pictures in the form of MTEB's data loaders."""

    dataset = SimpleNamespace(features={"image": None})


def adapt_pictures(
    name: str,
    embed: Callable[[list[np.ndarray]], Any],
    preparation: Preparation,
    embedding: str,
    device: str = "cpu",
) -> Adapted:
    """``embed`` gives a vector for each of a list of pictures uint8 [S, S, 3]; ``embedding`` says what that is."""
    side = preparation.look.size

    def vectors(views: np.ndarray) -> np.ndarray:
        return as_array(embed(list(views)))

    output = attempt(name, preparation, lambda: vectors(np.zeros((1, side, side, 3), np.uint8)))
    if output.ndim != 2 or len(output) != 1:
        raise UserError(
            f"{name} gave {list(output.shape)} for a list of one picture, not a vector of each: [1, D]."
        )
    lines, guesses = (preparation.describe(), embedding), preparation.guesses()
    return Adapted(name, preparation.look, output.shape[1], lines, vectors, None, device, guesses)


def pillow(views: list[np.ndarray]) -> list[Image.Image]:
    """The same pictures as Pillow's."""
    return [Image.fromarray(view) for view in views]


def as_array(answer: Any) -> np.ndarray:
    """float32 of an array or a tensor, or of a list of such, which may want gradients or lie on a GPU."""
    if isinstance(answer, (list, tuple)):
        return np.stack([as_array(one) for one in answer]) if answer else np.zeros((0, 0))
    if answer.is_complex() if hasattr(answer, "detach") else np.iscomplexobj(answer):
        raise UserError("The model gave complex numbers, which no cosine compares; return real ones.")
    return np.asarray(answer.detach().float().cpu() if hasattr(answer, "detach") else answer, np.float32)


def is_function(model: object) -> bool:
    """Whether it is a function: no network, and nothing with ``encode``."""
    return callable(model) and not hasattr(model, "parameters") and not hasattr(model, "encode")


def embed_whole(
    model: Callable[[list[np.ndarray]], Any], photos: Iterator[np.ndarray], batch_size: int
) -> np.ndarray:
    """What a function makes of whole photos, uint8 [H, W, 3] each: float32 [N, D] of unit length."""
    check, parts = AloneCheck(), list[np.ndarray]()
    while batch := list(islice(photos, batch_size)):
        vectors = as_array(model(batch))
        if vectors.ndim != 2 or len(vectors) != len(batch):
            raise UserError(
                f"The model gave {list(vectors.shape)} for {len(batch)} photos, not a vector of each."
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise UserError("The model gave a vector that is zero or not finite; it has no direction.")
        check("The model", batch, vectors, lambda pictures: as_array(model(pictures)))
        parts.append(vectors / lengths)
    if not parts:
        raise UserError("There are no photos to embed.")
    return np.concatenate(parts)


MEMBERS = {
    "mteb": as_kind(
        adapt_mteb,
        "the name of an image model in MTEB's registry",
        OPTIONS=LOOKS,
        OF="mteb",
        of_object=mteb_encoder,
    ),
    "sentence_transformers": as_kind(
        adapt_sentence_transformers,
        "the name of a model on huggingface.co, or a folder",
        OPTIONS=frozenset(),
        OF="sentence_transformers",
        of_object=sentence_transformer,
    ),
}
