"""The conda environment as far as it can be tried without conda: a real solver, a channel of this machine, the installed pins."""

from __future__ import annotations

import asyncio
import json
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from project import ROOT

FILES = sorted((ROOT / "workflow/envs").glob("*.yaml"))
OFFERED = {"python": {"3.10.14": [], "3.11.9": [], "3.12.4": []}, "pip": {"24.0": ["python >=3.8"]}}


def described(file: Path) -> dict[str, Any]:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


@pytest.fixture
def channel(tmp_path: Path) -> str:
    """A channel that offers several Pythons, and pip; there are packages in it by name only."""
    packages = {
        f"{name}-{version}-0.conda": {
            **{"name": name, "version": version, "build": "0", "build_number": 0, "depends": needs},
            **{"subdir": "linux-64", "sha256": "0" * 64, "size": 1},
        }
        for name, versions in OFFERED.items()
        for version, needs in versions.items()
    }
    for folder, found in {"linux-64": packages, "noarch": {}}.items():
        (tmp_path / folder).mkdir()
        repodata = {"info": {"subdir": folder}, "packages": {}, "packages.conda": found}
        (tmp_path / folder / "repodata.json").write_text(json.dumps(repodata), encoding="utf-8")
    return tmp_path.as_uri()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_solver_finds_the_python_of_the_project(file: Path, channel: str) -> None:
    rattler = pytest.importorskip("rattler", reason="the solver is not installed: make cluster")
    wanted = [line for line in described(file)["dependencies"] if isinstance(line, str)]
    solved = asyncio.run(rattler.solve([rattler.Channel(channel)], wanted, platforms=["linux-64", "noarch"]))
    assert {(found.name.normalized, str(found.version)) for found in solved} == {
        ("python", "3.11.9"),
        ("pip", "24.0"),
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_pins_are_all_that_their_packages_ask_for(file: Path) -> None:
    """What pip would resolve them to: every requirement of an installed pin is a pin, of a version that it allows."""
    listed = described(file)["dependencies"][-1]["pip"]
    pins = {_name(r.name): r for r in map(Requirement, listed) if not r.marker or r.marker.evaluate()}
    versions = {name: str(r.specifier).removeprefix("==") for name, r in pins.items()}
    wrong, asked = [], 0
    for name in pins:
        for line in metadata.requires(name) or ():
            needed = Requirement(line)
            if needed.marker and not needed.marker.evaluate({"extra": ""}):
                continue
            asked += 1
            pinned = versions.get(_name(needed.name))
            if pinned is None or not needed.specifier.contains(pinned, prereleases=True):
                wrong.append(f"{name} wants {needed}, the pin is {pinned}")
    assert not wrong, "\n".join(wrong)
    assert asked > len(pins)


def _name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
