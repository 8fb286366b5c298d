"""What a person is told when the input, not the code, is at fault."""

import errno
import re
import shlex
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
USUAL = "params.yaml"
_study_file = USUAL
_other_files: Mapping[str, str] = {}


def speak_of(study_file: str, other_files: Mapping[str, str] | None = None) -> None:
    """Let messages name the file of the study; what knows no study says ``params.yaml``.

    ``other_files``: the file of each entry that stands elsewhere (``grids.demo``), which messages about
    that entry name.
    """
    global _study_file, _other_files
    _study_file, _other_files = study_file, other_files or {}


def for_this_study(text: str) -> str:
    """A text with the study's file in the place of ``params.yaml``, or that of the first entry that it
    names in full, and commands that name the study's.
    """
    # Not what is a part of another path, nor what was named before, nor a command's own.
    usual = rf"(?<![\w./-]){re.escape(USUAL)}"
    pattern = rf"(?<!params[ =])(?<!params[ =]')({re.escape(_study_file)}|{usual})"
    entries = "|".join(re.escape(entry) for entry in sorted(_other_files, key=len, reverse=True))
    first = re.search(rf"(?<![\w.])({entries})(?![\w-])", text) if entries else None
    file = _other_files[first[1]] if first else _study_file
    text = re.sub(pattern, lambda _: file, text)
    if _study_file == USUAL:
        return text
    option = shlex.quote(_study_file)
    text = re.sub(
        r"snakemake --cores all(?! --config params=)( --config)?",
        lambda m: (
            f"snakemake --cores all --config params={option}"
            if m[1]
            else f"snakemake --config params={option} --cores all"
        ),
        text,
    )
    return re.sub(r"python -m bgbias [\w-]+(?![\w-]| --params)", lambda m: f"{m[0]} --params {option}", text)


class UserError(Exception):
    """Something the user can put right: the text names the file, image or key, and the next command to type."""

    def __str__(self) -> str:
        return for_this_study(super().__str__())


def name_arguments(*more: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function for Python, whose errors speak of ``masker=`` where those of the command line speak of ``--masker``; ``more``:
    arguments that it does not name itself. Commands to type stay as they are.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        arguments = "|".join(name.replace("_", "-") for name in (*signature(function).parameters, *more))
        value = r"(?: (?!(?:and|is|means|or|says|takes)\b)(?=\w))?"
        option = re.compile(rf"((?:python -m )?bgbias [a-z].*)|(?<![\w-])--({arguments})(?![\w-]){value}")

        @wraps(function)
        def spoken(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except UserError as error:
                text = option.sub(lambda m: m[1] or f"{m[2].replace('-', '_')}=", error.args[0])
                raise UserError(text) from None

        return spoken

    return decorate


def explain_os_error(error: OSError) -> str:
    """What a person can do about a disk that is full, or a folder that cannot be written or read; empty of other errors."""
    path = error.filename or Path.cwd()
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full ({path}). Free some space and run the same command again;\nnothing that was finished is lost."
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return (
            f"{path} cannot be written or read ({error.strerror}). Ask for the right to write there, copy the study to a folder"
            " of your own\n(cp -a), or name another cache by BGBIAS_CACHE; then run the same command again."
        )
    return ""
