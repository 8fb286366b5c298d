"""Fixtures that several tests share."""

import fcntl
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import project
import pytest
from project import Project

from bgbias import errors, plugins

ROOT = Path(__file__).resolve().parents[1]

# Tests start hundreds of Python processes: whatever the surroundings say, what one has compiled the next one finds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """A process that dies ends the run, which names its test: by files, xdist would hand finished ones out, and wait for ever."""
    if hasattr(config.option, "maxworkerrestart"):
        config.option.maxworkerrestart = "0"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("torch sees no GPU")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that run the workflow come first: the last ones shall be short, or one core waits for the other."""
    long = {item.path for item in items if item.get_closest_marker("workflow")}
    items.sort(key=lambda item: item.path not in long)


def pytest_collection_finish() -> None:
    """What all tests have imported stays: a million objects that collections of garbage need not look through each time.

    A test makes many objects that live as long as it does: looking for garbage at every 700th takes a tenth of the time of some.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real photos, hand-drawn masks and weights that stays outside the repository."""
    folder = Path(os.environ.get("BGBIAS_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the shared photos are absent: {folder} (set BGBIAS_SHARED_DATA)")
    return folder


@pytest.fixture(autouse=True)
def _as_if_alone() -> Iterator[None]:
    """Messages name the file of the study that was read last: not of another test's. A model that MLflow loads leaves its folder
    of code, in which little of ours lies, where modules are looked for.
    """
    errors.speak_of(errors.USUAL)
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.fixture
def small_plugins() -> Iterator[None]:
    """The small dataset, backbone, masker, method and neck under support/plugins, found by name as if they were our own."""
    plugins.use(ROOT / "tests" / "support" / "plugins")
    yield
    plugins.use()


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    """The params.yaml of a small study, to be changed at will."""
    from small_study import described

    return described(tmp_path)


@pytest.fixture(scope="session")
def common_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all test processes of one run of pytest share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session", autouse=True)
def _a_cache_of_their_own(common_folder: Path) -> None:
    """What a person's computer keeps (places.cache) is kept for one run of pytest, and nothing of hers is met."""
    os.environ["BGBIAS_CACHE"] = str(common_folder / "cache")


@pytest.fixture(scope="session")
def smoke_run(common_folder: Path) -> Project:
    """The grid `smoke`, run once from photos to figures, MLflow told. Tests that change anything copy it."""
    finished = common_folder / "smoke_finished"
    with (common_folder / "smoke_lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if finished.exists():
            return Project(common_folder / "smoke")
        made = project.fresh(common_folder / "smoke")
        around = {"BGBIAS_TRACK": "1", "PYTHONPATH": str(made.folder / "src")}
        said = made.snakemake("--logger", "bgbias", "--config", "grid=smoke", **around)
        (made.folder / "data/work/logs/said.txt").write_text(said, encoding="utf-8")
        made.bgbias("track", "--grid", "smoke")  # on a busy machine MLflow is told a little later
        finished.touch()
        return made
