"""Losses and methods with other settings, each called after what it changes.

``contrastive+neg_margin=0.3`` is the loss contrastive with that margin; ``contrastive+train.lr=0.001`` the same loss, trained at
that rate; ``attr_frac+weight=2+bgaugment`` a method with that weight on replaced backgrounds. The name says all of it: paths,
tables and commands carry the values, and nobody keeps a list of variants.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from bgbias.errors import UserError

Value = bool | int | float | str | None
OF_TRAINING = "train."
# Tables say these once for all models of a grid.
COMMON = ("embedding_dim", "batch_size", "iterations_per_epoch", "selection")
LONGEST = 128  # characters: a variant is a folder
_WORD = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_KEY = re.compile(rf"({re.escape(OF_TRAINING)})?[A-Za-z_]\w*", re.ASCII)
_WHOLE = 1e15  # below it a float holds every whole number


def value(written: object) -> Value:
    """A value as names have it: 20 for 20.0, and the number for ``1e-4``, which YAML takes for text.

    What a name cannot hold is a ValueError.
    """
    if isinstance(written, str):
        if not _WORD.fullmatch(written):
            try:
                written = json.loads(written)
            except ValueError:
                raise ValueError(f"a name cannot hold {written!a}") from None
        elif written in ("true", "false", "null"):
            return json.loads(written)  # type: ignore[no-any-return]
    if isinstance(written, float):
        if written != written or abs(written) == float("inf"):
            raise ValueError("no setting is infinite, or no number")
        return int(written) if written.is_integer() and abs(written) < _WHOLE else written
    if written is None or isinstance(written, bool | int | str):
        return written
    raise ValueError("one number or word at a time: a variant is called after it")


def format_name(name: str, changed: Mapping[str, Value]) -> str:
    """A loss or method with other settings, by name; what stands behind the method's own name stays there."""
    first, *changes = name.split("+")
    return "+".join([first, *(f"{key}={_text(changed[key])}" for key in sorted(changed)), *changes])


def parse_name(name: str) -> tuple[str, dict[str, Value]]:
    """A name without the settings that it says, and these; a name that ``format_name`` would spell in another way is an error."""
    parts = name.split("+")
    options = [part.partition("=") for part in parts if "=" in part]
    alone = "+".join(part for part in parts if "=" not in part)
    if not options:
        return name, {}
    try:
        changed = {key: value(text) for key, _, text in options}
    except ValueError as error:
        raise UserError(f"{name!a} is no variant: {error}.") from error
    if wrong := next((key for key in changed if not _KEY.fullmatch(key)), None):
        raise UserError(f"{name!a} is no variant: no setting is called {wrong!a}.")
    if (spelled := format_name(alone, changed)) != name:
        raise UserError(f"{name!a} is no variant's name; write '{spelled}'.")
    if len(name) > LONGEST:
        raise UserError(
            f"'{name[:LONGEST]}...' is too long for a folder's name: sweep fewer settings at once."
        )
    return alone, changed


def training_settings(loss: str) -> dict[str, Value]:
    """The settings of training that a loss's name says, by their keys under ``train``; what all models share is refused."""
    changed = parse_name(loss)[1].items()
    options = {key.removeprefix(OF_TRAINING): v for key, v in changed if key.startswith(OF_TRAINING)}
    for key in options.keys() & set(COMMON):
        raise UserError(f"'{loss}': {common(key)}.")
    return options


def common(key: str) -> str:
    """Why a setting of training has one value in a grid."""
    return f"train.{key} is one for all models of a grid, since tables say it once; write another grid for another value"


def _text(changed: Any) -> str:
    return changed if isinstance(changed, str) else json.dumps(changed).replace("e+", "e")
