"""The reference pages, from the code: settings from the pydantic models, the families' options, the commands from typer.

A page asks for its part by a comment like ``<!-- reference: params -->``.
"""

from __future__ import annotations

import importlib
import inspect
import re
import types
from collections.abc import Callable, Iterator
from typing import Any, Literal, Union, get_args, get_origin

import typer
from docstrings import escaped, markdown
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from bgbias import plugins
from bgbias.cli import app
from bgbias.study.params import File

MARK = re.compile(r"<!-- reference: (\w+) -->")
WORDS = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false", "Any": "anything"}
SIGNS = {"ge": "≥ {}", "gt": "> {}", "le": "≤ {}", "lt": "< {}", "min_length": "at least {} of them"}
HEAD = "| key | what | default | bounds | description |\n|---|---|---|---|---|"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A page's text with the parts of the reference that it asks for."""
    return MARK.sub(lambda found: PARTS[found[1]](), markdown)


def params() -> str:
    """params.yaml, one section for each model, from the whole file down."""
    return "\n\n".join(
        f"## {model.__name__}\n\n{markdown(model.__doc__)}\n\n{table(model)}"
        for model in dict.fromkeys(_models(File))
        if model.model_fields
    )


def families() -> str:
    """Every file of every family, with its options."""
    sections = []
    for family, package in plugins.FAMILIES.items():
        sections.append(f"## {family}\n\n`{package}`\n\n{markdown(importlib.import_module(package).__doc__)}")
        for name in plugins.names(family):
            module = plugins.member(family, name)
            takes = getattr(module, "VARIANTS", "") or getattr(module, "TAKES", "")
            title = f"{name}:…" if takes else name
            number = f"Table {module.NUMBER}. " if hasattr(module, "NUMBER") else ""
            sections.append(f"### {title}\n\n{number}{markdown(module.__doc__)}")
            options = getattr(module, "Params", None)
            if options is not None and options.model_fields:
                sections.append(table(options))
    return "\n\n".join(sections)


def commands() -> str:
    """Every command with its arguments and options."""
    group: Any = typer.main.get_command(app)
    sections = []
    for name, command in group.commands.items():
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
        usage = " ".join(
            ["bgbias", name, *(_argument(p) for p in arguments), "[options]"[: 9 * bool(options)]]
        )
        rows = [f"| `{_argument(p)}` | {_cell(p.help)} | |" for p in arguments]
        rows += [
            f"| `{', '.join([*p.opts, *p.secondary_opts])}` | {_cell(p.help)} | {_default(p.default)} |"
            for p in options
        ]
        sections.append(
            f"## {name}\n\n{escaped(command.help or '')}\n\n```sh\n{usage.strip()}\n```\n\n"
            + "\n".join(["| argument, option | what | default |", "|---|---|---|", *rows])
        )
    return "\n\n".join(sections)


PARTS: dict[str, Callable[[], str]] = {"params": params, "families": families, "commands": commands}


def table(model: type[BaseModel]) -> str:
    """The keys of a model."""
    return "\n".join([HEAD, *(_row(name, field) for name, field in model.model_fields.items())])


def _row(name: str, field: FieldInfo) -> str:
    bounds = [
        sign.format(value)
        for mark, sign in SIGNS.items()
        for one in field.metadata
        if (value := getattr(one, mark, None)) is not None
    ]
    default = "required" if field.is_required() else _default(field.get_default(call_default_factory=True))
    cells = (f"`{name}`", _spelled(field.annotation), default, ", ".join(bounds), _cell(field.description))
    return "| " + " | ".join(cells) + " |"


def _spelled(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__metadata__"):  # Annotated
        return _spelled(inner[0])
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return f"[{annotation.__name__}](#{annotation.__name__.lower()})"
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in inner)
    if origin in (Union, types.UnionType):
        return " or ".join("null" if one is types.NoneType else _spelled(one) for one in inner)
    if origin is tuple:
        return f"list: {_spelled(inner[0])}" if inner[-1] is ... else f"[{', '.join(map(_spelled, inner))}]"
    if origin is dict:
        return "options" if inner[1] is Any else f"names, each with: {_spelled(inner[1])}"
    return WORDS.get(getattr(annotation, "__name__", str(annotation)), str(annotation))


def _models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model and all that stand in it, from above."""
    yield model
    for field in model.model_fields.values():
        for inner in _within(field.annotation):
            yield from _models(inner)


def _within(annotation: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for one in get_args(annotation):
        yield from _within(one)


def _default(value: Any) -> str:
    if isinstance(value, BaseModel):
        return "its own"
    if value is None or (isinstance(value, (tuple, dict)) and not value) or callable(value):
        return "null" if value is None else ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{list(value) if isinstance(value, tuple) else value}`"


def _cell(text: str | None) -> str:
    return escaped(text or "").replace("|", r"\|").replace("\n", " ")


def _argument(argument: Any) -> str:
    shown = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return shown if argument.required else f"[{shown}]"
