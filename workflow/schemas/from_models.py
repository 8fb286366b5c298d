"""Write the schema of params.yaml from the models that check it: `python workflow/schemas/from_models.py` (`make schema`).

Editors that know YAML Language Server complete keys from it. What a plugin's own ``Params`` takes stays open in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from bgbias.study.params import File

SCHEMA = Path(__file__).with_name("params.schema.yaml")
HEAD = "# Made from the models in src/bgbias/study/params.py and those that it imports; `make schema` rewrites it.\n"


def schema() -> dict[str, Any]:
    """The JSON schema of params.yaml."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "params.yaml"}
    return dialect | _plain(File.model_json_schema() | {"description": File.__doc__})


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
    SCHEMA.write_text(text(schema()), encoding="utf-8")
