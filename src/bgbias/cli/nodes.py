"""One command for each node of the workflow: what a rule runs is what a person may type.

The commands are made of what the nodes' files declare: arguments of the subject, help of the function.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Annotated, Any

import typer

from bgbias import plugins
from bgbias.cli.arguments import (
    CELL_ARGUMENTS,
    DEFAULT,
    SUBJECTS,
    Device,
    Expect,
    Grid,
    Params,
    checked,
    known_digest,
)
from bgbias.compute import gpu_slots
from bgbias.engine import records
from bgbias.engine.node import Node, step
from bgbias.errors import UserError
from bgbias.photos.folds import seed_and_fold
from bgbias.progress import say
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study, load

app = typer.Typer()


def _command(name: str) -> None:
    """Add the command of the node ``name``."""
    declared = plugins.load("nodes", name)
    function = getattr(declared, name)
    takes_device = "device" in inspect.signature(function).parameters

    def command(**typed: Any) -> None:
        grid, params, expect = (typed.pop(key) for key in ("grid", "params", "expect"))
        device = {"device": typed.pop("device")} if takes_device else {}
        if "seed" in typed:
            typed = {"cell": _cell(**typed)}
        study = load(params, grid)
        checked(study, typed)
        steps = meant(study, name, **typed)
        if expect is not None:
            known_digest(study, steps[0], expect, params)
        _take_gpu(study, **device)
        work(study, steps, **device)

    command.__doc__ = function.__doc__
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        _parameters(declared.SUBJECT, takes_device, hasattr(declared, "subjects"))
    )
    app.command(name)(command)


def meant(study: Study, name: str, **typed: Any) -> list[Node]:
    """The nodes that a command means, whose arguments but the first may have been left out."""
    subjects = getattr(plugins.load("nodes", name), "subjects", None)
    return [step(name, **subject) for subject in (subjects(study, **typed) if subjects else [typed])]


def work(study: Study, nodes: list[Node], **device: str) -> None:
    """Run nodes, one after the other; what is wrong with any of them is told when all were tried."""
    wrong = []
    for node in nodes:
        try:
            getattr(node.declared, node.name)(node.study(study), **node.keywords, **device)
        except UserError as error:
            wrong.append(str(error))
    if wrong:
        raise UserError("\n\n".join(wrong))


def _evaluate(**typed: Any) -> None:
    """Embed, score and attribute a model, one after the other; what is up to date of these is left alone."""
    grid, params, expect, device, again = (
        typed.pop(key) for key in ("grid", "params", "expect", "device", "again")
    )
    study, cell = load(params, grid), _cell(**typed)
    checked(study, {"cell": cell})
    nodes = [step(name, cell=cell) for name in plan.evaluated_by(study, cell)]
    for node, digest in zip(nodes, expect.split(",") if expect else (), strict=False):
        known_digest(study, node, digest, params)
    _take_gpu(study, device)
    for node in nodes:
        if records.is_current(study, node) and not again:
            say(f"{node.label} is up to date")
        else:
            work(study, [node], **({"device": device} if node.takes_device else {}))


def _cell(dataset: str, backbone: str, loss: str, method: str, seed: str) -> Cell:
    number, fold = seed_and_fold(seed)
    return Cell(dataset, backbone, loss, method, number, fold)


def _take_gpu(study: Study, device: str = "cpu") -> None:
    """Before a step imports torch, which sees the GPUs that there are by then."""
    gpu_slots.take(study.files.at("gpu_slots"), device)


def _parameters(subject: Collection[str], takes_device: bool, optional: bool) -> list[inspect.Parameter]:
    given: dict[str, tuple[Any, Any]] = {}
    for place, key in enumerate(subject):
        own = {key: (SUBJECTS.get(key, str), None if optional and place else inspect.Parameter.empty)}
        given |= CELL_ARGUMENTS if key == "cell" else own
    given |= {"grid": (Grid, None), "params": (Params, DEFAULT), "expect": (Expect, None)}
    given |= {"device": (Device, "auto")} if takes_device else {}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [inspect.Parameter(k, kind, default=d, annotation=a) for k, (a, d) in given.items()]


for _name in plugins.names("nodes"):
    _command(_name)

_AGAIN = Annotated[bool, typer.Option("--again", help="Also what is up to date.")]
_evaluate.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        *_parameters(("cell",), takes_device=True, optional=False),
        inspect.Parameter("again", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_AGAIN),
    ]
)
app.command("evaluate")(_evaluate)
