"""`pip install bgbias` is all that a person needs who has photos and a model: declared, complete, and nothing beside."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib.metadata import packages_distributions, requires
from inspect import signature
from pathlib import Path

import pytest
import torch
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from project import ROOT

import bgbias
from bgbias import plugins, seeds
from bgbias.images import pixels
from bgbias.masks import u2net
from bgbias.masks.predictor import WEIGHTS
from bgbias.models import model

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Found by pip where the platform has no wheel of faiss with a GPU's kernels.
ONLY_ELSEWHERE = {"faiss-cpu"}
LOGGER = "snakemake_logger_plugin_bgbias"  # which Snakemake finds by this name, beside the package


def declared(extra: str | None = None) -> dict[str, Requirement]:
    """What pyproject.toml asks for, by name; of an extra, with what it takes from another one."""
    listed = PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]
    asked = {r.name: r for r in map(Requirement, listed)}
    for other in asked.pop("bgbias").extras if "bgbias" in asked else ():
        asked |= declared(other)
    return asked


def imported() -> dict[str, set[str]]:
    """Top-level packages that the source imports, by the files that do; what is only for type checkers left out."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "src").rglob("*.py"):
        file = path.relative_to(ROOT / "src").as_posix().removeprefix("bgbias/")
        waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                continue
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                found.setdefault(name.partition(".")[0], set()).add(file)
            waiting += ast.iter_child_nodes(node)
    return {k: v for k, v in found.items() if k not in sys.stdlib_module_names and k != "bgbias"}


def test_every_package_that_the_source_imports_is_declared() -> None:
    brought = packages_distributions()
    core = declared().keys()
    extras = {name: declared(name).keys() for name in PROJECT["optional-dependencies"]}
    for name, files in imported().items():
        by = {distribution.lower() for distribution in brought[name]}
        if by & core:
            continue
        # What only an extra brings is asked for in few places, none of which the core needs.
        assert any(by & asked for asked in extras.values()), f"{name} is not declared: {files}"
        few = {"tracking", "masks", "models", LOGGER, "datasets/cuhk03.py"}
        few |= {"photos/coco.py", "photos/hugging_face.py"}
        assert all({file, file.partition("/")[0]} & few for file in files), (name, files)


def test_the_lock_is_one_of_the_environments_that_pip_may_make() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pinned = {m[1].lower(): m[2] for m in re.finditer(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)}
    for requirement in (declared() | declared("workflow")).values():
        if requirement.name not in ONLY_ELSEWHERE:
            assert requirement.specifier.contains(pinned[requirement.name.lower()]), requirement


def test_the_version_is_written_once_and_cited() -> None:
    assert "version" not in PROJECT
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == bgbias.__version__
    assert [a["name"] for a in cited["authors"]] == [a["name"] for a in PROJECT["authors"]]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, without network."""
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheels")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    without = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=without)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--wheel-dir", str(made), str(source)], check=True, env=_plain())
    (built,) = made.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel, which sees the packages of this one but nothing of this repository."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True, with_pip=False)
    programs = folder / "bin"
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True, env=_plain())
    return programs


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.startswith(wheel.name.rsplit("-", 3)[0])}
    # Also what is no code: lists of names, py.typed.
    places = [p for name in ("bgbias", LOGGER) for p in (ROOT / "src" / name).rglob("*")]
    files = [p for p in places if p.is_file() and p.parent.name != "__pycache__"]
    assert names == {p.relative_to(ROOT / "src").as_posix() for p in files}
    assert "bgbias/py.typed" in names


def brought_by_the_core() -> set[str]:
    """The distributions that `pip install .` brings, by their canonical names."""
    found: set[str] = set()
    waiting = list(PROJECT["dependencies"])
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found.add(name)
            waiting += requires(name) or ()
    return found


# What an environment without extras lacks cannot be imported.
HER_SCRIPT = """
import sys
class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name in ABSENT:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
sys.meta_path.insert(0, Nowhere())

import bgbias, numpy
from bgbias.auditing import masker
vectors = bgbias.embed(bgbias.load("model.safetensors"), ["0.png", "1.png", "2.png"])
ranking = bgbias.rank(vectors, ["a", "a", "b"])
print(bgbias.__file__, ranking.metrics["map_at_r"].notna().sum())
(mask,) = masker.find(MASKER, None, "cpu").build()([numpy.zeros((40, 40, 3), "uint8")])
print(mask.alpha.shape)
"""


def test_the_installed_core_works_from_any_folder(installed: Path, tmp_path: Path) -> None:
    """It embeds, ranks and masks with the usual network of audits, whose weights are an ONNX file."""
    kept, usual = brought_by_the_core() | {"bgbias"}, signature(bgbias.audit).parameters["masker"].default
    brought = packages_distributions()
    absent = {name for name, by in brought.items() if not kept & {canonicalize_name(b) for b in by}}
    assert {"snakemake", "mlflow", "pycocotools", "onnxruntime"} <= absent
    params = plugins.load("backbones", "tiny").Params()
    network = model.build_model("tiny", params, 8, seeds.torch_generator("wheel"))
    model.save(network, tmp_path / "model.safetensors")
    for number in range(3):
        photo = seeds.generator("wheel", number).integers(0, 256, (70, 80, 3), "uint8")
        (tmp_path / f"{number}.png").write_bytes(pixels.encode_png(photo))
    weights = tmp_path / "cache" / WEIGHTS / plugins.load("maskers", usual).PUBLISHED[0].called
    weights.parent.mkdir(parents=True)
    assert weights.suffix == ".onnx"
    torch.onnx.export(u2net.u2netp().eval(), (torch.rand(1, 3, 32, 32),), weights, dynamo=False)
    code = f"ABSENT, MASKER = {absent}, '{usual}'\n{HER_SCRIPT}"
    said = _run([installed / "python", "-c", code], tmp_path, BGBIAS_CACHE=str(tmp_path / "cache"))
    file, *rest = said.split(maxsplit=2)
    assert Path(file).is_relative_to(installed.parent)
    assert rest == ["2", "(40, 40)\n"]
    assert _run([installed / "bgbias", "--version"], tmp_path) == f"bgbias {bgbias.__version__}\n"


def _run(command: list[str | Path], folder: Path, **environment: str) -> str:
    around = _plain() | environment
    done = subprocess.run(command, cwd=folder, env=around, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _plain() -> dict[str, str]:
    """The surroundings of a person who has never heard of this repository."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "BGBIAS_"))}
