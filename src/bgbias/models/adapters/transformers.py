"""Vision models of transformers, by name or folder: ``transformers:openai/clip-vit-base-patch32``, ``transformers:my_folder``.

The embedding is the model's own where it has one (image features of CLIP and SigLIP, DINOv2's pooler); of classifiers with a
class token it is that token, since their pooler is often untrained. Photos are prepared as the model's image processor says.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bgbias.errors import UserError
from bgbias.models.adapters import LOOKS, NORMALISES, Adapted, Options, _image_processor, _pooling
from bgbias.models.adapters._library import asked, needed
from bgbias.models.adapters._network import adapted
from bgbias.models.adapters._preparation import Preparation, usual
from bgbias.models.adapters._weights import fill

if TYPE_CHECKING:
    from torch import Tensor

OF = "transformers"
TAKES = "the name of a model on huggingface.co, or a folder"
OPTIONS = LOOKS | NORMALISES | {"weights", "pooling"}
PROCESSORS = ("preprocessor_config.json", "processor_config.json")


def adapt(which: str, options: Options) -> Adapted:
    """The model in float32, whatever precision it was saved in; the code of others is not executed."""
    needed("transformers", "transformers")
    name = f"transformers:{which}"
    folder = Path(which)
    if which.startswith((".", "/", "~")) and not folder.is_dir():
        raise UserError(f"The folder {which} is missing; correct --model.")
    source = which if folder.is_dir() else f"https://huggingface.co/{which}"
    with _quietly():
        network, told = asked(name, source, lambda: _created(which, name, options))
        told = told or (f"weights: as published ({source})",)
        return _adapted(network, _preparation(which, network, name, options), name, options, told)


def of_object(model: Any, options: Options, name: str) -> Adapted:
    """A model at hand, with the image processor of the place that it was loaded from."""
    options.only(OPTIONS - {"weights"}, name)
    network = copy.deepcopy(model)
    if "ImageClassification" in type(model).__name__:
        network = network.base_model
    _drop_untrained_pooler(network)
    place = getattr(model, "name_or_path", "")
    with _quietly():
        known = _preparation(place, network, name, options) if place else usual(options, _side(network))
        return _adapted(network, known, name, options, ())


def _created(which: str, name: str, options: Options) -> tuple[Any, tuple[str, ...]]:
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(which)
    kind: Any = transformers.AutoModel
    projecting = [a for a in config.architectures or () if a.endswith("VisionModelWithProjection")]
    if projecting:
        kind = getattr(transformers, projecting[0])
    if options.weights is not None:
        network = (kind(config) if projecting else kind.from_config(config)).float()
        _drop_untrained_pooler(network)
        return network, fill(network, options.weights, name)
    network, info = kind.from_pretrained(which, dtype=torch.float32, output_loading_info=True)
    dropped = _drop_untrained_pooler(network)
    missing = [key for key in sorted(info["missing_keys"]) if not (dropped and key.startswith("pooler."))]
    if missing:
        raise UserError(
            f"{name} lacks {len(missing)} of its network's tensors ({missing[0]}, ...), which would be random. Is it another"
            " kind of network? Name the right one."
        )
    return network, ()


def _drop_untrained_pooler(network: Any) -> bool:
    """Whether there was a dense layer with tanh, which classifiers are saved without and which nothing here asks for."""
    if hasattr(getattr(network, "pooler", None), "dense"):
        network.pooler = None
        return True
    return False


def _preparation(which: str, network: Any, name: str, options: Options) -> Preparation:
    import transformers

    folder = Path(which)
    if folder.is_dir() and not any((folder / file).is_file() for file in PROCESSORS):
        return usual(options, _side(network))
    processor = asked(
        name,
        which if folder.is_dir() else f"https://huggingface.co/{which}",
        lambda: transformers.AutoImageProcessor.from_pretrained(which, backend="pil"),
    )
    return _image_processor.preparation(processor, name, options)


def _side(network: Any) -> int | None:
    """The input's side that the configuration tells."""
    config = getattr(network.config, "vision_config", network.config)
    side = getattr(config, "image_size", None)
    return side if isinstance(side, int) else None


def _adapted(
    network: Any, preparation: Preparation, name: str, options: Options, told: tuple[str, ...]
) -> Adapted:
    from torch import nn

    run, words = _embedding(network, options.pooling)
    more = {}
    asks = inspect.signature(getattr(network, "get_image_features", network.forward)).parameters
    if preparation.look.size != _side(network) and "interpolate_pos_encoding" in asks:
        more["interpolate_pos_encoding"] = True

    class Embedding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, x: Tensor) -> Tensor:
            return run(x, **more)

    return adapted(name, Embedding(), preparation, options, told, f"embedding: {words}")


def _embedding(network: Any, pooling: str | None) -> tuple[Callable[..., Tensor], str]:
    """From pixel values to vectors [B, D], and that in words."""
    if pooling is not None:
        tower = getattr(network, "vision_model", network)
        how = "the first token" if pooling == "cls" else "the mean of all tokens"
        return lambda x, **more: _pooling.pooled(
            tower(pixel_values=x, **more).last_hidden_state, pooling
        ), how
    if hasattr(network, "get_image_features"):
        return lambda x, **more: _features(
            network.get_image_features(pixel_values=x, **more)
        ), "its image features"

    def own(x: Tensor, **more: Any) -> Tensor:
        output = network(pixel_values=x, **more)
        found = _features(output)
        return found if found is not None else _pooling.pooled(output.last_hidden_state, _cls(output))

    has_pooler = getattr(network, "pooler", None) is not None
    words = "its pooled output" if has_pooler else "its pooled output, or else the first token"
    return own, words


def _cls(output: Any) -> str | None:
    return "cls" if output.last_hidden_state.ndim == 3 else None


def _features(output: Any) -> Any:
    """Vectors [B, D] of an output that has them."""
    for key in ("image_embeds", "pooler_output"):
        if (found := getattr(output, key, None)) is not None:
            return found.flatten(1)
    return output if hasattr(output, "ndim") else None


@contextmanager
def _quietly() -> Iterator[None]:
    """Without bars and notes of transformers, which a report has no place for."""
    from transformers.utils import logging

    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
