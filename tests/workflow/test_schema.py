"""The schemas that editors and the workflow catalogue read say what the models check."""

from __future__ import annotations

import copy
import runpy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from project import ROOT
from referencing import Registry, Resource

SCHEMAS = ROOT / "workflow/schemas"


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def mistakes(schema: str, values: Any) -> list[str]:
    """What a schema has against some values, each with its place."""
    described = read(f"workflow/schemas/{schema}")
    Draft202012Validator.check_schema(described)
    beside = Resource.from_contents(read("workflow/schemas/params.schema.yaml"))
    validator = Draft202012Validator(
        described, registry=Registry().with_resource("params.schema.yaml", beside)
    )
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(values)]


def keys(node: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key that a schema describes, with where it stands."""
    for name, described in node.get("properties", {}).items():
        yield f"{place}.{name}", described
        yield from keys(described, f"{place}.{name}")
    for name, described in node.get("$defs", {}).items():
        yield from keys(described, name)


def tells(node: Any, definitions: dict[str, Any]) -> bool:
    """Whether a key says what it is, or is of a type that does."""
    if "description" in node:
        return True
    if "$ref" in node:
        return tells(definitions[node["$ref"].rpartition("/")[2]], definitions)
    inner = [node[k] for k in ("items", "additionalProperties") if isinstance(node.get(k), dict)]
    return any(tells(i, definitions) for i in inner + node.get("anyOf", []))


def test_schemas_of_settings_are_those_of_the_models() -> None:
    writer = runpy.run_path(str(SCHEMAS / "from_models.py"))
    for name, schema in writer["SCHEMAS"].items():
        written = (SCHEMAS / name).read_text(encoding="utf-8")
        assert written == writer["text"](schema()), "run: make schema"


def test_every_key_of_params_is_described() -> None:
    schema = read("workflow/schemas/params.schema.yaml")
    every = dict(keys(schema))
    assert {"grids", "Train.lr", "Block.seeds"} <= {k.removeprefix(".") for k in every}
    assert [place for place, node in every.items() if not tells(node, schema["$defs"])] == []


@pytest.mark.parametrize("name", ["params.yaml", *(f"grids/{p.name}" for p in (ROOT / "grids").iterdir())])
def test_settings_of_the_project_fit_and_name_their_schema(name: str) -> None:
    schema = "grids.schema.yaml" if name.startswith("grids/") else "params.schema.yaml"
    assert mistakes(schema, read(name)) == []
    first = (ROOT / name).read_text(encoding="utf-8").splitlines()[0]
    named = (ROOT / name).parent / first.removeprefix("# yaml-language-server: $schema=")
    assert named.resolve() == SCHEMAS / schema


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        (("train",), "max_epoch", 5),
        (("datasets", "cub200"), "markers", "u2net"),
    ],
)
def test_mistakes_in_params_are_refused(path: tuple[str | int, ...], key: str, value: Any) -> None:
    changed = copy.deepcopy(read("params.yaml"))
    place = changed
    for step in path:
        place = place[step]
    place[key] = value
    (told,) = mistakes("params.schema.yaml", changed)
    assert key in told


@pytest.mark.parametrize(
    ("path", "key", "value"), [(("grids", "demo", "cells", 0), "seed", [0]), ((), "train", {})]
)
def test_mistakes_in_a_file_of_grids_are_refused(path: tuple[str | int, ...], key: str, value: Any) -> None:
    changed = read("grids/demo.yaml")
    place = changed
    for step in path:
        place = place[step]
    place[key] = value
    (message,) = mistakes("grids.schema.yaml", changed)
    assert key in message


@pytest.mark.parametrize("config", ["config/config.yaml", ".test/config/config.yaml"])
def test_configs_of_the_project_fit_the_schema_of_a_config(config: str) -> None:
    assert mistakes("config.schema.yaml", read(config)) == []
    assert mistakes("config.schema.yaml", {"gird": "smoke"}) != []
