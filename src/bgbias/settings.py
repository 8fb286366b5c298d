"""The base of every set of options: frozen, and closed to unknown keys; and how a mistake in them is told."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from bgbias.errors import UserError

# Else pydantic reads the metadata of all installed packages for plugins of its own, whenever a command starts.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


class Strict(BaseModel):
    """Options that are refused, never dropped: a misspelt margin must not train happily."""

    # A command uses few of the many sets of options that are imported with it: each is compiled when it is first used.
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, defer_build=True)


# The parser in C, where the wheel has it, is ten times as fast; every node reads the settings.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):
    """YAML without its habit of letting the last of two equal keys win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]  # type: ignore[no-untyped-call]
        for key, (place, _) in zip(keys, node.value, strict=True):
            if keys.count(key) > 1:
                twice = f"key '{key}' is given twice"
                raise yaml.constructor.ConstructorError(problem=twice, problem_mark=place.start_mark)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; a missing file, wrong syntax and a key given twice are errors that say where."""
    if not path.exists():
        raise UserError(f"{path} is missing; run from the project's folder, or name the file with --params.")
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(raw, dict):
        raise UserError(f"{path} must be a mapping of keys, as in the file that came with the project.")
    return raw


def validated(model: type[Any], values: Any, path: Path, where: str = "") -> Any:
    """``values`` as a ``model``; a mistake is an error with the file, the whole key, and the nearest right key."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        # An unknown key comes first: it is the reason why a required one next to it is missing.
        first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        key = ".".join(map(str, ([where] if where else []) + list(first["loc"])))
        if first["type"] == "extra_forbidden":
            known = _known_keys(model, first["loc"][:-1])
            near = difflib.get_close_matches(str(first["loc"][-1]), known, 1, cutoff=0.5)
            hint = f" Did you mean '{near[0]}'?" if near else f" Known keys: {', '.join(known) or 'none'}."
            raise UserError(f"{path}: unknown key '{key}'.{hint}") from error
        found = "" if first["type"] == "missing" else f" (found: {first['input']!r})"
        raise UserError(f"{path}: '{key}': {first['msg']}{found}") from error


def _known_keys(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Field names of the model that ``location`` leads to, through nested models, lists and mappings."""
    current: Any = model
    for step in location:
        if isinstance(current, type) and issubclass(current, BaseModel) and step in current.model_fields:
            current = current.model_fields[str(step)].annotation
        current = _model_inside(current)
    fields = getattr(current, "model_fields", {})
    return list(fields)


def _model_inside(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _model_inside(inner)
        if found is not None:
            return found
    return None
