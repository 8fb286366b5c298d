"""params.yaml as frozen types: the whole study on one screen, with unknown keys refused and the nearest right one suggested."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from bgbias import named_methods, plugins
from bgbias.errors import UserError
from bgbias.folds import FOLDS
from bgbias.paths import Paths
from bgbias.strict import Strict, read_yaml, validated


class Roots(Strict):
    """Where artefacts go; point them at a big disk."""

    raw: str = "data/raw"
    downloads: str = Field(
        "data/downloads", description="where people put official files that they fetched by hand"
    )
    checksums: str = Field("data/checksums.csv", description="sha256 of files for which nobody publishes one")
    work: str = "data/work"
    runs: str = "data/runs"
    report: str = "data/report"


class Dataset(Strict):
    """A named dataset: a kind (a file in datasets/), that kind's options, its masker and its backgrounds."""

    kind: str
    masker: str
    backgrounds: str
    losses: str | None = Field(
        None, description="which column of `losses` holds its settings; its kind by default"
    )
    options: dict[str, Any] = Field(default_factory=dict)


class Masker(Strict):
    """A named masker: a kind (a file in maskers/) and its options."""

    kind: str
    options: dict[str, Any] = Field(default_factory=dict)


PROCEDURAL = ("colours", "gradients", "textures", "toy_scenes")


class PoolSource(Strict):
    """Where one pool of backgrounds comes from: a zip, a folder or a list of files; or pictures that are drawn.

    A list is a text file with one path a line, or a CSV with the columns name, url, licence and sha256 (and others), whose photos
    are taken from ``copies`` or fetched.
    """

    source: str | None = None
    copies: tuple[str, ...] = Field((), description="zips or folders that may hold the photos a CSV lists")
    group: str | None = Field(None, description="only the rows of a CSV with this value in its column `pool`")
    colours: int | None = Field(None, ge=1, description="draw so many plain colours")
    gradients: int | None = Field(None, ge=1, description="draw so many gradients of two or three colours")
    textures: int | None = Field(None, ge=1, description="draw so many textured walls")
    toy_scenes: int | None = Field(None, ge=1, description="draw so many scenes as the toys stand before")
    part: tuple[int, int] | None = Field(None, description="only these of the sorted names: [from, to)")
    size: int = Field(64, ge=8, description="side of a drawn picture in pixels")
    licence: str = "unknown"

    @model_validator(mode="after")
    def _one_source(self) -> PoolSource:
        given = [k for k in ("source", *PROCEDURAL) if getattr(self, k) is not None]
        if len(given) != 1:
            raise ValueError(f"a pool needs exactly one of source, {', '.join(PROCEDURAL)}")
        if self.part is not None and not 0 <= self.part[0] < self.part[1]:
            raise ValueError("part is [from, to) with 0 <= from < to")
        if not self.listed and (self.copies or self.group is not None):
            raise ValueError("`copies` and `group` go with a `source` that is a CSV")
        return self

    @property
    def listed(self) -> bool:
        """Whether the photos are those that a CSV lists."""
        return self.source is not None and self.source.endswith(".csv")

    @property
    def drawn(self) -> tuple[str, int] | None:
        """What to draw and how many, if the pool is drawn."""
        return next(((k, n) for k in PROCEDURAL if (n := getattr(self, k)) is not None), None)


class Proposal(Strict):
    """Pools from any folder of photos: those without an obvious foreground, shared out at random."""

    source: str = Field(description="folder, zip or list of photos")
    masker: str = Field(description="whose saliency tells a foreground")
    shares: tuple[float, float, float] = Field((0.4, 0.1, 0.5), description="of train, val and test")
    seed: int = 0
    keep: tuple[str, ...] = Field((), description="names to take whatever the masker sees")
    drop: tuple[str, ...] = Field((), description="names to leave out whatever the masker sees")
    licence: str = "unknown"

    @model_validator(mode="after")
    def _whole(self) -> Proposal:
        if any(s <= 0 for s in self.shares) or abs(sum(self.shares) - 1) > 1e-6:
            raise ValueError("shares must be positive and add up to 1")
        both = sorted(set(self.keep) & set(self.drop))
        if both:
            raise ValueError(f"'{both[0]}' is both kept and dropped")
        return self


class Backgrounds(Strict):
    """Three disjoint pools, named one by one or proposed from one folder; `test` is never seen in training or selection."""

    train: PoolSource | None = None
    val: PoolSource | None = None
    test: PoolSource | None = None
    propose: Proposal | None = None

    @model_validator(mode="after")
    def _three(self) -> Backgrounds:
        given = [name for name, pool in self.pools.items() if pool is not None]
        if self.propose and given:
            raise ValueError(f"`propose` makes all three pools; remove {', '.join(given)}")
        if not self.propose and len(given) < 3:
            raise ValueError("train, val and test are all needed, or `propose`")
        return self

    @property
    def pools(self) -> dict[str, PoolSource | None]:
        """The pools by role."""
        return {"train": self.train, "val": self.val, "test": self.test}


class Train(Strict):
    """The training protocol of a grid (METHODS section 1)."""

    embedding_dim: int = Field(128, ge=2)
    batch_size: int = Field(32, ge=2)
    iterations_per_epoch: int = Field(100, ge=1)
    max_epochs: int = Field(1000, ge=1)
    patience: int = Field(15, ge=1, description="epochs without a strictly better validation MAP@R")
    optimizer: Literal["rmsprop", "adamw"] = "rmsprop"
    lr: float = Field(1e-6, gt=0)
    schedule: Literal["constant", "cosine"] = Field(
        "constant", description="of all learning rates over max_epochs; cosine ends near 0"
    )
    embedder_lr: float | None = Field(
        None, gt=0, description="of the linear embedding layer; `lr` if not given"
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="of rmsprop")
    weight_decay: float = Field(1e-4, ge=0)
    freeze_batch_norm: bool = True
    selection: Literal["published", "clean", "corrupted"] = "clean"
    precision: Literal["fp32", "bf16"] = "fp32"
    crop_scale: tuple[float, float] = (0.16, 1.0)
    crop_ratio: tuple[float, float] = (0.75, 4 / 3)


class MaskPolicy(Strict):
    """How masks are used, and which are trusted: a photo whose mask is not keeps its own background and is no query; it is
    counted in every table. Areas are those of the soft mask, whatever its use."""

    kind: Literal["soft", "threshold"] = Field(
        "soft",
        description="blend photo and background by the mask as it is (as published), or by 0 and 255 alone",
    )
    threshold: int = Field(128, ge=1, le=255, description="grey level from which a pixel is object")
    min_area: float = Field(0.01, ge=0, le=1)
    max_area: float = Field(0.95, ge=0, le=1)
    keep_all: bool = Field(
        False, description="replace backgrounds behind empty and full masks too (as published)"
    )

    @model_validator(mode="after")
    def _threshold_is_used(self) -> MaskPolicy:
        if self.kind == "soft" and "threshold" in self.model_fields_set:
            raise ValueError("soft masks have no threshold; set `kind: threshold`, or leave `threshold` out")
        if self.min_area >= self.max_area:
            raise ValueError("min_area must lie below max_area")
        return self


class Evaluation(Strict):
    """Clean and corrupted retrieval."""

    draws: int = Field(5, ge=1, description="background draws per photo")
    batch_size: int = Field(64, ge=1)
    precision: Literal["fp32", "bf16"] = "fp32"


# What similarity attention asks of a photo (similarity_attention.py).
SimilarityScore = Literal["magnitude", "published"]


class Attribution(Strict):
    """The attribution score (METHODS section 3)."""

    images: int | None = Field(None, ge=1, description="a keyed subset of so many test photos; all if null")
    samples: int = Field(25, ge=1)
    noise: float = Field(0.15, gt=0, description="sigma as a share of the input's range")
    similarity: SimilarityScore | None = Field(
        None, description="also score similarity attention with a keyed photo of the class, asked in this way"
    )
    precision: Literal["fp32", "bf16"] = "fp32"


class Segmentation(Strict):
    """One-shot segmentation by similarity attention, then GrabCut (METHODS section 7); only where it is asked for."""

    episodes: int | None = Field(
        None, ge=1, description="test photos to segment, a keyed subset of at most so many; none if null"
    )
    score: SimilarityScore = "magnitude"
    sure: float = Field(
        0.33,
        gt=0,
        lt=1,
        description="what GrabCut starts from: such a share of a map's object is surely object, of the rest surely background",
    )
    rounds: int = Field(5, ge=1, description="of GrabCut")


class Block(Strict):
    """A product of choices; a grid is a list of blocks."""

    datasets: tuple[str, ...]
    backbones: tuple[str, ...]
    losses: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    folds: tuple[Annotated[int, Field(ge=0, lt=FOLDS)], ...] = Field(
        (0,),
        description="which of four folds to train on; all four add a row for their embeddings side by side",
    )
    pretrained: bool = Field(
        False, description="add the backbone's own features, without any training, as a row"
    )


class Grid(Strict):
    """What a named grid changes: its cells, and any of the protocol's sections."""

    cells: tuple[Block, ...] = Field(min_length=1)
    train: dict[str, Any] = Field(default_factory=dict)
    mask_policy: dict[str, Any] = Field(default_factory=dict)
    evaluation: dict[str, Any] = Field(default_factory=dict)
    attribution: dict[str, Any] = Field(default_factory=dict)
    segmentation: dict[str, Any] = Field(default_factory=dict)


class Shared(Strict):
    """What all grids have in common."""

    grid: str
    paths: Roots = Roots()
    datasets: dict[str, Dataset]
    maskers: dict[str, Masker]
    backgrounds: dict[str, Backgrounds]
    backbones: dict[str, dict[str, Any]]
    losses: dict[str, dict[str, dict[str, Any]]]
    methods: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="named sets of a method's options: `kind` (a file in methods/) and those",
    )
    train: Train = Train()
    mask_policy: MaskPolicy = MaskPolicy()
    evaluation: Evaluation = Evaluation()
    attribution: Attribution = Attribution()
    segmentation: Segmentation = Segmentation()


class File(Shared):
    """params.yaml as it is written."""

    grids: dict[str, Grid]


class Study(Shared):
    """params.yaml with one grid chosen and laid over the defaults."""

    cells: tuple[Block, ...]

    @property
    def files(self) -> Paths:
        """The patterns of this study's artefacts."""
        return Paths(**self.paths.model_dump(), grid=self.grid)


# What a grid may change, key by key.
SECTIONS = ("train", "mask_policy", "evaluation", "attribution", "segmentation")


def load(path: Path = Path("params.yaml"), grid: str | None = None) -> Study:
    """The study that ``params.yaml`` describes for its ``grid`` (or another named one); every mistake names its key."""
    file: File = validated(File, read_yaml(path), path)
    chosen = grid or file.grid
    if chosen not in file.grids:
        near = difflib.get_close_matches(chosen, list(file.grids), 1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise UserError(f"{path}: there is no grid '{chosen}'; there are: {', '.join(file.grids)}.{hint}")
    # Every grid is checked, not only the chosen one: a typo should not wait for the day the grid is used.
    study = {name: _overlaid(file, name, path) for name in file.grids}[chosen]
    _check_options(study, path)
    _check_names(study, path)
    return study


def _overlaid(file: File, name: str, path: Path) -> Study:
    grid = file.grids[name]
    merged = {field: getattr(file, field) for field in Shared.model_fields}
    merged |= {"grid": name, "cells": grid.cells}
    for section in SECTIONS:
        default: Strict = getattr(file, section)
        both = default.model_dump(exclude_unset=True) | getattr(grid, section)
        merged[section] = validated(type(default), both, path, f"grids.{name}.{section}")
    return Study(**merged)


def options(study: Study, family: str, name: str, values: dict[str, Any]) -> Strict:
    """A plugin's options, checked by the plugin's own ``Params``."""
    module = plugins.load(family, name)
    return validated(module.Params, values, Path("params.yaml"), f"{family}.{name}")


def loss_options(study: Study, dataset: str, loss: str) -> dict[str, Any]:
    """A loss's settings for a dataset: those of its ``losses`` column, else of its kind, else ``default``."""
    known = study.losses.get(loss, {})
    described = study.datasets[dataset]
    for column in (described.losses, dataset, described.kind, "default"):
        if column in known:
            return known[column]
    raise UserError(
        f"params.yaml: losses.{loss} has no settings for {dataset}; add losses.{loss}.{described.kind} or losses.{loss}.default."
    )


def _check_options(study: Study, path: Path) -> None:
    """The options of every plugin, whether the grid uses it or not; plugins that are not there yet may be named."""
    found = [("datasets", d.kind, f"datasets.{n}.options", d.options) for n, d in study.datasets.items()]
    found += [("maskers", m.kind, f"maskers.{n}.options", m.options) for n, m in study.maskers.items()]
    found += [("backbones", n, f"backbones.{n}", values) for n, values in study.backbones.items()]
    for loss, columns in study.losses.items():
        found += [("losses", loss, f"losses.{loss}.{column}", values) for column, values in columns.items()]
    for family, kind, key, values in found:
        if plugins.known(family, kind):
            validated(plugins.load(family, kind).Params, values, path, key)
    for name in study.methods:
        named_methods.check_name(name)
        if plugins.known("methods", (described := named_methods.find(study.methods, name)).kind):
            described.params()


def _check_names(study: Study, path: Path) -> None:
    """Everything the grid's cells name must exist; all that does not is told at once."""
    problems = []

    def check(where: str, name: str, known: Collection[str]) -> None:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            problems.append(f"  {where}: '{name}'{hint}; there are: {', '.join(known)}")

    for field in ("datasets", "backbones", "losses"):
        for name in dict.fromkeys(n for block in study.cells for n in getattr(block, field)):
            check(field, name, getattr(study, field))
    known = (*plugins.names("methods"), *study.methods)
    for name in dict.fromkeys(n for block in study.cells for n in block.methods):
        check("methods", entry := name.removesuffix(named_methods.ON_REPLACED), known)
        if entry in known:
            named_methods.find(study.methods, name)
    for name in dict.fromkeys(n for block in study.cells for n in block.datasets if n in study.datasets):
        check(f"datasets.{name}.masker", study.datasets[name].masker, study.maskers)
        pools = study.datasets[name].backgrounds
        check(f"datasets.{name}.backgrounds", pools, study.backgrounds)
        proposal = study.backgrounds[pools].propose if pools in study.backgrounds else None
        if proposal:
            check(f"backgrounds.{pools}.propose.masker", proposal.masker, study.maskers)
    if problems:
        raise UserError(
            f"{path}: grid '{study.grid}' cannot run, for it names what is not there:\n" + "\n".join(problems)
        )
