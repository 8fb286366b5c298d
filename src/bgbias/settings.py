"""The base of every set of options: frozen, and closed to unknown keys; and how a mistake in them is told."""

import difflib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic.json_schema import GenerateJsonSchema

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

    @field_validator("*", mode="wrap")
    @classmethod
    def _is_meant(cls, value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        """Pydantic takes true for 1; and an empty text, as a path, for the folder that we are in."""
        default = cls.model_fields[str(info.field_name)].default
        if default != "" and any(item == "" for item in _items(value)):
            raise ValueError("it must not be empty; leave the key out, or write null, if nothing is meant")
        result = validate(value)
        if _has_bool(value) and not _has_bool(result):
            raise ValueError("true and false are no numbers")
        return result


def _items(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _has_bool(value: Any) -> bool:
    return any(isinstance(item, bool) for item in _items(value))


def each_once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """These values; one that is there twice is refused."""
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice} is named twice")
    return values


Names = Annotated[tuple[str, ...], AfterValidator(each_once)]
LONGEST_VALUE = 80  # characters of a wrong value that a message shows

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
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(raw, dict):
        raise UserError(f"{path} must be a mapping of keys, as in the file that came with the project.")
    return raw


WORDS: dict[str, dict[str, str]] = read_yaml(Path(__file__).with_suffix(".yaml"))


def validate(model: type[Any], values: Any, path: Path, where: str = "") -> Any:
    """``values`` as a ``model``; a mistake names the file, the whole key and what is right."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        # An unknown key comes first: it is the reason why a required one next to it is missing.
        first: Any = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        raise UserError(f"{path}: {_explanation(model, first, where)}") from error


class _Schema(GenerateJsonSchema):
    """A JSON schema of settings that have values of Python's own, which may be anything in it."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> dict[str, Any]:
        return {}


def _explanation(model: type[BaseModel], mistake: dict[str, Any], where: str) -> str:
    """A mistake that pydantic found, in plain words and with the key as people write it."""
    place, kind = mistake["loc"], mistake["type"]
    if place and place[-1] == "[key]":
        return f"'{_key(where, place[:-1])}': a name must be text; write it in quotes."
    if kind == "missing" and isinstance(place[-1], int):  # the second of two numbers
        kind, place = "too_short", place[:-1]

    schema = model.model_json_schema(schema_generator=_Schema)
    definitions = schema.get("$defs", {})
    path: list[int | str] = []
    for step in place:
        below = _below(schema, step, definitions)
        # Else the step is what only pydantic calls so: a member of a union.
        if below is not None:
            schema = below
            path.append(step)

    if kind == "extra_forbidden":
        members = _members(schema, definitions)
        keys = [key for member in members for key in member.get("properties", ())]
        near = difflib.get_close_matches(str(place[-1]), keys, 1, cutoff=0.5)
        hint = f"Did you mean '{near[0]}'?" if near else f"Known keys: {', '.join(keys) or 'none'}."
        return f"unknown key '{_key(where, place)}'. {hint}"
    key, allowed = _key(where, path), _words(schema, definitions)
    if kind == "missing":
        return f"'{key}' is missing; it must be {allowed}."
    reason = mistake.get("ctx", {}).get("error") or ("" if allowed else mistake["msg"])
    text = json.dumps(mistake["input"], ensure_ascii=False, default=str)
    if len(text) > LONGEST_VALUE:
        text = f"{text[: LONGEST_VALUE - 3]}..."
    value = "" if isinstance(mistake["input"], dict) and reason else f" (found: {text})"
    return f"'{key}': {reason}{value}." if reason else f"'{key}' must be {allowed}{value}."


def _key(where: str, place: Iterable[int | str]) -> str:
    return ".".join(map(str, [where, *place] if where else place))


def _members(schema: dict[str, Any], definitions: dict[str, Any]) -> list[dict[str, Any]]:
    """The alternatives that a JSON schema has, without references; one that has none is its own."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if "anyOf" not in schema:
        return [schema]
    return [member for other in schema["anyOf"] for member in _members(other, definitions)]


def _below(schema: dict[str, Any], step: int | str, definitions: dict[str, Any]) -> dict[str, Any] | None:
    """The JSON schema of one key or item of what the schema is of; None if it has no such."""
    for member in _members(schema, definitions):
        if step in member.get("properties", {}):
            return dict(member["properties"][step])
        if isinstance(step, int) and member.get("type") == "array":
            first = member.get("prefixItems", [])
            return dict(first[step] if step < len(first) else member.get("items") or {})
        if isinstance(member.get("additionalProperties"), dict):
            return dict(member["additionalProperties"])
    return None


def _words(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """What a JSON schema takes: ``a whole number of 1 or more, or null``; empty if it does not say."""
    words = [_words_of_one(member, definitions) for member in _members(schema, definitions)]
    return ", or ".join(filter(None, words))


def _words_of_one(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    if "const" in schema:
        return str(schema["const"])
    kind = schema.get("type", "")
    if kind in ("integer", "number"):
        return WORDS["kinds"][kind] + _bounds(schema)
    if kind == "array":
        items = schema.get("prefixItems") or [schema.get("items") or {}]
        number = len(items) if "prefixItems" in schema else schema.get("minItems") and "one or more"
        each = _words(items[0], definitions)
        return f"a list{f' of {number} values' if number else ''}{f', each {each}' if each else ''}"
    return WORDS["kinds"].get(kind, "")


def _bounds(schema: dict[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" from {low:.12g} to {high:.12g}"
    words = [template.format(schema[key]) for key, template in WORDS["bounds"].items() if key in schema]
    return f" {' and '.join(words)}" if words else ""
