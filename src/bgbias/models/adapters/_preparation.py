"""From a photo to a network's input, as its library says it and as a person corrects it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bgbias.errors import UserError
from bgbias.models.adapters import Options
from bgbias.models.look import Look
from bgbias.models.preprocess import Preprocess

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Preparation:
    """``normalise`` is None where the model does that itself; ``source``: who says all this."""

    look: Look
    normalise: Preprocess | None
    source: str

    def told(self) -> str:
        """A line for people."""
        seen = f"photos: {self.look}"
        if self.normalise is not None:
            scale = self.normalise.scale
            mean, std = (
                " ".join(f"{value / (255 * scale):.4g}" for value in values)
                for values in (self.normalise.mean, self.normalise.std)
            )
            seen += f"; mean {mean}, std {std}"
        return f"{seen} ({self.source})"


def normalised(mean: tuple[float, ...], std: tuple[float, ...], scale: float = 1 / 255) -> Preprocess:
    """That of libraries whose colours are in 0..1 before they are normalised."""
    (r, g, b), (of_r, of_g, of_b) = map(float, mean), map(float, std)
    return Preprocess(scale, (r, g, b), (of_r, of_g, of_b))


def square(height: int | None, width: int | None, name: str) -> int | None:
    """The side of the pictures that a model looks at, None where any will do."""
    if height != width:
        raise UserError(
            f"{name} looks at pictures of {width} x {height} pixels, not at squares; choose another one."
        )
    return height


def fixed(side: int | None, options: Options, name: str) -> int | None:
    """The side of a model that takes no other, which options may repeat."""
    if side is not None and options.size not in (None, side):
        raise UserError(
            f"{name} takes pictures of {side} pixels and no others; leave --size {options.size} out."
        )
    return side


def unbordered(has_borders: bool, side: int, options: Options, name: str) -> None:
    """Refuse a preparation that puts borders around photos, unless options say another one."""
    if has_borders and options.resize is None and options.squash is None:
        raise UserError(
            f"{name} puts borders around photos, which is not done here. Say --squash, or --resize {side}."
        )


def usual(options: Options, size: int | None = None) -> Preparation:
    """What most networks that were trained on ImageNet see, for models that tell nothing but perhaps their input's side.

    The middle is that of the study's photos: audit and study give the same network the same pixels.
    """
    side = size or 224
    look = Look(side, side * 256 // 224)
    return prepared(
        Preparation(look, normalised(MEAN, STD), "nothing in the model tells it: as usual for ImageNet"),
        options,
    )


def prepared(own: Preparation, options: Options) -> Preparation:
    """A preparation with what ``options`` say in its place; another size keeps the share of the photo that is seen."""
    look, normalise = own.look, own.normalise
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
        scaled = 255 * normalise.scale
        mean, std = (tuple(v / scaled for v in values) for values in (normalise.mean, normalise.std))
        chosen = normalised(options.mean or mean, options.std or std)
        normalise = replace(chosen, order=normalise.order)
    changed = [
        f"--{n}" for n in options.given() if n in ("size", "resize", "squash", "interpolation", "mean", "std")
    ]
    source = f"{own.source}; given: {', '.join(changed)}" if changed else own.source
    return Preparation(look, normalise, source)
