"""Models of sentence-transformers that embed images, by name or folder: ``sentence-transformers:clip-ViT-B-32``.

They are given whole pictures and prepare them by their own image processor, which says what is seen of a photo.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bgbias.compute.device import pick
from bgbias.errors import UserError
from bgbias.models.adapters import Adapted, Options, _image_processor, _pictures
from bgbias.models.adapters._library import asked, needed
from bgbias.models.adapters._preparation import Preparation, usual

OF = "sentence_transformers"
TAKES = "the name of a model on huggingface.co, or a folder"
OPTIONS: frozenset[str] = frozenset()


def adapt(which: str, options: Options) -> Adapted:
    """The model on the device."""
    library = needed("sentence_transformers", "sentence_transformers")
    folder = Path(which)
    if which.startswith((".", "/", "~")) and not folder.is_dir():
        raise UserError(f"The folder {which} is missing; correct --model.")
    owned = which if "/" in which else f"sentence-transformers/{which}"
    source = which if folder.is_dir() else f"https://huggingface.co/{owned}"
    name, device = f"sentence-transformers:{which}", pick(options.device)
    model = asked(name, source, lambda: library.SentenceTransformer(which, device=device))
    return of_object(model, options, name)


def of_object(model: Any, options: Options, name: str) -> Adapted:
    """A model at hand, where it lies."""
    if not model.supports("image"):
        raise UserError(
            f"{name} embeds {' and '.join(map(str, model.modalities))}, no images; choose another one."
        )

    def embed(views: list[np.ndarray]) -> Any:
        return model.encode(_pictures.pillow(views), batch_size=len(views), show_progress_bar=False)

    told = "embedding: its encode(), which prepares pictures by the same processor"
    return _pictures.adapted(name, embed, _preparation(model, name), (told,), str(model.device))


def _preparation(model: Any, name: str) -> Preparation:
    processor = getattr(model[0], "processor", None)
    processor = getattr(processor, "image_processor", processor)
    if not hasattr(processor, "size"):
        return replace(usual(Options()), normalise=None)
    return _image_processor.preparation(processor, name, Options())
