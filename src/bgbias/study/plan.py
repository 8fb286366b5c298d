"""The study as models to compare: which cells there are, what each one needs, and whether all they name exists.

What a node reads of it stands in the node's own file (``engine/node.py``).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from bgbias import plugins
from bgbias.backgrounds.settings import Backgrounds, PoolSource
from bgbias.errors import UserError
from bgbias.photos import folds
from bgbias.settings import Strict, validate
from bgbias.study import methods, variants
from bgbias.study.cell import NO_LOSS, PRETRAINED, UNTRAINED, Cell
from bgbias.study.grids import Block
from bgbias.study.methods import NamedMethod
from bgbias.study.named import NamedBackbone, NamedEntry, entry_of, find_backbone, find_pretraining
from bgbias.study.params import Study, loss_options, options
from bgbias.study.sources import parts_of
from bgbias.training.settings import Train


def cells(study: Study) -> tuple[Cell, ...]:
    """Every model of the study's grid, without repetition, in reading order of params.yaml."""
    return _cells(study.cells, _side_by_side(study), _seeded(study))


def _seeded(study: Study) -> frozenset[str]:
    """Backbones that are another network with each seed before any training: those that are pretrained here, and, where the grid
    has some, those with random weights, which they are compared with.
    """
    there = {name: backbone(study, name) for block in study.cells for name in block.backbones}
    if not any(entry.pretraining for entry in there.values()):
        return frozenset()
    return frozenset(
        name
        for name, entry in there.items()
        if entry.pretraining or getattr(entry.params(), "weights", None) is None
    )


@lru_cache(maxsize=8)  # asked for by every table and figure
def _cells(blocks: tuple[Block, ...], side_by_side: str, seeded: frozenset[str]) -> tuple[Cell, ...]:
    cells: dict[Cell, None] = {}
    for block in blocks:
        for dataset, backbone in product(block.datasets, block.backbones):
            if block.pretrained:
                for seed in block.seeds if backbone in seeded else (0,):
                    cells[Cell(dataset, backbone, NO_LOSS, PRETRAINED, seed)] = None
                cells |= {Cell(dataset, backbone, NO_LOSS, UNTRAINED, seed): None for seed in block.seeds}
            for loss, method, seed in product(block.losses, block.methods, block.seeds):
                cells |= {Cell(dataset, backbone, loss, method, seed, fold): None for fold in block.folds}
                if len(set(block.folds)) == folds.FOLDS:
                    cells[Cell(dataset, backbone, loss, method + side_by_side, seed)] = None
    return tuple(cells)


def blocks_of(study: Study, models: Iterable[tuple[str, str, str, str]]) -> tuple[Block, ...]:
    """The grid as far as it is of some models, by dataset, backbone, loss and method, with all their seeds and folds."""
    blocks: dict[Block, None] = {}
    for block, (dataset, backbone, loss, method) in product(study.cells, models):
        alone = method.removesuffix(_side_by_side(study))
        pair = {"datasets": (dataset,), "backbones": (backbone,)}
        if dataset not in block.datasets or backbone not in block.backbones:
            continue
        if method in (PRETRAINED, UNTRAINED) and block.pretrained:
            seeds = block.seeds if method == UNTRAINED or pretraining(study, backbone) else ()
            blocks[Block(**pair, pretrained=True, seeds=seeds)] = None
        elif loss in block.losses and alone in block.methods:
            part = Block(**pair, losses=(loss,), methods=(alone,), seeds=block.seeds, folds=block.folds)
            blocks[part] = None
    return tuple(blocks)


def networks(study: Study) -> tuple[Cell, ...]:
    """The cells that are one network each, trained or not, and can be asked where they look."""
    return tuple(cell for cell in cells(study) if not folds_of(study, cell))


def folds_of(study: Study, cell: Cell) -> tuple[Cell, ...]:
    """The folds' models whose embeddings stand side by side in the cell's; none for a model of its own."""
    method = cell.method.removesuffix(_side_by_side(study))
    if method == cell.method:
        return ()
    return tuple(replace(cell, method=method, fold=fold) for fold in range(folds.FOLDS))


def _side_by_side(study: Study) -> str:
    return f"+{folds.FOLDS * study.train.embedding_dim}d"


def checked_cells(study: Study) -> tuple[Cell, ...]:
    """The grid's cells, each one's names and options checked before anything runs."""
    chosen = cells(study)
    if len({has_query_split(study, dataset) for dataset in datasets(study)}) > 1:
        with_split = [dataset for dataset in datasets(study) if has_query_split(study, dataset)]
        raise UserError(
            f"Of the datasets of grid '{study.grid}', {', '.join(with_split)} say who is asked among whom, and the others do not:"
            " their results are no one table. Give each kind a grid of its own."
        )
    if probes(study) and someone_given(study):
        raise UserError(
            f"Grid '{study.grid}' asks for probes of datasets that say who is asked among whom; classifiers would be fitted on"
            f" photos by the same camera. Set grids.{study.grid}.probes.folds to null in params.yaml."
        )
    for cell in chosen:
        check_cell(study, cell)
        for dataset in list_datasets(study, cell):
            parts_of(study, dataset)
            study.masker_of(dataset).params()
    return chosen


def compared_backbones(study: Study) -> dict[tuple[str, str, str, str], str]:
    """From each model of a backbone that is pretrained here, by dataset, backbone, loss and method, to the backbone of the one
    that it is compared with: the same network after the same pretraining without negatives, if it has some, else the one that
    was not pretrained; if the grid has such a model.
    """
    models = dict.fromkeys((c.dataset, c.backbone, c.loss, c.method) for c in cells(study))
    learned = {name: split_learning(study, name) for _, name, *_ in models}
    compared: dict[tuple[str, str, str, str], str] = {}
    for dataset, name, *rest in models:
        network, before, negatives = learned[name]
        if before is None:
            continue
        others = [
            other
            for like in ([None] if negatives == "none" else [before, None])
            for other, its in learned.items()
            if its == (network, like, "none") and (dataset, other, *rest) in models
        ]
        if others:
            compared[dataset, name, rest[0], rest[1]] = others[0]
    return compared


def split_learning(study: Study, name: str) -> tuple[Any, Any, str]:
    """What a backbone is before any training with labels: its network; how that learned without labels, and None if it did not;
    and from which negatives of no class it was kept away in this.
    """
    network, before = backbone(study, name), pretraining(study, name)
    network_key = (network.kind, network.params())
    if before is None:
        return network_key, None, "none"
    return network_key, (before.kind, before.params().beside_negatives), before.params().active_negatives


def list_datasets(study: Study, cell: Cell) -> tuple[str, ...]:
    """The datasets that a model sees: its own, its pretraining's, and that of its probes."""
    before = pretraining(study, cell.backbone)
    fitted = study.datasets[cell.dataset].fit_probes_on if probes(study) else None
    names = (cell.dataset, before.params().dataset if before else None, fitted)
    return tuple(dict.fromkeys(name for name in names if name))


def fitted_cell(study: Study, cell: Cell) -> Cell:
    """The model whose embeddings of training photos a cell's probes are fitted on: that of the training photos' own dataset where
    both are one network, so that it sees them once for all datasets that are asked; else the cell's.
    """
    fitted = study.datasets[cell.dataset].fit_probes_on
    before, entry = pretraining(study, cell.backbone), backbone(study, cell.backbone)
    # Random weights are drawn for each dataset, and so is the embedding layer.
    one = before.params().dataset if before else getattr(entry.params(), "weights", None)
    return replace(cell, dataset=fitted) if fitted and one and cell.method == PRETRAINED else cell


def _asks(section: str, key: str) -> Callable[[Study], bool]:
    """Whether a grid asks for what not every study has: whether this setting says something."""
    return lambda study: bool(getattr(getattr(study, section), key))


segments = _asks("segmentation", "episodes")
crosses = _asks("crossing", "objects")
cures = _asks("cures", "names")
attacks = _asks("attacked", "attacks")
doubts = _asks("sanity", "images")
probes = _asks("probes", "folds")


def require_setting(study: Study, section: str, key: str, refusal: str) -> Any:
    """This setting of a grid; a grid without it is refused, in the words ``refusal``."""
    if value := getattr(getattr(study, section), key):
        return value
    raise UserError(f"Grid '{study.grid}' {refusal}; set grids.{study.grid}.{section}.{key} in params.yaml.")


def truth(study: Study, dataset: str) -> str | None:
    """What a dataset knows of where its objects are: ``masks``, ``boxes`` or nothing."""
    return study.dataset(dataset).fact("truth")  # type: ignore[no-any-return]


def has_query_split(study: Study, dataset: str) -> bool:
    """Whether a dataset says who is asked among whom."""
    return bool(study.dataset(dataset).fact("given"))


def someone_given(study: Study) -> bool:
    """Whether a dataset of the grid says who is asked among whom."""
    return any(has_query_split(study, dataset) for dataset in datasets(study))


def check_is_network(study: Study, cell: Cell) -> None:
    """Refuse a cell that is several models."""
    if parts := folds_of(study, cell):
        raise UserError(
            f"{cell.name} is no single model: it is {len(parts)} models side by side, {parts[0].name} and so on."
        )


def check_cell(study: Study, cell: Cell) -> None:
    """Refuse a cell whose parts params.yaml and the plugins do not know, or whose options they reject."""
    for part in folds_of(study, cell):
        check_cell(study, part)
    network = backbone(study, cell.backbone)
    network.params()
    if before := pretraining(study, cell.backbone):
        before.params()
    if segments(study) and truth(study, cell.dataset) is None:
        raise UserError(
            f"{cell.dataset} does not say where its objects are, and segmentation cannot be judged without that. Give it"
            " true masks (option `masks` of the kinds folder and table), or set"
            f" grids.{study.grid}.segmentation.episodes to null."
        )
    if trains(study, cell):
        study_for_cell(study, cell)
        plugins.load("losses", cell.loss)  # before its settings are looked for
        loss_params(study, cell)
        chosen = method(study, cell)
        chosen.params()
        methods.check(cell.name, chosen, cell.loss, study.train.batch_size)
        if chosen.fact("needs_batch_norm"):
            from bgbias.models import norms  # it takes PyTorch to look

            if norms.known_to_lack(network.kind, network.params()):
                raise UserError(f"{cell.name}: {norms.lacking(network.kind)}")


def backbone(study: Study, name: str) -> NamedBackbone:
    """The backbone that the grid calls so; one that params.yaml lacks is an error."""
    return find_backbone(study.backbones, name)


def pretraining(study: Study, name: str) -> NamedEntry | None:
    """How the backbone that the grid calls so learns before it is trained; None if it does not."""
    entry = backbone(study, name).pretraining
    return find_pretraining(study.pretrainings, entry) if entry else None


def method(study: Study, cell: Cell) -> NamedMethod:
    """The cell's method: its file, its options with what its name says, and whether it sees replaced backgrounds."""
    alone, changed = variants.parse_name(cell.method)
    entry = methods.find(study.methods, alone)
    return replace(entry, options={**entry.options, **changed}) if changed else entry


def study_for_cell(study: Study, cell: Cell) -> Study:
    """The study as it is for a cell, whose loss may name other settings of training."""
    changes = variants.training_settings(cell.loss)
    if not changes:
        return study
    train = validate(Train, study.train.model_dump() | changes, Path("params.yaml"), cell.loss)
    return study if train == study.train else study.model_copy(update={"train": train})


def loss_params(study: Study, cell: Cell) -> Strict:
    """The options of the cell's loss, checked by its file."""
    return options(study, "losses", cell.loss, loss_options(study, cell.dataset, cell.loss))


def trains(study: Study, cell: Cell) -> bool:
    """Whether the cell has a model of its own to train."""
    return not folds_of(study, cell) and method(study, cell).trains


def trained_models(study: Study) -> tuple[Cell, ...]:
    """The grid's models that have a training of their own; none where it compares backbones as they come."""
    return tuple(cell for cell in cells(study) if trains(study, cell))


def attributed_models(study: Study) -> tuple[Cell, ...]:
    """The grid's models that are asked where they look: trained ones and, if the grid says so, backbones as they come."""
    return tuple(cell for cell in cells(study) if "attribute" in evaluated_by(study, cell))


def evaluated_by(study: Study, cell: Cell) -> tuple[str, ...]:
    """The steps that say how a model retrieves and, if it is asked, where it looks."""
    is_attributed = trains(study, cell) or (study.attribution.pretrained and cell.method == PRETRAINED)
    return ("embed", "score", "attribute") if is_attributed else ("embed", "score")


def distance(cell: Cell) -> str:
    """How a model's embeddings are compared for attribution: as its loss does, by their cosine where it has none."""
    return "cosine" if cell.loss == NO_LOSS else str(plugins.load("losses", cell.loss).DISTANCE)


def selection_condition(study: Study, cell: Cell) -> str:
    """Which validation score stops and picks: ``clean`` or ``corrupted``.

    ``published`` selects as the paper did: on clean photos for plain training, on corrupted ones for methods that replace
    backgrounds (docs/methods.md, section 1).
    """
    if study.train.selection == "published":
        return "corrupted" if "backgrounds" in method(study, cell).needs else "clean"
    return study.train.selection


def needs(study: Study, cell: Cell) -> frozenset[str]:
    """What training the cell reads beside photos: masks, backgrounds, both or nothing."""
    needed = method(study, cell).needs
    return needed | {"masks", "backgrounds"} if selection_condition(study, cell) == "corrupted" else needed


def listed_pools(study: Study, pool: str) -> dict[str, PoolSource]:
    """The pools of a background set whose photos a list names, by role."""
    return {r: p for r, p in pools(study, pool).pools.items() if p.listed}


def pools(study: Study, pool: str) -> Backgrounds:
    """A background set of params.yaml; an unknown one is an error."""
    return entry_of(study.backgrounds, "backgrounds", pool)


def datasets(study: Study) -> list[str]:
    """The datasets of the grid's cells, in reading order."""
    return list(dict.fromkeys(c.dataset for c in cells(study)))
