"""Vision models of transformers, by name or folder: ``transformers:openai/clip-vit-base-patch32``, ``transformers:my_folder``.

The embedding is the model's own where it has one (image features of CLIP and SigLIP, DINOv2's pooled output). Of others it is the
class token, or the mean where there is none: a pooler with a dense layer is often untrained, and is left out. Photos are prepared
as the model's image processor says.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bgbias.compute.lazy import Tensor, torch
from bgbias.errors import UserError
from bgbias.models.adapters import LOOKS, NORMALISES, Adapted, Options
from bgbias.models.adapters._library import folder_or_page, import_extra, load_source, silence
from bgbias.models.adapters._network import adapt_network, attempt, fill, pool
from bgbias.models.adapters._preparation import Preparation, read_processor, usual

OF = "transformers"
OFFLINE = "Fetch it where there is a network, or say what it would: --size, --mean and --std."
TAKES = "the name of a model on huggingface.co, or a folder"
OPTIONS = LOOKS | NORMALISES | {"weights", "pooling"}
CLASS_TOKENS = {"cls_token", "class_token", "class_embedding"}  # as parameters are called
PROCESSORS = ("preprocessor_config.json", "processor_config.json")


def adapt(which: str, options: Options) -> Adapted:
    """The model in float32, whatever precision it was saved in; the code of others is not executed."""
    import_extra("transformers", "transformers")
    name = f"transformers:{which}"
    source = folder_or_page(which)
    with silence():
        network, notes = load_source(name, source, lambda: _create(which, name, options))
        notes = notes or (f"weights: as published ({source})",)
        return _adapt(network, _prepare(which, network, name, options), name, options, notes)


def of_object(model: Any, options: Options, name: str) -> Adapted:
    """A model at hand, with the image processor of the place that it was loaded from."""
    options.only(OPTIONS - {"weights"}, name)
    network = copy.deepcopy(model)
    if "ImageClassification" in type(model).__name__:
        network = network.base_model
    _drop_untrained_pooler(network)
    page = getattr(model, "name_or_path", "")
    with silence():
        preparation = _prepare(page, network, name, options) if page else usual(options, _find_side(network))
        return _adapt(network, preparation, name, options, ())


def _create(which: str, name: str, options: Options) -> tuple[Any, tuple[str, ...]]:
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


def _prepare(which: str, network: Any, name: str, options: Options) -> Preparation:
    import transformers

    folder = Path(which)
    if folder.is_dir() and not any((folder / file).is_file() for file in PROCESSORS):
        return usual(options, _find_side(network))
    get = partial(transformers.AutoImageProcessor.from_pretrained, which, backend="pil")
    try:
        processor = load_source(f"The image processor of {name}", folder_or_page(which), get, OFFLINE)
    except UserError:
        if {"size", "mean", "std"} <= set(options.list_given()):
            return usual(options)
        raise
    return read_processor(processor, name, options)


def _find_side(network: Any) -> int | None:
    config = getattr(network.config, "vision_config", network.config)
    side = getattr(config, "image_size", None)
    return side if isinstance(side, int) else None


def _adapt(
    network: Any, preparation: Preparation, name: str, options: Options, notes: tuple[str, ...]
) -> Adapted:
    side = preparation.look.size
    more = {}
    parameters = inspect.signature(getattr(network, "get_image_features", network.forward)).parameters
    if side != _find_side(network) and "interpolate_pos_encoding" in parameters:
        more["interpolate_pos_encoding"] = True
    network.eval()
    run, embedding = attempt(
        name, preparation, lambda: _choose_embedding(network, options.pooling, side, more)
    )

    return adapt_network(
        name, network, preparation, options, notes, embedding, run=lambda x: run(pixel_values=x, **more)
    )


def _choose_embedding(
    network: Any, pooling: str | None, side: int, more: dict[str, bool]
) -> tuple[Callable[..., Tensor], str]:
    """From pixel values to vectors [B, D], and that in words; what kind of output there is, is seen from a black picture."""
    if pooling is None and hasattr(network, "get_image_features"):
        projected = " (projected)" if hasattr(network, "visual_projection") else ""
        words = f"embedding: its image features{projected}"
        return lambda **inputs: _find_vectors(network.get_image_features(**inputs)), words
    tower = network if pooling is None else getattr(network, "vision_model", network)
    unprojected = ", without CLIP's projection" if hasattr(network.config, "projection_dim") else ""
    weight = next(network.parameters())
    with torch.inference_mode():
        output = tower(pixel_values=weight.new_zeros(1, 3, side, side), **more)
    if pooling is None and _find_vectors(output) is not None:
        is_projected = getattr(output, "image_embeds", None) is not None
        words = f"embedding: its pooled output{', projected' if is_projected else unprojected}"
        return lambda **inputs: _find_vectors(tower(**inputs)), words
    how = pooling
    if how is None and output.last_hidden_state.ndim == 3:
        parameters = {name.rpartition(".")[2] for name, _ in tower.named_parameters()}
        how = "cls" if parameters & CLASS_TOKENS else "mean"
    _, words = pool(output.last_hidden_state, how)
    return lambda **inputs: pool(tower(**inputs).last_hidden_state, how)[0], words + unprojected


def _find_vectors(output: Any) -> Any:
    """Vectors [B, D] of an output that has them."""
    for key in ("image_embeds", "pooler_output"):
        if (vectors := getattr(output, key, None)) is not None:
            return vectors.flatten(1)
    return output if hasattr(output, "ndim") else None
