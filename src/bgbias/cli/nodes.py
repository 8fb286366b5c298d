"""One command for each node of the workflow: what a rule runs is what a person may type.

The commands are made of what the nodes' files declare: arguments of the subject, help of the function.
"""

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from bgbias import plugins
from bgbias.cli.arguments import DEFAULT, WORDS, Device, Grid, Params, option
from bgbias.compute import gpu_slots
from bgbias.engine import graph, records
from bgbias.engine.node import Node, step
from bgbias.errors import UserError
from bgbias.progress import say
from bgbias.study import Cell, plan
from bgbias.study.params import Study, load
from bgbias.study.sources import parts_of

app = typer.Typer()

# A model is named by its parts, and a seed.
PARTS = ("dataset", "backbone", "loss", "method")


def select_nodes(study: Study, name: str, **typed: Any) -> list[Node]:
    """The nodes that a command means, whose arguments but the first may have been left out."""
    subjects = getattr(plugins.load("nodes", name), "subjects", None)
    return [step(name, **subject) for subject in (subjects(study, **typed) if subjects else [typed])]


def work(study: Study, nodes: list[Node], device: str = "auto") -> None:
    """Run nodes, one after the other; what is wrong with any of them is told when all were tried."""
    wrong = []
    for node in nodes:
        options = {"device": device} if node.takes_device else {}
        try:
            getattr(node.module, node.name)(node.study(study), **node.keywords, **options)
        except UserError as error:
            wrong.append(str(error))
    if wrong:
        raise UserError("\n\n".join(wrong))


def _add_command(name: str) -> None:
    declared = plugins.load("nodes", name)
    function = getattr(declared, name)

    def command(grid: Any, params: Any, expect: Any, device: Any = "cpu", **typed: Any) -> None:
        study, subject = _find_subject(grid, params, typed)
        nodes = select_nodes(study, name, **subject)
        if expect is not None:
            _check_digest(study, nodes[0], expect, params)
        gpu_slots.take(study.files.at("gpu_slots"), device)
        work(study, nodes, device)

    # The list of commands shows the first paragraph alone.
    command.__doc__ = (function.__doc__ or "").replace(". ", ".\n\n", 1)
    _declare(command, declared.SUBJECT, step(name).takes_device, hasattr(declared, "subjects"))
    app.command(name)(command)


def _evaluate(grid: Any, params: Any, expect: Any, device: Any, again: Any, **typed: Any) -> None:
    """Embed, score and attribute a model, one after the other.

    What is up to date of these is left alone.
    """
    study, subject = _find_subject(grid, params, typed)
    nodes = [step(name, **subject) for name in plan.evaluated_by(study, subject["cell"])]
    for node, digest in zip(nodes, expect.split(",") if expect else (), strict=False):
        _check_digest(study, node, digest, params)
    gpu_slots.take(study.files.at("gpu_slots"), device)
    for node in nodes:
        if records.is_current(study, node) and not again:
            say(f"{node.label} is up to date")
        else:
            work(study, [node], device)


def _find_subject(grid: str | None, params: Path, typed: dict[str, Any]) -> tuple[Study, dict[str, Any]]:
    """The study and the subject that a command names; what params.yaml does not know is an error."""
    subject = {"cell": Cell.from_wildcards(**typed)} if "seed" in typed else typed
    study = load(params, grid)
    if typed.get("dataset"):
        parts_of(study, typed["dataset"])
    if "cell" in subject:
        plan.check_cell(study, subject["cell"])
    return study, subject


def _check_digest(study: Study, node: Node, expected: str, params: Path) -> None:
    now = graph.digest(study, node.name, **node.keywords)
    if now != expected:
        raise UserError(
            f"{params}, or code that {node.name} works by, was edited since this was planned ({expected}, now {now}); run"
            " snakemake again."
        )


def _declare(
    command: Any, subject: tuple[str, ...], takes_device: bool, is_optional: bool = False, **more: Any
) -> None:
    """Give a command its parameters; of a subject that ``is_optional``, all but the first may be left out."""
    required = inspect.Parameter.empty
    args: dict[str, tuple[Any, Any]] = {}
    for position, key in enumerate(subject):
        for part in PARTS if key == "cell" else (key,):
            default = None if is_optional and position else required
            args[part] = (Annotated[str, typer.Argument(help=WORDS["subjects"].get(part))], default)
        if key == "cell":
            args["seed"] = (Annotated[str, typer.Option(help=WORDS["subjects"]["seed"])], "0")
    args["grid"] = (Grid, None)
    args["params"] = (Params, DEFAULT)
    args["expect"] = (Annotated[str | None, option("steps", "expect")], None)
    if takes_device:
        args["device"] = (Device, "auto")
    args |= more
    kind = inspect.Parameter.KEYWORD_ONLY
    command.__signature__ = inspect.Signature(
        [inspect.Parameter(key, kind, default=value, annotation=hint) for key, (hint, value) in args.items()]
    )


for _name in plugins.names("nodes"):
    _add_command(_name)

_again = Annotated[bool, option("steps", "again", "--again")]
_declare(_evaluate, ("cell",), takes_device=True, again=(_again, False))
app.command("evaluate")(_evaluate)
