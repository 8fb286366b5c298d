"""Write the conda environment from the lock: `python workflow/envs/from_lock.py` (part of `make lock`).

Conda brings Python and pip; every package comes from the same list as in the plain environment, so that both
are one. A ``pip:`` section of an environment file knows no hashes: those are checked by `make setup` alone.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
ENVIRONMENT = ROOT / "workflow" / "envs" / "bgbias.yaml"
REQUIREMENT = re.compile(r"^(?P<pin>[A-Za-z0-9._-]+==[^\s;\\]+)\s*(?:;\s*(?P<marker>[^\\]+?))?\s*\\?$")
HEAD = """\
# Made from requirements.lock by workflow/envs/from_lock.py; `make lock` rewrites it.
name: bgbias
channels:
  - conda-forge
dependencies:
  - python=3.11
  - pip
  - pip:
"""


def requirements(lock: str) -> list[str]:
    """Every ``name==version``, with its marker where it has one, in the lock's order."""
    found = [REQUIREMENT.match(line) for line in lock.splitlines() if line[:1].isalnum()]
    return [f"{m['pin']} ; {m['marker']}" if m["marker"] else m["pin"] for m in found if m]


def environment(lock: str) -> str:
    """The environment file's text."""
    return HEAD + "".join(f"      - {_quoted(line)}\n" for line in requirements(lock))


def _quoted(line: str) -> str:
    return f'"{line}"' if ";" in line else line


if __name__ == "__main__":
    ENVIRONMENT.write_text(environment(LOCK.read_text(encoding="utf-8")), encoding="utf-8")
