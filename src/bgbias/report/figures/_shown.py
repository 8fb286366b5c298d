"""What the figures of a grid show: photos of one dataset, as the grid's first backbone sees them, and a pair of models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bgbias.engine.node import Made, made, node
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study, options

if TYPE_CHECKING:
    from bgbias.evaluation.conditions.random_background import Corruption
    from bgbias.evaluation.photos import EvaluationPhotos
    from bgbias.models.backbones import Facts
    from bgbias.study.album import Album


def pair(study: Study) -> tuple[Cell, Cell]:
    """The plain model and the cured one; figures that show them are wanted only where there is such a pair."""
    cells = plan.pair(study)
    assert cells is not None
    return cells


def photos(study: Study) -> dict[str, Made]:
    """The dataset's photos and their table."""
    index = node("index", dataset=plan.shown_dataset(study))
    return {name: made(index, name) for name in ("table", "photos")}


def masks(study: Study) -> dict[str, Made]:
    """Its masks and their table."""
    dataset = plan.shown_dataset(study)
    masks = node("masks", dataset=dataset, masker=study.datasets[dataset].masker)
    return {name: made(masks, name) for name in ("masks", "mask_table")}


def corrupted(study: Study) -> dict[str, Made]:
    """Photos, masks and the backgrounds of the test split."""
    backgrounds = node("backgrounds", pool=study.datasets[plan.shown_dataset(study)].backgrounds)
    return photos(study) | masks(study) | {"test_pool": made(backgrounds, "pool", role="test")}


def of_pair(study: Study, name: str, *outputs: str) -> dict[str, Made]:
    """What the node ``name`` made of both models."""
    of_models = (node(name, cell=cell) for cell in pair(study))
    return {
        f"{output} {of.keywords['cell'].name}": made(of, output) for of in of_models for output in outputs
    }


def settings(study: Study) -> dict[str, Any]:
    """By what photos are cut, and how masks are used."""
    policy = study.mask_policy
    # Soft masks are used as they are, and read no threshold.
    used = policy.model_dump(exclude={"kind", "threshold"} if policy.kind == "soft" else None)
    return {"backbone": study.cells[0].backbones[0], "mask_policy": used}


def evaluation(study: Study) -> tuple[EvaluationPhotos, Corruption]:
    """The test photos with their masks, and what replaces their backgrounds."""
    _, opened = album(study)
    return opened.evaluation(opened.table("test"), {"masks"}, "test"), opened.corruption("test")


def album(study: Study) -> tuple[Facts, Album]:
    """The dataset as the backbone sees it, and the facts of that."""
    from bgbias.models import backbones
    from bgbias.study.album import Album

    name = study.cells[0].backbones[0]
    facts = backbones.facts(name, options(study, "backbones", name, study.backbones[name]))
    return facts, Album(study, plan.shown_dataset(study), facts.resize, facts.input_size)
