"""The schemas that editors and the workflow catalogue read say what the models check."""

from __future__ import annotations

import runpy
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
    beside = Resource.from_contents(read("workflow/schemas/params.schema.yaml"))
    registry = Registry().with_resource("params.schema.yaml", beside)
    validator = Draft202012Validator(read(f"workflow/schemas/{schema}"), registry=registry)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(values)]


def test_schemas_of_settings_are_those_of_the_models() -> None:
    writer = runpy.run_path(str(SCHEMAS / "from_models.py"))
    for name, schema in writer["SCHEMAS"].items():
        written = (SCHEMAS / name).read_text(encoding="utf-8")
        assert written == writer["text"](schema()), "run: make schema"


@pytest.mark.parametrize("name", ["params.yaml", *(f"grids/{p.name}" for p in (ROOT / "grids").iterdir())])
def test_settings_of_the_project_fit_the_schema_that_they_name(name: str) -> None:
    first = (ROOT / name).read_text(encoding="utf-8").splitlines()[0]
    named = (ROOT / name).parent / first.removeprefix("# yaml-language-server: $schema=")
    assert mistakes(named.name, read(name)) == []
    assert named.resolve().parent == SCHEMAS


def test_mistakes_are_refused() -> None:
    params, grids = read("params.yaml"), read("grids/demo.yaml")
    params["datasets"]["cub200"]["markers"] = "u2net"
    grids["grids"]["demo"]["cells"][0]["seed"] = [0]
    for schema, values, wrong in (
        ("params.schema.yaml", params, "markers"),
        ("grids.schema.yaml", grids, "seed"),
        ("config.schema.yaml", read("config/config.yaml") | {"gird": "smoke"}, "gird"),
    ):
        (message,) = mistakes(schema, values)
        assert wrong in message
