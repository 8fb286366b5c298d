"""One command for each node of the workflow: what a rule runs is what a person may type.

The commands are made of what the nodes' files declare: arguments of the subject, help of the function.
"""

from __future__ import annotations

import inspect
from typing import Any

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
from bgbias.engine.node import Node, step
from bgbias.errors import UserError
from bgbias.photos.folds import seed_and_fold
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
            seed, fold = seed_and_fold(typed.pop("seed"))
            typed = {"cell": Cell(**typed, seed=seed, fold=fold)}
        study = load(params, grid)
        checked(study, typed)
        steps = meant(study, name, **typed)
        if expect is not None:
            known_digest(study, steps[0], expect, params)
        if device:
            # Before the node imports torch, which sees the GPUs that there are by then.
            gpu_slots.take(study.files.at("gpu_slots"), device["device"])
        work(study, steps, **device)

    command.__doc__ = function.__doc__
    command.__signature__ = inspect.Signature(_parameters(declared, takes_device))  # type: ignore[attr-defined]
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


def _parameters(declared: Any, takes_device: bool) -> list[inspect.Parameter]:
    given: dict[str, tuple[Any, Any]] = {}
    for place, key in enumerate(declared.SUBJECT):
        optional = place > 0 and hasattr(declared, "subjects")
        own = {key: (SUBJECTS.get(key, str), None if optional else inspect.Parameter.empty)}
        given |= CELL_ARGUMENTS if key == "cell" else own
    given |= {"grid": (Grid, None), "params": (Params, DEFAULT), "expect": (Expect, None)}
    given |= {"device": (Device, "auto")} if takes_device else {}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [inspect.Parameter(k, kind, default=d, annotation=a) for k, (a, d) in given.items()]


for _name in plugins.names("nodes"):
    _command(_name)
