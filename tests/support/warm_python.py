"""Commands in processes that begin with imports done, of nothing of ours, which differs from folder to folder.

A server of multiprocessing forks for every command. What a command is told, its folder, environment and arguments, is what
``python -m`` would have. Tests that look into ``/proc``, or send signals, start what they look at by ``Project.start``.
"""

import atexit
import gc
import multiprocessing
import os
import runpy
import sys
from pathlib import Path
from unittest import mock

# What takes more than a tenth of a second to import; MLflow and whatever starts threads is left to those who need it.
IMPORTED = ["snakemake.cli", "dvc.cli.parser", "dvc.repo", "dvc.commands.repro", "typer", "rich.console"]
IMPORTED += ["pandas", "pydantic", "torch", "pyarrow.parquet", "matplotlib.figure", "scipy.stats"]
# What else a command's environment says must be what the imported modules have read.
FREE = {"PATH", "PYTHONPATH", "BGBIAS_TRACK"}
THREADS = {"OMP_NUM_THREADS": "1"}  # which libraries read when they are imported
ROOT = Path(__file__).resolve().parents[2]
OURS = {str(ROOT), str(ROOT / "src"), str(ROOT / "tests/support")}


def run(words: tuple[str, ...], folder: Path, environment: dict[str, str], said: str, seconds: float) -> int:
    """``python -m WORDS`` in a folder, which says what it says to a file; its exit code."""
    assert environment.items() >= THREADS.items()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    process = context.Process(target=_become, args=(words, str(folder), environment, said))
    with mock.patch.dict(os.environ, THREADS):
        process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
    assert process.exitcode is not None
    return process.exitcode


def _become(words: tuple[str, ...], folder: str, environment: dict[str, str], said: str) -> None:
    """Be this command."""
    gc.freeze()  # else it would look through all that is imported for garbage, and copy it doing so
    with Path(said).open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    searched = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [folder, *searched, *(path for path in sys.path if path not in OURS)]
    sys.argv = list(words)
    sys.orig_argv[:] = [sys.executable, "-m", *words]
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()
