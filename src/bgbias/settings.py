"""The base of every set of options: frozen, and closed to unknown keys; and how a mistake in them is told."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic.errors import PydanticInvalidForJsonSchema

from bgbias.errors import UserError

# Else pydantic reads the metadata of all installed packages for plugins of its own, whenever a command starts.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


class Strict(BaseModel):
    """Options that are refused, never dropped: a misspelt margin must not train happily."""

    # A command uses few of the many sets of options that are imported with it: each is compiled when it is first used.
    # No setting is meant to be infinite, or no number.
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        defer_build=True,
        allow_inf_nan=False,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _is_meant(cls, value: Any, info: ValidationInfo) -> Any:
        """Pydantic takes true for 1; and an empty text, as a path, for the folder that we are in."""
        held = value if isinstance(value, list | tuple) else (value,)
        if any(isinstance(v, bool) for v in held):
            taken = set(_types(cls.model_fields[str(info.field_name)].annotation))
            if taken & {int, float} and not taken & {bool, Any}:
                raise ValueError("true and false are no numbers")
        if (
            any(isinstance(v, str) and not v for v in held)
            and cls.model_fields[str(info.field_name)].default != ""
        ):
            raise ValueError("it must not be empty; leave the key out, or write null, if nothing is meant")
        return value


def _types(annotation: Any) -> Iterator[Any]:
    """The types that an annotation is made of: ``int`` and ``NoneType`` of ``int | None``."""
    inner = getattr(annotation, "__args__", ())
    if not inner:
        yield annotation
    for argument in inner:
        yield from _types(argument)


LONGEST_FOUND = 80  # characters of a wrong value that a message shows
WORDS = {
    "string": "text",
    "boolean": "true or false",
    "object": "a mapping of keys",
    "null": "null",
}

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
    """``values`` as a ``model``; a mistake is an error with the file, the whole key, and the nearest right key or what the
    key may hold.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        # An unknown key comes first: it is the reason why a required one next to it is missing.
        first: Any = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        raise UserError(f"{path}: {_told(model, first, where)}") from error


def _told(model: type[BaseModel], mistake: dict[str, Any], where: str) -> str:
    """A mistake that pydantic found, in plain words and with the key as people write it."""
    place, kind = mistake["loc"], mistake["type"]
    if kind == "extra_forbidden":
        known = _known_keys(model, place[:-1])
        near = difflib.get_close_matches(str(place[-1]), known, 1, cutoff=0.5)
        hint = f"Did you mean '{near[0]}'?" if near else f"Known keys: {', '.join(known) or 'none'}."
        return f"unknown key '{_key(where, place)}'. {hint}"
    if place and place[-1] == "[key]":
        return f"'{_key(where, place[:-1])}': a name must be text; write it in quotes."
    if kind == "missing" and isinstance(place[-1], int):  # the second of two numbers
        kind, place = "too_short", place[:-1]
    try:
        place, allowed = _allowed(model, place)
    except PydanticInvalidForJsonSchema:
        allowed = ""
    key = _key(where, place)
    own = mistake.get("ctx", {}).get("error") or ("" if allowed else mistake["msg"])
    found = "" if isinstance(mistake["input"], dict) and own else f" (found: {_found(mistake['input'])})"
    if kind == "missing":
        return f"'{key}' is missing; it must be {allowed}."
    return f"'{key}': {own}{found}." if own else f"'{key}' must be {allowed}{found}."


def _key(where: str, place: tuple[int | str, ...]) -> str:
    return ".".join(map(str, ([where] if where else []) + list(place)))


def _found(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_FOUND else f"{text[: LONGEST_FOUND - 3]}..."


def _allowed(model: type[BaseModel], place: tuple[int | str, ...]) -> tuple[tuple[int | str, ...], str]:
    """The place without what only pydantic calls so (a member of a union), and what may stand there, in words."""
    schema = model.model_json_schema()
    definitions = schema.get("$defs", {})
    current = schema
    way: list[int | str] = []
    for step in place:
        inside = _inside(current, step, definitions)
        if inside is not None:
            current, way = inside, [*way, step]
    return tuple(way), _words(current, definitions)


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    return definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def _inside(schema: dict[str, Any], step: int | str, definitions: dict[str, Any]) -> dict[str, Any] | None:
    schema = _resolved(schema, definitions)
    if step in schema.get("properties", {}):
        return dict(schema["properties"][step])
    if isinstance(step, int) and schema.get("type") == "array":
        first = schema.get("prefixItems", [])
        return dict(first[step] if step < len(first) else schema.get("items") or {})
    if isinstance(schema.get("additionalProperties"), dict):
        return dict(schema["additionalProperties"])
    members = (_inside(s, step, definitions) for s in schema.get("anyOf", ()))
    return next((m for m in members if m is not None), None)


def _words(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """What a JSON schema takes: ``a whole number of 1 or more, or null``."""
    schema = _resolved(schema, definitions)
    if "anyOf" in schema:
        return ", or ".join(_words(s, definitions) for s in schema["anyOf"])
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    if "const" in schema:
        return str(schema["const"])
    if schema.get("type") in ("integer", "number"):
        return ("a whole number" if schema["type"] == "integer" else "a number") + _bounds(schema)
    if schema.get("type") == "array":
        items = schema.get("prefixItems") or [schema.get("items") or {}]
        number = len(items) if "prefixItems" in schema else schema.get("minItems") and "one or more"
        return f"a list{f' of {number} values' if number else ''}, each {_words(items[0], definitions)}"
    return WORDS.get(schema.get("type", ""), "something else")


def _bounds(schema: dict[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" from {low:.12g} to {high:.12g}"
    told = [
        f"{word} {schema[key]:.12g}{more}"
        for key, word, more in (
            ("minimum", "of", " or more"),
            ("exclusiveMinimum", "above", ""),
            ("maximum", "of", " or less"),
            ("exclusiveMaximum", "below", ""),
        )
        if key in schema
    ]
    return f" {' and '.join(told)}" if told else ""


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
