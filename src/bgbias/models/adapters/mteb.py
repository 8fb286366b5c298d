"""Image encoders of the embedding benchmark MTEB, by the names of its registry: ``mteb:openai/clip-vit-base-patch32``.

They are given pictures in batches, as MTEB's image tasks make them. Where they have an image processor of transformers, it says
what is seen of a photo; else they prepare the pictures themselves.
"""

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from bgbias.compute.device import pick
from bgbias.errors import UserError
from bgbias.models.adapters import LOOKS, Adapted, Options, _image_processor, _pictures
from bgbias.models.adapters._library import PAGE, asked, named, needed
from bgbias.models.adapters._preparation import usual

OF = "mteb"
TAKES = "the name of an image model in MTEB's registry"
OPTIONS = LOOKS
TASK = "CIFAR10Clustering"  # encoders are told which task they are asked for: one of images alone
OFFLINE = "Fetch it where there is a network, and copy that machine's cache of the hub here (HF_HOME)."
LISTING = "python -c \"import mteb; print(*(m.name for m in mteb.get_model_metas(modalities=['image'])))\""


def adapt(which: str, options: Options) -> Adapted:
    """The encoder that MTEB builds, with the revision that MTEB pins."""
    library = needed("mteb", "mteb")
    name, device = f"mteb:{which}", pick(options.device)
    known = {meta.name: meta for meta in library.get_model_metas()}
    named(which, known, "model of MTEB", LISTING)
    if "image" not in known[which].modalities:
        raise UserError(
            f"{name} embeds {' and '.join(known[which].modalities)}, no images. Those that do: {LISTING}"
        )
    model = asked(name, PAGE + which, lambda: library.get_model(which, device=device), OFFLINE)
    return _adapted(model, options, name)


def of_object(model: Any, options: Options, name: str) -> Adapted:
    """An encoder at hand, where it lies."""
    options.at_home(str(getattr(model, "device", "a device of its own")), name)
    return _adapted(model, options, name)


def _adapted(model: Any, options: Options, name: str) -> Adapted:
    """By ``get_image_embeddings``, which most encoders have, or by ``encode`` alone."""
    if (ask := getattr(model, "get_image_embeddings", None)) is None:
        task = needed("mteb", "mteb").get_task(TASK)
        ask = partial(model.encode, task_metadata=task.metadata, hf_split="test", hf_subset="default")
    processor = _image_processor.of(model)
    if processor is None:
        preparation = usual(options, normalises_itself=True)
        told = "embedding: its image embeddings, for which it prepares these pictures itself"
    else:
        options.only(frozenset(), f"{name}, whose processor says what is seen of a photo")
        preparation = _image_processor.preparation(processor, name, options)
        told = "embedding: its image embeddings"

    def embed(views: list[np.ndarray]) -> Any:
        with _image_processor.normalising_alone(processor):
            return ask(_Batches([{"image": _pictures.pillow(views)}]), show_progress_bar=False)

    return _pictures.adapted(name, embed, preparation, (told,))


class _Batches(list[dict[str, Any]]):
    """Batches of pictures in the form of MTEB's data loaders."""

    dataset = SimpleNamespace(features={"image": None})
