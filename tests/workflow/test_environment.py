"""Files that say the same: one environment, however it is made, and schemas of the models that check settings; and no file knows
the machine it was written on.
"""

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from packaging.requirements import Requirement
from project import ROOT
from referencing import Registry, Resource

# What may be added to the environment, for a cluster and for `make bench`.
ADDED = ("requirements-cluster", "requirements-bench")
# What a channel offers: packages by name only.
CONDA = ROOT / "workflow/envs/bgbias.yaml"
SCHEMAS = ROOT / "workflow/schemas"
FINDER = ROOT / "workflow/envs/find_python.sh"
RUNS = f'exec {sys.executable} "$@"'
# Spelled in pieces, or this file would be the first to offend.
HOME = r"(?<![\w.:/$}])/" + "(?:work|home|root|Users|opt|mnt|farm)" + r"/[\w.-]+"


def test_conda_environment_is_the_lock() -> None:
    from_lock = runpy.run_path(str(ROOT / "workflow/envs/from_lock.py"))
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert CONDA.read_text(encoding="utf-8") == from_lock["environment"](lock), "run: make lock"


@pytest.mark.parametrize("lock", [f"{name}.lock" for name in ("requirements", "requirements-uv", *ADDED)])
def test_every_package_of_a_lock_has_hashes_and_no_lock_names_a_host(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=\w)", text)
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in text
    assert not re.search(r"^-", text, re.MULTILINE), "an option of pip, such as an index"


@pytest.mark.parametrize("name", ["requirements", *ADDED])
def test_lock_resolves_what_is_asked_for_and_changes_no_package_of_the_first(name: str) -> None:
    pinned, locked = _pins("requirements.lock"), _pins(f"{name}.lock")
    for line in (ROOT / f"{name}.in").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith(("#", "-")):
            requirement = Requirement(line)
            assert requirement.specifier.contains(locked[requirement.name.lower()]), requirement
    assert {k: v for k, v in locked.items() if pinned.get(k, v) != v} == {}


def test_all_environments_take_the_same_pythons() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=3.11,<3.15"
    named = {line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line}
    assert named == {"3.11", "3.12", "3.13", "3.14"}
    finder = FINDER.read_text(encoding="utf-8")
    assert "(3, 11) <= sys.version_info < (3, 15)" in finder
    assert all(f"python{version}" in finder for version in named)
    conda = read("workflow/envs/bgbias.yaml")["dependencies"][0]
    assert project["requires-python"].startswith(f">={conda.removeprefix('python=')}")


@pytest.mark.parametrize(
    ("pythons", "named", "found"),
    [
        # As pyenv and Debian have them: a name with no Python behind it, and a Python without venv.
        ({"python3.13": "exit 127", "python3.12": "exit 1", "python3.11": RUNS}, (), "python3.11"),
        ({"python3.13": RUNS, "mine": RUNS}, ("mine",), "mine"),
        ({"python3.13": RUNS, "broken": "exit 1"}, ("broken",), ""),
        ({}, (), ""),
    ],
)
def test_the_first_python_that_runs_makes_the_environment(
    tmp_path: Path, pythons: dict[str, str], named: tuple[str, ...], found: str
) -> None:
    for name, line in pythons.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    command = ["/bin/sh", str(FINDER), *named]
    ran = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert (ran.stdout.strip(), bool(ran.returncode)) == (found, not found)
    assert pythons or "No Python from 3.11 to 3.14" in ran.stderr


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout")
    # -I: no binary files.
    command = ["git", "grep", "-I", "--line-number", "--perl-regexp", HOME]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr) == (1, "", "")


def test_every_rule_that_runs_our_code_has_the_environment() -> None:
    for file in sorted((ROOT / "workflow/rules").glob("*.smk")):
        for rule in re.split(r"\n(?=rule )", file.read_text(encoding="utf-8")):
            if rule.startswith("rule ") and "python -m bgbias" in rule:
                assert '    conda:\n        "../envs/bgbias.yaml"\n' in rule, rule[:60]


def _pins(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return {m[1]: m[2] for m in re.finditer(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)}


@pytest.mark.parametrize("name", sorted(path.parent.name for path in ROOT.glob("profiles/*/config.yaml")))
def test_profile_keeps_what_the_default_one_says_of_reruns(name: str) -> None:
    profile, default = (read(f"profiles/{n}/config.yaml") for n in (name, "default"))
    # Cores are another machine's, or told by jobs.
    assert profile.items() >= {k: v for k, v in default.items() if k != "cores"}.items()


# Schemas that editors and the workflow catalogue read.


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
