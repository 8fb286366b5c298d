"""Write the schemas of params.yaml and grids/*.yaml from the models that check them (`make schema`).

Editors that know YAML Language Server complete keys from it. What a plugin's own ``Params`` takes stays open in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from bgbias.study.params import NAMED, File

FOLDER = Path(__file__).parent
DIALECT = "https://json-schema.org/draft/2020-12/schema"
HEAD = "# Made from the models in src/bgbias/study/params.py and those that it imports; `make schema` rewrites it.\n"


def params() -> dict[str, Any]:
    """The JSON schema of params.yaml; what has a name may stand in grids/ instead."""
    described = File.model_json_schema() | {"description": File.__doc__, "required": ["grid"]}
    return {"$schema": DIALECT, "title": "params.yaml"} | _plain(described)


def grids() -> dict[str, Any]:
    """The JSON schema of a file in grids/."""
    return {
        "$schema": DIALECT,
        "title": "grids/*.yaml",
        "type": "object",
        "additionalProperties": False,
        "properties": {name: {"$ref": f"params.schema.yaml#/properties/{name}"} for name in NAMED},
    }


SCHEMAS = {"params.schema.yaml": params, "grids.schema.yaml": grids}


def text(described: dict[str, Any]) -> str:
    """The schema's file."""
    return HEAD + yaml.safe_dump(described, sort_keys=False, allow_unicode=True, width=110)


def _plain(node: Any) -> Any:
    """The same without the titles that pydantic makes up from the keys, and with each docstring on one line."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {k: v for k, v in node.items() if not (k == "title" and isinstance(v, str))}
    return {
        k: " ".join(v.split()) if k == "description" and isinstance(v, str) else _plain(v)
        for k, v in kept.items()
    }


if __name__ == "__main__":
    for name, schema in SCHEMAS.items():
        (FOLDER / name).write_text(text(schema()), encoding="utf-8")
