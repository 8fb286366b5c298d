"""From a photo to a network's input, as its library says it and as a person corrects it. What an image processor of transformers
does beyond resizing, cropping and normalising is refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from bgbias import seeds
from bgbias.compute.lazy import torch
from bgbias.errors import UserError
from bgbias.models.adapters import LOOKS, NORMALISES, Options
from bgbias.models.look import Interpolation, Look
from bgbias.models.preprocess import IMAGENET, Preprocess

# Mean and standard deviation that networks are usually trained with: ImageNet's, those to -1..1, none, and CLIP's.
USUAL_COLOURS = (
    ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
)

INTERPOLATIONS: dict[int, Interpolation] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
# transformers' own resize by torchvision is up to a grey level beside Pillow's.
ROUNDING = 0.02


@dataclass(frozen=True)
class Preparation:
    """``normalise`` is None where the model does that itself; ``source``: who says all this; ``guessed``: the options whose
    values neither the model nor a person gave; ``given``: those that a person gave; ``of_weights``: whether the source speaks of
    the very weights that are loaded.
    """

    look: Look
    normalise: Preprocess | None
    source: str
    guessed: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    of_weights: bool = True

    def describe(self) -> str:
        """A line for people."""
        text = f"photos: {self.look}"
        if self.normalise is not None:
            mean, std = (" ".join(f"{value:.4g}" for value in values) for values in _unscale(self.normalise))
            text += f"; mean {mean}, std {std}"
        given = f"; given: {', '.join(f'--{name}' for name in self.given)}" if self.given else ""
        return f"{text} ({self.source}{given})"

    def guesses(self) -> tuple[str, ...]:
        """What a reader must know of what was guessed, and how to correct it."""
        if not self.guessed:
            return ()
        values = {"size": f"{self.look.size} pixels", "mean": "ImageNet's mean", "std": "ImageNet's std"}
        assumed = ", ".join(values[name] for name in self.guessed)
        options = ", ".join(f"--{name}" for name in self.guessed)
        whose = "Nobody specified the preparation of photos"
        if not self.of_weights:
            whose, assumed = "The weights do not say how photos are prepared", f"what {self.source} says"
        return (
            f"{whose}; assumed: {assumed}. If the model was trained otherwise, all numbers"
            f" are wrong: give {options} of its training.",
        )

    def alternatives(self) -> dict[str, Preprocess]:
        """Other usual ways to normalise, by the options that choose them; none where mean or std were given."""
        if not {"mean", "std"} <= {*self.guessed}:
            return {}
        others = {}
        for mean, std in USUAL_COLOURS:
            if self.normalise and np.allclose(_unscale(self.normalise), (mean, std)):
                continue
            of_mean, of_std = (" ".join(f"{value:.8g}" for value in values) for values in (mean, std))
            others[f"--mean {of_mean} --std {of_std}"] = normalise_colours(mean, std)
        return others


def normalise_colours(mean: tuple[float, ...], std: tuple[float, ...]) -> Preprocess:
    """That of libraries whose colours are in 0..1 before they are normalised."""
    (r, g, b), (of_r, of_g, of_b) = map(float, mean), map(float, std)
    return Preprocess(1 / 255, (r, g, b), (of_r, of_g, of_b))


def _unscale(normalise: Preprocess) -> tuple[tuple[float, ...], tuple[float, ...]]:
    scaled = 255 * normalise.scale
    return tuple(v / scaled for v in normalise.mean), tuple(v / scaled for v in normalise.std)


def square(height: int | None, width: int | None, name: str) -> int | None:
    """The side of the pictures that a model looks at, None where any will do."""
    if height != width:
        raise UserError(
            f"{name} looks at pictures of {width} x {height} pixels, not at squares; choose another one."
        )
    return height


def usual(options: Options, size: int | None = None, normalises_itself: bool = False) -> Preparation:
    """What most networks that were trained on ImageNet see, for models that tell nothing but perhaps their input's side.

    The middle is that of the study's photos: audit and study give the same network the same pixels.
    """
    side = size or 224
    look = Look(side, side * 256 // 224)
    normalise = None if normalises_itself else IMAGENET
    unsaid = ("size",) * (size is None) + ("mean", "std") * (not normalises_itself)
    guessed = tuple(name for name in unsaid if name not in options.list_given())
    source = "ImageNet defaults, because the model specifies none"
    return replace(apply_options(Preparation(look, normalise, source), options), guessed=guessed)


def apply_options(preparation: Preparation, options: Options) -> Preparation:
    """A preparation with what ``options`` say in its place; another size keeps the share of the photo that is seen."""
    look, normalise = preparation.look, preparation.normalise
    size = options.size or look.size
    squash = look.squash if options.squash is None else options.squash
    share = size if squash and not look.squash else size * look.resize // look.size
    look = replace(
        look,
        size=size,
        resize=options.resize or share,
        squash=squash,
        interpolation=options.interpolation or look.interpolation,
    )
    if normalise is not None and (options.mean or options.std):
        mean, std = _unscale(normalise)
        colours = normalise_colours(options.mean or mean, options.std or std)
        normalise = replace(colours, order=normalise.order)
    given = tuple(name for name in options.list_given() if name in LOOKS | NORMALISES)
    return Preparation(look, normalise, preparation.source, given=given)


def read_processor(processor: Any, name: str, options: Options) -> Preparation:
    """The processor's, with what ``options`` say in its place.

    A photo of noise goes through both: where they differ by more than rounding, which a look cannot express (borders, tiles,
    several sizes), that is an error.
    """
    mean, std = (_read_three(processor, "image_mean", 0.0), _read_three(processor, "image_std", 1.0))
    scale = float(processor.rescale_factor) if getattr(processor, "do_rescale", True) else 1.0
    order = "bgr" if getattr(processor, "do_flip_channel_order", False) else "rgb"
    look, normalise = _read_look(processor, name), Preprocess(scale, mean, std, order)
    shape = (look.resize + 37, look.resize + 101, 3)
    photo = seeds.generator("image processor").integers(0, 256, shape, np.uint8)
    theirs = processor(images=Image.fromarray(photo), return_tensors="pt")["pixel_values"][0].float()
    ours = normalise(torch.from_numpy(np.array(look(photo))).permute(2, 0, 1)[None])[0]
    if theirs.shape != ours.shape or (theirs - ours).abs().mean() > ROUNDING * ours.std():
        raise UserError(
            f"{name}: {type(processor).__name__} does more to photos than {look} and normalising, so that this would be another"
            " model. Write a function that prepares pictures itself, and name it: --model file.py:function."
        )
    return apply_options(Preparation(look, normalise, f"{type(processor).__name__} of transformers"), options)


def image_processor(model: Any) -> Any:
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


def _read_three(processor: Any, key: str, neutral: float) -> tuple[float, float, float]:
    values = getattr(processor, key, None)
    if not getattr(processor, "do_normalize", False) or values is None:
        return neutral, neutral, neutral
    r, g, b = map(float, values)
    return r, g, b


def _read_look(processor: Any, name: str) -> Look:
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
