"""Image encoders of the embedding benchmark MTEB, by the names of its registry: ``mteb:openai/clip-vit-base-patch32``.

They are given whole pictures, in batches as MTEB's image tasks make them, and prepare them themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from bgbias.compute.device import pick
from bgbias.errors import UserError
from bgbias.models.adapters import LOOKS, Adapted, Options, _image_processor, _pictures
from bgbias.models.adapters._library import asked, named, needed
from bgbias.models.adapters._preparation import Preparation, usual

OF = "mteb"
TAKES = "the name of an image model in MTEB's registry"
OPTIONS = LOOKS
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
    source = f"https://huggingface.co/{which}"
    return of_object(asked(name, source, lambda: library.get_model(which, device=device)), options, name)


def of_object(model: Any, options: Options, name: str) -> Adapted:
    """An encoder at hand."""
    if not hasattr(model, "get_image_embeddings"):
        raise UserError(f"{name} has no get_image_embeddings(), by which MTEB's image encoders are asked.")

    def embed(views: list[np.ndarray]) -> Any:
        return model.get_image_embeddings(_Batches(views), show_progress_bar=False)

    told = "embedding: its get_image_embeddings(), which prepares pictures once more"
    return _pictures.adapted(name, embed, _preparation(model, name, options), (told,))


def _preparation(model: Any, name: str, options: Options) -> Preparation:
    """That of the processor of transformers that most encoders have; else as is said, or usual."""
    processor = getattr(model, "processor", None)
    processor = getattr(processor, "image_processor", processor)
    if hasattr(processor, "size"):
        return replace(_image_processor.preparation(processor, name, options), normalise=None)
    return replace(usual(options), normalise=None)


class _Batches:
    """One batch of pictures in the form of MTEB's data loaders."""

    def __init__(self, views: list[np.ndarray]) -> None:
        self._batch = {"image": _pictures.pillow(views)}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield self._batch

    def __len__(self) -> int:
        return 1
