"""params.yaml and the files in grids/ beside it as frozen types: the whole study.

Unknown keys are refused, and the nearest right one is suggested.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import Field

from bgbias import attacks, plugins
from bgbias.attribution.settings import Attribution, Sanity
from bgbias.backgrounds.settings import Backgrounds
from bgbias.errors import UserError, speak_of
from bgbias.evaluation.settings import Attacked, Crossing, Cures, Evaluation, Probes
from bgbias.masks.settings import MaskPolicy
from bgbias.segmentation.settings import Segmentation
from bgbias.settings import Strict, read_yaml, validate
from bgbias.study import methods as named_methods
from bgbias.study import variants
from bgbias.study.grids import Block, Grid, Sweep, Values
from bgbias.study.named import NamedEntry, entry_of, find_backbone, find_pretraining
from bgbias.study.paths import Paths, Roots, check_names
from bgbias.training.settings import Train


class Dataset(Strict):
    """A named dataset: a kind (a file in datasets/), that kind's options, its masker and its backgrounds."""

    kind: str = Field(description="an option of src/bgbias/datasets/")
    masker: str = Field(description="a name under `maskers`")
    backgrounds: str = Field(description="a name under `backgrounds`")
    losses: str | None = Field(
        None,
        description="which column of `losses` holds its settings, where a loss has it; by default that of its name or kind",
    )
    fit_probes_on: str | None = Field(
        None,
        description="a name under `datasets`, often its own, whose training photos are of its test photos' classes: probes are"
        " fitted on these (docs/methods.md, section 6); on parts of its own test photos if null",
    )
    probe_photos: int | None = Field(None, ge=2, description="training photos used; all if null")
    options: dict[str, Any] = Field(default_factory=dict, description="the `Params` of its kind")


class Masker(Strict):
    """A named masker: a kind and its options."""

    kind: str = Field(description="an option of src/bgbias/masks/maskers/")
    options: dict[str, Any] = Field(default_factory=dict, description="the `Params` of its kind")


class Shared(Strict):
    """What all grids have in common."""

    grid: str = Field(description="the chosen one: a name under `grids`, here or in a file of grids/")
    paths: Roots = Roots()
    plugins: tuple[str, ...] = Field((), description="folders of plug-ins, relative to this file")
    datasets: dict[str, Dataset]
    maskers: dict[str, Masker]
    backgrounds: dict[str, Backgrounds]
    backbones: dict[str, dict[str, Any]] = Field(
        description="options of src/bgbias/models/backbones/, or `timm:<model>`, each with its options; or names of one's own,"
        " whose `kind` is one of these"
    )
    pretrainings: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="how a backbone that names one learns before it is trained: `kind` (an option of"
        " src/bgbias/training/pretraining/) and its options",
    )
    losses: dict[str, dict[str, dict[str, Any]]] = Field(
        description="options of src/bgbias/training/losses/, each with columns of settings: for a dataset's `losses`, its name,"
        " its kind, or `default`; the first that is there is taken"
    )
    methods: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="named sets of a method's options: `kind` (an option of methods/) and those",
    )
    train: Train = Train()
    mask_policy: MaskPolicy = MaskPolicy()
    evaluation: Evaluation = Evaluation()
    attribution: Attribution = Attribution()
    segmentation: Segmentation = Segmentation()
    crossing: Crossing = Crossing()
    cures: Cures = Cures()
    attacked: Attacked = Attacked()
    sanity: Sanity = Sanity()
    probes: Probes = Probes()


class File(Shared):
    """params.yaml, with the entries of the files in grids/."""

    grids: dict[str, Grid]


class Study(Shared):
    """params.yaml with one grid chosen and laid over the defaults."""

    cells: tuple[Block, ...]

    @property
    def files(self) -> Paths:
        """The patterns of this study's artefacts."""
        return Paths(self.paths, self.grid)

    def dataset(self, name: str) -> NamedEntry:
        """The file and the options of a dataset; one that params.yaml lacks is an error."""
        described = entry_of(self.datasets, "dataset", name)
        return NamedEntry("datasets", name, described.kind, described.options)

    def masker(self, name: str) -> NamedEntry:
        """The file and the options of a masker; one that params.yaml lacks is an error."""
        described = entry_of(self.maskers, "masker", name)
        return NamedEntry("maskers", name, described.kind, described.options)

    def masker_of(self, dataset: str) -> NamedEntry:
        """The file and the options of a dataset's own masker."""
        return self.masker(self.datasets[dataset].masker)


# What a grid may change, key by key.
SECTIONS = tuple(name for name in Grid.model_fields if name != "cells")


# What names things by its keys.
NAMED = ("grids", "datasets", "maskers", "backgrounds", "backbones", "pretrainings", "losses", "methods")


def read(path: Path) -> dict[str, Any]:
    """What ``params.yaml`` and the files ``grids/*.yaml`` beside it say together.

    An entry that stands in two files is an error.
    """
    speak_of(str(path))
    whole = read_yaml(path)
    files: dict[str, str] = {}
    for grid_file in sorted((path.parent / "grids").glob("*.yaml")):
        for section, entries in _entries(grid_file).items():
            section_entries = whole[section] = whole.get(section) or {}
            if not isinstance(section_entries, dict):
                return whole  # the model says what is wrong with it
            for name, entry in entries.items():
                key = f"{section}.{name}"
                if name in section_entries:
                    first = files.get(key, path)
                    raise UserError(f"'{key}' stands in {first} and in {grid_file}; rename one of them.")
                section_entries[name], files[key] = entry, str(grid_file)
    speak_of(str(path), files)
    return whole


def _entries(path: Path) -> dict[str, dict[str, Any]]:
    """A file in ``grids/``: sections of params.yaml whose keys are names, and nothing else."""
    sections = read_yaml(path)
    for section, entries in sections.items():
        if section not in NAMED:
            raise UserError(
                f"{path}: unknown key '{section}'. A file in grids/ may have: {', '.join(NAMED)}."
            )
        if not isinstance(entries, dict):
            raise UserError(f"{path}: '{section}' must be a mapping of keys.")
        check_names(path, {section: [str(name) for name in entries]})
    return sections


def load(path: Path = Path("params.yaml"), grid: str | None = None) -> Study:
    """The study that ``params.yaml`` and ``grids/`` beside it describe, for its grid or another one.

    Every mistake names its file and its key.
    """
    file: File = validate(File, read(path), path)
    check_names(path, {section: getattr(file, section) for section in NAMED})
    plugins.use(*(path.parent / folder for folder in file.plugins))
    chosen = grid or file.grid
    if chosen not in file.grids:
        near = difflib.get_close_matches(chosen, list(file.grids), 1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        there = ", ".join(file.grids) or f"none, nor is there a file in {path.parent / 'grids'}"
        raise UserError(f"{path}: there is no grid '{chosen}'; there are: {there}.{hint}")
    # Every grid is checked, not only the chosen one: a typo should not wait for the day the grid is used.
    study = {name: _overlaid(file, name, path) for name in file.grids}[chosen]
    _check_options(study, path)
    _check_names(study, path)
    return study


def _overlaid(file: File, name: str, path: Path) -> Study:
    grid = file.grids[name]
    merged = {field: getattr(file, field) for field in Shared.model_fields}
    merged |= {"grid": name, "cells": tuple(block.spelled_out() for block in grid.cells)}
    for section in SECTIONS:
        default: Strict = getattr(file, section)
        both = default.model_dump(exclude_unset=True) | getattr(grid, section)
        merged[section] = validate(type(default), both, path, f"grids.{name}.{section}")
    study = Study(**merged)
    for number, block in enumerate(grid.cells):
        _check_sweep(study, block, path, f"grids.{name}.cells.{number}.sweep")
    return study


def _check_sweep(study: Study, block: Block, path: Path, where: str) -> None:
    """Refuse a value that the loss, the method or the training does not take; names that are not there are told later."""
    sweep = block.sweep or Sweep()
    checked: list[tuple[type[Strict], dict[str, Any], str, Mapping[str, Values]]] = [
        (Train, study.train.model_dump(), "train", sweep.train)
    ]
    for loss, swept in sweep.losses.items():
        for dataset in block.datasets if plugins.known("losses", loss) and loss in study.losses else ():
            if dataset in study.datasets:
                below = loss_options(study, dataset, loss)
                checked.append((plugins.load("losses", loss).Params, below, f"losses.{loss}", swept))
    for method, swept in sweep.methods.items():
        if plugins.known("methods", str(study.methods.get(method, {}).get("kind", method))):
            method_entry = named_methods.find(study.methods, method)
            kind = getattr(method_entry.module, "Params", Strict)
            checked.append((kind, dict(method_entry.options), f"methods.{method}", swept))
    for kind, below, key, settings in checked:
        for setting, values in settings.items():
            for value in values:
                validate(kind, below | {setting: value}, path, f"{where}.{key}")


def options(study: Study, family: str, name: str, values: dict[str, Any]) -> Strict:
    """A plugin's options, checked by the plugin's own ``Params``."""
    module = plugins.load(family, name)
    return validate(module.Params, values, Path("params.yaml"), f"{family}.{name}")


def loss_options(study: Study, dataset: str, loss: str) -> dict[str, Any]:
    """A loss's settings for a dataset: of its column, name, kind or ``default``, and its name."""
    loss, changes = variants.parse_name(loss)
    changed = {key: v for key, v in changes.items() if not key.startswith(variants.OF_TRAINING)}
    options = study.losses.get(loss, {})
    described = study.datasets[dataset]
    for column in (described.losses, dataset, described.kind, "default"):
        if column in options:
            return options[column] | changed
    raise UserError(
        f"params.yaml: losses.{loss} has no settings for {dataset}; add losses.{loss}.{described.kind} or losses.{loss}.default."
    )


def _check_options(study: Study, path: Path) -> None:
    """The options of every plugin, whether the grid uses it or not; plugins that are not there yet may be named."""
    for loss in filter(partial(plugins.known, "losses"), study.losses):
        for column, values in study.losses[loss].items():
            validate(plugins.load("losses", loss).Params, values, path, f"losses.{loss}.{column}")
    _check_columns(study, path)
    entries: Iterator[NamedEntry] = chain(
        map(study.dataset, study.datasets),
        map(study.masker, study.maskers),
        (find_backbone(study.backbones, name) for name in study.backbones),
        (find_pretraining(study.pretrainings, name) for name in study.pretrainings),
        (named_methods.find(study.methods, name) for name in study.methods),
    )
    for entry in entries:
        if entry.is_known:
            entry.params()


def _check_columns(study: Study, path: Path) -> None:
    """Refuse a column of ``losses`` that is nearly a dataset's (it is never read), and one asked for in vain."""
    written = {column for columns in study.losses.values() for column in columns}
    read = {"default", *study.datasets}
    for name, dataset in study.datasets.items():
        read |= {dataset.kind, *((dataset.losses,) if dataset.losses else ())}
        if dataset.losses and dataset.losses not in written:
            raise UserError(
                f"{path}: 'datasets.{name}.losses': no loss has a column '{dataset.losses}'; there are:"
                f" {', '.join(sorted(written))}."
            )
    for loss, columns in study.losses.items():
        for column in columns.keys() - read:
            if near := difflib.get_close_matches(column, read, 1, cutoff=0.8):
                raise UserError(
                    f"{path}: 'losses.{loss}.{column}' is the column of no dataset. Did you mean '{near[0]}'?"
                )


def _check_names(study: Study, path: Path) -> None:
    """Everything the grid's cells name must exist; all that does not is told at once."""
    problems = []

    def check(where: str, name: str, available: Collection[str]) -> None:
        if name not in available:
            near = difflib.get_close_matches(name, available, 1)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            problems.append(f"  {where}: '{name}'{hint}; there are: {', '.join(available)}")

    for field in ("datasets", "backbones", "losses"):
        for name in dict.fromkeys(n for block in study.cells for n in getattr(block, field)):
            check(field, variants.parse_name(name)[0] if field == "losses" else name, getattr(study, field))
    for name in dict.fromkeys(n for block in study.cells for n in block.backbones if n in study.backbones):
        if pretraining := find_backbone(study.backbones, name).pretraining:
            check(f"backbones.{name}.pretraining", pretraining, study.pretrainings)
            if dataset := study.pretrainings.get(pretraining, {}).get("dataset"):
                check(f"pretrainings.{pretraining}.dataset", dataset, study.datasets)
    available = tuple(dict.fromkeys((*plugins.names("methods"), *study.methods)))
    for name in dict.fromkeys(n for block in study.cells for n in block.methods):
        alone, _ = variants.parse_name(name)
        check("methods", entry := alone.removesuffix(named_methods.ON_REPLACED), available)
        if entry in available:
            named_methods.find(study.methods, alone)
    for name in dict.fromkeys(n for block in study.cells for n in block.datasets if n in study.datasets):
        check(f"datasets.{name}.masker", study.datasets[name].masker, study.maskers)
        fitted = study.datasets[name].fit_probes_on
        if fitted:
            check(f"datasets.{name}.fit_probes_on", fitted, study.datasets)
            if fitted in study.datasets and study.datasets[fitted].fit_probes_on != fitted:
                problems.append(
                    f"  datasets.{name}.fit_probes_on: '{fitted}', whose own probes are not fitted on it; write"
                    f" datasets.{fitted}.fit_probes_on: {fitted}"
                )
        if study.datasets[name].probe_photos and fitted != name:
            problems.append(
                f"  datasets.{name}.probe_photos: says nothing, since probes are fitted on photos of {fitted or 'its own test'};"
                f" {f'write it at datasets.{fitted}' if fitted else f'write datasets.{name}.fit_probes_on, too'}"
            )
        pools = study.datasets[name].backgrounds
        check(f"datasets.{name}.backgrounds", pools, study.backgrounds)
        proposal = study.backgrounds[pools].propose if pools in study.backgrounds else None
        if proposal:
            check(f"backgrounds.{pools}.propose.masker", proposal.masker, study.maskers)
    for name in study.evaluation.conditions:
        check("evaluation.conditions", name, plugins.names("conditions"))
        if plugins.known("conditions", name) and "second_masks" in plugins.load("conditions", name).NEEDS:
            problems.append(
                f"  evaluation.conditions: {name} is of audits with --second-masker alone; leave it out"
            )
    for name in study.cures.names:
        check("cures.names", name, plugins.names("cures"))
    for name in study.attacked.attacks:
        check("attacked.attacks", name.partition(":")[0], plugins.names("attacks"))
        if plugins.known("attacks", name):
            attacks.targets(name)
    if study.cures.names and study.cures.draws > study.evaluation.draws:
        problems.append(
            f"  cures.draws: {study.cures.draws} backgrounds a photo, of which models without a cure see {study.evaluation.draws}"
            " (evaluation.draws)"
        )
    if problems:
        raise UserError(
            f"{path}: 'grids.{study.grid}' cannot run, for it names what is not there:\n"
            + "\n".join(problems)
        )
