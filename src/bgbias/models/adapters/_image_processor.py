"""From an image processor of transformers to a preparation; what is more than resizing, cropping and normalising is refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from PIL import Image

from bgbias import seeds
from bgbias.compute.lazy import torch
from bgbias.errors import UserError
from bgbias.models.adapters import Options
from bgbias.models.adapters._preparation import Preparation, prepared
from bgbias.models.look import Interpolation, Look
from bgbias.models.preprocess import Preprocess

INTERPOLATIONS: dict[int, Interpolation] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
# transformers' own resize by torchvision is up to a grey level beside Pillow's.
ROUNDING = 0.02


def preparation(processor: Any, name: str, options: Options) -> Preparation:
    """The processor's, with what ``options`` say in its place.

    A photo of noise goes through both: where they differ by more than rounding, which a look cannot express (borders, tiles,
    several sizes), that is an error.
    """
    mean, std = (_three(processor, "image_mean", 0.0), _three(processor, "image_std", 1.0))
    scale = float(processor.rescale_factor) if getattr(processor, "do_rescale", True) else 1.0
    order = "bgr" if getattr(processor, "do_flip_channel_order", False) else "rgb"
    look, normalise = _look(processor, name), Preprocess(scale, mean, std, order)
    shape = (look.resize + 37, look.resize + 101, 3)
    photo = seeds.generator("image processor").integers(0, 256, shape, np.uint8)
    theirs = processor(images=Image.fromarray(photo), return_tensors="pt")["pixel_values"][0].float()
    ours = normalise(torch.from_numpy(np.array(look(photo))).permute(2, 0, 1)[None])[0]
    if theirs.shape != ours.shape or (theirs - ours).abs().mean() > ROUNDING * ours.std():
        raise UserError(
            f"{name}: {type(processor).__name__} does more to photos than {look} and normalising, so that this would be another"
            " model. Write a function that prepares pictures itself, and name it: --model file.py:function."
        )
    return prepared(Preparation(look, normalise, f"{type(processor).__name__} of transformers"), options)


def of(model: Any) -> Any:
    """The image processor behind a model's ``processor``; None where there is none of transformers."""
    processor = getattr(model, "processor", None)
    processor = getattr(processor, "image_processor", processor)
    return processor if hasattr(processor, "rescale_factor") else None


@contextmanager
def normalising_alone(processor: Any) -> Iterator[None]:
    """For pictures that were cut out by its look: the processor would resize them once more, and crop them again."""
    steps = {
        name: getattr(processor, name) for name in ("do_resize", "do_center_crop") if hasattr(processor, name)
    }
    try:
        for name in steps:
            setattr(processor, name, False)
        yield
    finally:
        for name, before in steps.items():
            setattr(processor, name, before)


def _three(processor: Any, key: str, neutral: float) -> tuple[float, float, float]:
    values = getattr(processor, key, None)
    if not getattr(processor, "do_normalize", False) or values is None:
        return neutral, neutral, neutral
    r, g, b = map(float, values)
    return r, g, b


def _look(processor: Any, name: str) -> Look:
    def side(where: Any, key: str) -> int | None:
        value = where.get(key) if isinstance(where, dict) else getattr(where, key, None)
        return None if value is None else int(value)

    resized, cropped = processor.size, getattr(processor, "crop_size", None)
    short, height, width = (side(resized, key) for key in ("shortest_edge", "height", "width"))
    crop = side(cropped, "height") if getattr(processor, "do_center_crop", False) else None
    resample = getattr(processor, "resample", None)
    interpolation = "bilinear" if resample is None else INTERPOLATIONS.get(int(resample), "bilinear")
    share = getattr(processor, "crop_pct", None)
    if share and short and crop is None:  # ConvNeXt's: a crop up to 384 pixels, both sides from there on
        squash = short >= 384
        return Look(short, short if squash else int(short / share), squash, interpolation)
    if short and crop and not side(resized, "longest_edge"):
        return Look(crop, short, False, interpolation)
    if height and height == width:
        return Look(crop or height, height, True, interpolation)
    raise UserError(
        f"{name} looks at photos of any shape ({type(processor).__name__}: {resized}), which has no square to compare. Write a"
        " function that prepares pictures itself, and name it: --model file.py:function."
    )
