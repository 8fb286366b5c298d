"""Models that somebody brings, each made a function from pictures to vectors: ``<kind>:<which>``, a file, or a Python object.

A file here is a kind. It has ``TAKES``, what stands behind the colon, in words; ``OPTIONS``, the fields of ``Options`` that mean
something to it; and ``adapt(which, options)``, which gives an ``Adapted`` model or a ``UserError`` with the step to take. What
needs a library imports it inside (``_library.py``). Nothing is fetched where ``options.weights`` names a file.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bgbias import plugins, seeds
from bgbias.compute.device import autocast
from bgbias.compute.lazy import Tensor, torch
from bgbias.errors import UserError
from bgbias.models.adapters._calls import SAME, SAME_ROUNDED, AloneCheck, BatchSize, failing
from bgbias.models.look import Interpolation, Look

SHARED = {
    "_pictures": ("mteb", "sentence_transformers"),
    "_whole_networks": ("exported", "onnx", "tflite", "torchscript"),
    "_zoos": ("open_clip", "timm", "torchvision"),
}
LOOKS = frozenset({"size", "resize", "squash", "interpolation"})
NORMALISES = frozenset({"mean", "std"})
RUNNING = frozenset({"device", "batch_size", "workers", "precision"})
PRECISIONS = ("float32", "bfloat16", "float16")
# Files that are a whole model by themselves.
BY_SUFFIX = {".safetensors": "run", ".onnx": "onnx", ".pt2": "exported", ".tflite": "tflite"}
WEIGHTS_ALONE = (".pt", ".pth", ".ckpt", ".bin")
Vectors = Callable[[np.ndarray], Any]
UNIT = 1e-6  # vectors whose length differs from 1 by less stay as they are


@dataclass(frozen=True)
class Options:
    """What a person says of her model; None: as the model itself says.

    ``weights``: a file of weights, in place of those that would be fetched. ``size``, ``resize``, ``squash`` and
    ``interpolation``: see ``Look``. ``mean``, ``std``: of the colours R, G, B in 0..1. ``pooling``: ``cls`` or ``mean``, how
    tokens or a feature map become one vector. ``device``: cpu, cuda, cuda:<number> or auto.

    ``batch_size``: pictures that go through the model at once; fewer where its memory is short.
    ``workers``: processes that prepare pictures. ``precision``: float32, bfloat16 or float16 (on a
    GPU alone), by autocast; gradients are computed in float32.
    """

    weights: Path | None = None
    size: int | None = None
    resize: int | None = None
    squash: bool | None = None
    interpolation: Interpolation | None = None
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None
    pooling: str | None = None
    device: str = "auto"
    batch_size: int | None = None
    workers: int | None = None
    precision: str | None = None

    def __post_init__(self) -> None:
        for name in ("size", "resize", "batch_size", "workers"):
            if (value := getattr(self, name)) is not None and value < 1:
                what = "a number of pixels, " * (name in LOOKS)
                raise UserError(f"--{name.replace('_', '-')} is {value}; it is {what}at least 1.")
        if self.precision not in (None, *PRECISIONS):
            choice = ", ".join(PRECISIONS)
            raise UserError(f"--precision '{self.precision}' is unknown; there are {choice}.")
        for name in ("mean", "std"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, str) or np.shape(value) != (3,)):
                raise UserError(f"--{name} takes three numbers, one for each of R, G and B, not {value}.")
        if self.std is not None and min(self.std) <= 0:
            raise UserError("--std takes numbers above 0.")
        if self.pooling not in (None, "cls", "mean"):
            raise UserError(f"--pooling '{self.pooling}' is unknown; there are cls and mean.")
        if self.weights is not None:
            object.__setattr__(self, "weights", Path(self.weights))
            if not self.weights.is_file():
                raise UserError(f"The weights file {self.weights} is missing; correct --weights.")

    def list_given(self) -> tuple[str, ...]:
        """The names of what is said of the model, not of how it runs."""
        names = (f.name for f in fields(self) if f.name not in RUNNING)
        return tuple(name for name in names if getattr(self, name) is not None)

    def only(self, allowed: frozenset[str], whose: str) -> None:
        """Refuse what means nothing to this model."""
        if wrong := [name for name in self.list_given() if name not in allowed]:
            takes = ", ".join(f"--{name}" for name in sorted(allowed)) or "no options"
            raise UserError(f"--{wrong[0]} means nothing to {whose}, which takes {takes}. Leave it out.")

    def at_home(self, device: str, whose: str) -> None:
        """Refuse another device than that of a model at hand, which is not moved."""
        if self.device not in ("auto", device, device.partition(":")[0]):
            raise UserError(
                f"{whose} lies on {device}, and --device says {self.device}: move it, or leave --device out."
            )

    def refuse_precision(self, whose: str) -> None:
        """Refuse a precision for what is not computed by torch here."""
        if self.precision not in (None, "float32"):
            raise UserError(f"{whose} computes in its own precision; leave --precision {self.precision} out.")


def as_kind(adapt: Callable[[str, Options], Adapted], takes: str, **facts: Any) -> dict[str, Any]:
    """What a kind says that shares its file with others: ``TAKES``, ``adapt``, ``facts`` and a docstring."""
    return {"__doc__": adapt.__doc__, "TAKES": takes, "adapt": adapt, **facts}


OPTION_NAMES = tuple(field.name for field in fields(Options))


@dataclass(frozen=True)
class Adapted:
    """A model as a function from what it sees to vectors.

    ``dim``: D, numbers in a vector. ``network``: the differentiable function from RGB grey levels 0..255, float [B, 3, S, S], to
    [B, D]; None where there are no gradients. ``notes``: what a reader of its numbers must know, a line each. ``guesses``:
    sentences on what was guessed and may make all numbers wrong. ``alternatives``: ``vectors`` as they are by other options.
    ``module``: the network of torch, if it is at hand, for whoever looks into it. ``batch``, ``workers``, ``precision``: see
    ``Options``.
    """

    name: str
    look: Look
    dim: int
    notes: tuple[str, ...] = field(repr=False)
    vectors: Vectors = field(repr=False)
    network: Callable[[Tensor], Tensor] | None = field(default=None, repr=False)
    device: str = "cpu"
    guesses: tuple[str, ...] = field(default=(), repr=False)
    alternatives: Mapping[str, Vectors] = field(default_factory=dict, repr=False)
    module: Any = field(default=None, repr=False)
    batch: BatchSize = field(default_factory=BatchSize, repr=False, compare=False)
    workers: int | None = None
    precision: str = "float32"
    _check: AloneCheck = field(default_factory=AloneCheck, init=False, repr=False, compare=False)

    @property
    def told(self) -> tuple[str, ...]:
        """The former name of ``notes``, which will go."""
        warnings.warn("the attribute `told` of a model is called `notes`", DeprecationWarning, stacklevel=2)
        return self.notes

    def embed(self, views: np.ndarray) -> np.ndarray:
        """Vectors float32 [B, D], not brought to unit length, of views uint8 [B, S, S, 3]; what is no number, or depends on the
        other views (``AloneCheck``), is an error, and any error of the model's own is a UserError that names it.
        """
        parts: list[np.ndarray] = []
        rest = views
        while len(rest) or not parts:
            parts.append(self.batch.run(self.name, len(rest), partial(self._embed, rest)))
            rest = rest[len(parts[-1]) :]
        return np.concatenate(parts)

    def _embed(self, views: np.ndarray, count: int) -> np.ndarray:
        views = views[:count]
        on = f"{len(views)} pictures of {views.shape[1]} x {views.shape[2]} pixels"
        with failing(f"{self.name} fails on {on}"):
            vectors = self._call(views)
        if vectors.shape != (len(views), self.dim):
            raise UserError(
                f"{self.name} gave {list(vectors.shape)} for {len(views)} pictures, where [{len(views)}, {self.dim}] is expected."
            )
        if not np.isfinite(vectors).all():
            raise UserError(
                f"{self.name} gave numbers that are not finite; check its weights, and its precision (float32)."
            )
        same = SAME if self.precision == "float32" else SAME_ROUNDED
        self._check(self.name, views, vectors, self._call, same)
        return vectors

    def _call(self, views: np.ndarray) -> np.ndarray:
        with autocast(self.device, self.precision):
            return np.asarray(self.vectors(views), np.float32)


def embed_unit(model: Adapted, views: np.ndarray) -> np.ndarray:
    """Embeddings float32 [B, D] of unit length, of views uint8 [B, S, S, 3]; one of zeros is an error."""
    vectors = model.embed(views)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    if not lengths.all():
        raise UserError(f"{model.name} gave a vector of zeros, which has no direction; check its weights.")
    is_apart = np.abs(lengths - 1) > UNIT
    return np.where(is_apart, vectors / lengths, vectors).astype(np.float32)


def load(model: object, options: Options | None = None) -> Adapted:
    """The model behind ``<kind>:<which>``, a file's name or an object of Python's, tried out on two pictures.

    A misspelt name, a missing library or file, weights that do not fit, and vectors that are none are a UserError.
    """
    options = options or Options()
    if isinstance(model, Adapted):
        if options != Options():
            raise UserError(f"{model.name} was loaded with its options before; leave others out.")
        return model
    if isinstance(model, (str, Path)):
        kind, which = _split(str(model))
        adapter = plugins.load("adapters", kind)
        if not which:
            raise UserError(f"'{model}' lacks what stands behind the colon: {adapter.TAKES}.")
        options.only(adapter.OPTIONS, str(model))
        adapted = adapter.adapt(which, options)
    else:
        adapted = plugins.load("adapters", "python").of_object(model, options)
    return _try(_configure(adapted, options))


def _configure(model: Adapted, options: Options) -> Adapted:
    precision = options.precision or "float32"
    if precision == "float16" and model.device == "cpu":
        raise UserError(
            "--precision float16 is for GPUs, and the processor is slower with it than with float32:"
            " take bfloat16 or float32."
        )
    notes = model.notes if precision == "float32" else (*model.notes, f"precision: {precision}")
    batch = BatchSize(options.batch_size) if options.batch_size else model.batch
    return replace(model, notes=notes, batch=batch, workers=options.workers, precision=precision)


def _split(spec: str) -> tuple[str, str]:
    """Kind, as its file is called, and what is behind the colon."""
    kind, colon, which = spec.partition(":")
    kinds = plugins.names("adapters")
    if colon and kind.replace("-", "_") in kinds:
        return kind.replace("-", "_"), which
    file, _, _ = spec.rpartition(":")
    if file.endswith(".py") or plugins.load("adapters", "python").is_module(file):
        return "python", spec
    suffix = Path(spec).suffix
    if suffix in BY_SUFFIX:
        return BY_SUFFIX[suffix], spec
    if suffix == ".py":
        raise UserError(f"Say which function of {spec} makes the model: {spec}:<function>.")
    if suffix in WEIGHTS_ALONE:
        raise UserError(
            f"{spec} does not tell what network its weights are of. Name both: --model timm:resnet50 --weights {spec};"
            f" or, if it is a whole network, torchscript:{spec}."
        )
    if not colon:
        raise UserError(
            f"'{spec}' does not say whose model it is: timm:{spec}, torchvision:{spec}, ... Kinds are {', '.join(kinds)}."
        )
    return kind, which


def _try(model: Adapted) -> Adapted:
    """The model, if it gives different vectors for two pictures; without its network, if that has no gradients."""
    side = model.look.size
    views = seeds.generator("adapters").integers(0, 256, (2, side, side, 3), np.uint8)
    both = model.embed(views)
    if np.array_equal(both[0], both[1]):
        raise UserError(f"{model.name} gives the same vector for different pictures; check its weights.")
    if model.network is None:
        return model
    # Code under ``torch.no_grad`` and quantised networks do not tell how a picture moves its vector.
    grey = torch.full((1, 3, side, side), 127.5, device=model.device, requires_grad=True)
    with suppress(RuntimeError, NotImplementedError), torch.enable_grad():
        model.network(grey).float().sum().backward()
    if grey.grad is None:
        note = "gradients: none (they are switched off in its code), so that it is looked into by other means"
        return replace(model, network=None, notes=(*model.notes, note))
    return model
