"""A named grid: which models it has, as products of choices, and what it changes of the protocol."""

from collections.abc import Collection, Iterator, Mapping
from itertools import chain, product
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from bgbias.photos.folds import FOLDS
from bgbias.settings import Names, Strict, each_once
from bgbias.study import variants
from bgbias.study.cell import PRETRAINED, UNTRAINED
from bgbias.study.methods import ON_REPLACED

Once = AfterValidator(each_once)
Values = Annotated[
    tuple[Annotated[variants.Value, BeforeValidator(variants.value)], ...], Field(min_length=1), Once
]


class Sweep(Strict):
    """Settings with several values each. A block has a variant for every combination, called after its values."""

    losses: dict[str, dict[str, Values]] = Field(
        default_factory=dict, description="of losses of the block: `contrastive: {neg_margin: [0.3, 0.5]}`"
    )
    methods: dict[str, dict[str, Values]] = Field(
        default_factory=dict, description="of methods of the block: `attr_frac: {weight: [0.5, 1, 2]}`"
    )
    train: dict[str, Values] = Field(
        default_factory=dict, description="of the training of all its losses: `lr: [1.0e-4, 1.0e-3]`"
    )

    @field_validator("train")
    @classmethod
    def _differs_in_a_grid(cls, settings: dict[str, Values]) -> dict[str, Values]:
        for key in settings.keys() & set(variants.COMMON):
            raise ValueError(variants.common(key))
        return settings


class Block(Strict):
    """A product of choices; a grid is a list of blocks."""

    datasets: Names = Field(min_length=1, description="names under `datasets`")
    backbones: Names = Field(min_length=1, description="names under `backbones`")
    losses: Names = Field((), description="names under `losses`")
    methods: Names = Field(
        (),
        description="options of src/bgbias/training/methods/, or names under `methods`; `<name>+bgaugment` replaces"
        " the backgrounds of its photos as well",
    )
    seeds: Annotated[tuple[Annotated[int, Field(ge=0, le=2**32 - 1)], ...], Once] = Field(
        (), description="one training for each"
    )
    folds: Annotated[tuple[Annotated[int, Field(ge=0, lt=FOLDS)], ...], Once] = Field(
        (0,),
        min_length=1,
        description="which of four folds to train on; all four add a row for their embeddings side by side",
    )
    pretrained: bool = Field(
        False,
        description="add the backbone without any training: its own features as a row, and a row of them under the random"
        " embedding layer that each seed's training starts from; alone, without losses, methods and seeds, the first",
    )
    sweep: Sweep | None = Field(None, description="settings with several values, each combination a model")

    @model_validator(mode="after")
    def _has_models(self) -> Self:
        trained = {"losses": self.losses, "methods": self.methods, "seeds": self.seeds}
        absent = [name for name, values in trained.items() if not values]
        # With seeds alone: the backbone, and what each seed's training would start from.
        if absent and not (self.pretrained and absent[:2] == ["losses", "methods"]):
            raise ValueError(
                f"no {' and no '.join(absent)}: nothing would be trained. Name some; or leave losses, methods and seeds out"
                " and set `pretrained: true`, for the backbone's own features alone"
            )
        if untrained := [name for name in (PRETRAINED, UNTRAINED) if name in self.methods]:
            raise ValueError(f"{untrained[0]} is no method to train; write `pretrained: true` instead")
        if self.sweep and self.sweep.train and not self.losses:
            raise ValueError("sweep.train changes the training of the block's losses, and there are none")
        sweep = self.sweep or Sweep()
        methods = {name.removesuffix(ON_REPLACED) for name in self.methods}
        both: list[tuple[str, Collection[str], Collection[str]]] = [
            ("losses", sweep.losses, self.losses),
            ("methods", sweep.methods, methods),
        ]
        for section, swept, options in both:
            if strange := next((name for name in swept if name not in options), None):
                raise ValueError(f"sweep.{section} names '{strange}', which is none of the block's {section}")
        return self

    def spelled_out(self) -> Self:
        """The block with every variant by name, and nothing left to sweep."""
        if not self.sweep:
            return self
        training = {f"{variants.OF_TRAINING}{key}": values for key, values in self.sweep.train.items()}
        of_losses, of_methods = self.sweep.losses, self.sweep.methods
        losses = [_variants(name, of_losses.get(name, {}) | training) for name in self.losses]
        methods = [
            _variants(name, of_methods.get(name.removesuffix(ON_REPLACED), {})) for name in self.methods
        ]
        spelled = {"losses": tuple(chain(*losses)), "methods": tuple(chain(*methods)), "sweep": None}
        return self.model_copy(update=spelled)


def _variants(name: str, swept: Mapping[str, Values]) -> Iterator[str]:
    """A name for each combination of values; the name itself if there are none."""
    alone, changes = variants.parse_name(name)
    for values in product(*swept.values()):
        yield variants.format_name(alone, changes | dict(zip(swept, values, strict=True)))


def _changed(section: str) -> Any:
    return Field(default_factory=dict, description=f"keys of `{section}` that the grid changes")


class Grid(Strict):
    """What a named grid changes: its cells, and any of the protocol's sections."""

    cells: tuple[Block, ...] = Field(min_length=1, description="the models of the grid")
    train: dict[str, Any] = _changed("train")
    mask_policy: dict[str, Any] = _changed("mask_policy")
    evaluation: dict[str, Any] = _changed("evaluation")
    attribution: dict[str, Any] = _changed("attribution")
    segmentation: dict[str, Any] = _changed("segmentation")
    crossing: dict[str, Any] = _changed("crossing")
    cures: dict[str, Any] = _changed("cures")
    attacked: dict[str, Any] = _changed("attacked")
    sanity: dict[str, Any] = _changed("sanity")
    probes: dict[str, Any] = _changed("probes")
