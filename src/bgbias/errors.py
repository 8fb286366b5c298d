"""What a person is told when the input, not the code, is at fault."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
USUAL = "params.yaml"
_study_file = USUAL


def speak_of(study_file: str) -> None:
    """Let messages name the file that the study is read from; what knows no study says ``params.yaml``."""
    global _study_file
    _study_file = study_file


def for_this_study(text: str) -> str:
    """A text with the study's file in the place of ``params.yaml``, and commands that name it."""
    if _study_file == USUAL:
        return text
    file = shlex.quote(_study_file)
    text = re.sub(
        r"snakemake --cores all(?! --config params=)( --config)?",
        lambda m: (
            f"snakemake --cores all --config params={file}"
            if m[1]
            else f"snakemake --config params={file} --cores all"
        ),
        text,
    )
    text = re.sub(r"python -m bgbias [\w-]+(?![\w-]| --params)", lambda m: f"{m[0]} --params {file}", text)
    # Not what is a part of another path, nor what was named before.
    named = rf"{re.escape(_study_file)}|(?<![\w./-]){re.escape(USUAL)}"
    return re.sub(named, lambda _: _study_file, text)


class UserError(Exception):
    """Something the user can put right: the text names the file, image or key, and the next command to type."""

    def __str__(self) -> str:
        return for_this_study(super().__str__())


def of_arguments(*more: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function for Python, whose errors speak of ``masker=`` where those of the command line speak of ``--masker``; ``more``:
    arguments that it does not name itself. Commands to type stay as they are.
    """

    def of(function: Callable[P, R]) -> Callable[P, R]:
        named = "|".join(name.replace("_", "-") for name in (*signature(function).parameters, *more))
        option = re.compile(rf"((?:python -m )?bgbias [a-z].*)|(?<![\w-])--({named})(?![\w-])(?: (?=\w))?")

        @wraps(function)
        def spoken(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except UserError as error:
                text = option.sub(lambda m: m[1] or f"{m[2].replace('-', '_')}=", error.args[0])
                raise UserError(text) from None

        return spoken

    return of
