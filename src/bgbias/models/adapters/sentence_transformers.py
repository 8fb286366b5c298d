"""Models of sentence-transformers that embed images, by name or folder: ``sentence-transformers:clip-ViT-B-32``.

Their image processor says what is seen of a photo, and normalises it.
"""

from typing import Any

import numpy as np

from bgbias.compute.device import pick
from bgbias.errors import UserError
from bgbias.models.adapters import Adapted, Options, _image_processor, _pictures
from bgbias.models.adapters._library import OFFLINE_FOLDER, asked, folder_or_page, needed

OF = "sentence_transformers"
TAKES = "the name of a model on huggingface.co, or a folder"
OPTIONS: frozenset[str] = frozenset()


def adapt(which: str, options: Options) -> Adapted:
    """The model on the device."""
    library = needed("sentence_transformers", "sentence-transformers")
    source = folder_or_page(which, "" if "/" in which else f"sentence-transformers/{which}")
    name, device = f"sentence-transformers:{which}", pick(options.device)
    model = asked(name, source, lambda: library.SentenceTransformer(which, device=device), OFFLINE_FOLDER)
    return _adapted(model, name)


def of_object(model: Any, options: Options, name: str) -> Adapted:
    """A model at hand, where it lies."""
    options.at_home(str(model.device), name)
    return _adapted(model, name)


def _adapted(model: Any, name: str) -> Adapted:
    if not model.supports("image"):
        raise UserError(
            f"{name} embeds {' and '.join(map(str, model.modalities))}, no images; choose another one."
        )

    processor = _image_processor.of(model[0])
    if processor is None:
        raise UserError(
            f"{name} has no image processor of transformers, which would say what is seen of a photo. Write a function that"
            " embeds pictures with it, and name it: --model file.py:function."
        )

    def embed(views: list[np.ndarray]) -> Any:
        with _image_processor.normalising_alone(processor):
            return model.encode(_pictures.pillow(views), batch_size=len(views), show_progress_bar=False)

    preparation = _image_processor.preparation(processor, name, Options())
    modules = ", ".join(type(module).__name__ for module in model)
    told = (f"embedding: its encode() ({modules})",)
    return _pictures.adapted(name, embed, preparation, told, str(model.device))
