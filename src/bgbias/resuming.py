"""Going on after a kill: leftover processes end, Snakemake's lock opens, the workflow runs on.

When Snakemake is killed outright its jobs live on and go on writing; when a job is killed, its record stays behind as
``running``. Both are found by the records of running nodes, which name their process.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bgbias import records
from bgbias.errors import UserError
from bgbias.params import Study
from bgbias.progress import say

if TYPE_CHECKING:
    import psutil

GRACE_SECONDS = 10.0


def resume(study: Study, grid: str | None, arguments: list[str]) -> int:
    """End orphaned nodes, unlock, and run Snakemake with ``arguments``; its exit status comes back.

    A Snakemake that is still alive in this folder is not disturbed: that is an error which names it.
    """
    alive = _snakemake_here()
    if alive is not None:
        raise UserError(f"Snakemake is at work in this folder (process {alive}); wait for it, or stop it with: kill {alive}")
    for record, process in orphans(study):
        say(f"ends {process.pid}: {' '.join(process.cmdline()[1:6])} ...")
        _end(process)
        record.unlink(missing_ok=True)
    chosen = ["--config", f"grid={grid}"] if grid else []
    base = [sys.executable, "-m", "snakemake"]
    subprocess.run([*base, "--unlock", *chosen], check=True, capture_output=True)
    return subprocess.run([*base, "--cores", "all", "--rerun-incomplete", *arguments, *chosen], check=False).returncode


def orphans(study: Study) -> Iterator[tuple[Path, psutil.Process]]:
    """(record, process) of every node of this folder that still runs."""
    import psutil

    here = Path.cwd().resolve()
    for path in sorted(study.files.at("running", name="x").parent.glob("*.json")):
        record = records.read(path)
        if record.get("status") != "running":
            continue
        try:
            process = psutil.Process(record["pid"])
            # The number may have been given to another program since.
            if "bgbias" in process.cmdline() and Path(process.cwd()).resolve() == here:
                yield path, process
            else:
                path.unlink()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            path.unlink(missing_ok=True)


def _end(process: psutil.Process) -> None:
    import psutil

    try:
        process.terminate()
        process.wait(GRACE_SECONDS)
    except psutil.TimeoutExpired:
        process.kill()
        process.wait(GRACE_SECONDS)
    except psutil.NoSuchProcess:
        pass
    time.sleep(0.1)


def _snakemake_here() -> int | None:
    import psutil

    here = Path.cwd().resolve()
    for process in psutil.process_iter(["pid", "cmdline"]):
        line = process.info["cmdline"] or []
        # The jobs' shells carry the word in their paths; only an interpreter that runs Snakemake itself counts.
        runs_it = any(Path(word).name == "snakemake" for word in line[:3])
        if runs_it:
            try:
                if Path(process.cwd()).resolve() == here:
                    return int(process.pid)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
    return None
