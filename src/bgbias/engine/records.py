"""A birth certificate beside every artefact: what was read, what was made, by which code, on what, in how long.

The record is written last, so that a node with a record is a finished node. While it works, a record with status ``running``
lies among the running ones, and a lock keeps a second process from writing the same artefact. It bears a checksum of itself: a
damaged one is never read, and its node is made again.
"""

import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bgbias.compute import processor, vitals
from bgbias.compute.device import describe, pick, threads
from bgbias.engine import graph
from bgbias.engine.node import Node
from bgbias.errors import UserError
from bgbias.files import code, json_checksum
from bgbias.files.atomic import remove_leftovers, write_frame, write_json
from bgbias.files.checksums import forget, sha256
from bgbias.files.locks import LockTimeout, hold_lock
from bgbias.study import Cell, Study, plan

PACKAGES = (
    *("torch", "torchvision", "timm", "numpy", "pandas", "safetensors", "pillow"),
    *("opencv-python-headless", "pytorch-metric-learning", "faiss-gpu"),
)


@dataclass
class Record:
    """What a node makes, and what it adds to its certificate while it works."""

    outputs: dict[str, Path] = field(default_factory=dict)
    digest: str = ""
    device: str = "cpu"
    metrics: dict[str, float] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    epoch_seconds: dict[str, list[float]] = field(default_factory=dict)

    def on(self, device: str) -> str:
        """The device that was asked for, or an error; what it is goes into the certificate."""
        picked = pick(device)
        self.device = describe(picked)
        return picked

    def write(self, output: str, frame: Any) -> None:
        """One of the outputs, a table of pandas."""
        write_frame(self.outputs[output], frame)


def read(path: Path) -> dict[str, Any]:
    """A record; a damaged one is an error that names it."""
    try:
        record = dict(json_checksum.read(path))
        _ = record["digest"], record["spec"], record["outputs"], record["inputs"]
        return record
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"The record {path} cannot be read ({error}); run `snakemake --cores all` to remake it."
        ) from error


def read_current(study: Study, maker: Node) -> dict[str, Any]:
    """A node's record if it was made with the settings of now and vouches for itself; else empty, as where there is none."""
    path = maker.record(study)
    record = json_checksum.read_any(path) if path.exists() else {}
    if not json_checksum.is_sealed(record):
        return {}
    return record if record.get("digest") == graph.digest(study, maker.name, **maker.keywords) else {}


def is_current(study: Study, maker: Node) -> bool:
    """Whether a node's products are there, made with the settings of now from the files that lie there now."""
    record, read = read_current(study, maker), graph.inputs(study, maker.name, **maker.keywords)
    if not record or not all(path.exists() for path in [*read.values(), *maker.outputs(study).values()]):
        return False
    return all(record["inputs"].get(str(path)) == sha256(path) for path in read.values())


@contextmanager
def node(study: Study, worker: Node) -> Iterator[Record]:
    """One node at work: takes its lock, announces itself, and certifies its outputs when the block ends well.

    A missing input and a node that another process is already working on are errors that say what to do.
    """
    name, subject, label = worker.name, worker.keywords, worker.subject_name or study.grid
    if worker.study(study) is not study:
        raise ValueError(
            f"{worker.label} is certified with other settings than it works with; hand it `Node.study`"
        )
    outputs, record = worker.outputs(study), worker.record(study)
    inputs = graph.inputs(study, name, **subject)
    for role, path in inputs.items():
        if not path.exists():
            raise UserError(
                f"{name} {label} needs {path} ({role}), which is missing; {_remedy(study, subject, path)}"
            )
    running = _place(study, "running", worker)
    with lock(_place(study, "locks", worker), f"{name} {label}"):
        # First of all: an edit that is saved from now on is none of the code that works here.
        by = code.modules(*graph.modules(study, worker))
        with graph.share_lookups():
            result = Record(outputs, graph.digest(study, name, **subject))
            spec = graph.spec(study, name, **subject)
            read = {str(p): sha256(p) for p in inputs.values()}
            _refuse_others(study, worker, label, read)
        _clear(study, worker)
        cell, curve = worker.cell, getattr(worker.module, "CURVE", "")
        written: dict[str, Any] = {
            "node": name,
            "subject": label,
            "grid": study.grid,
            "cell": cell.wildcards if cell else None,
            "status": "running",
            "spec": spec,
            "digest": result.digest,
            "code": by,
            "started": _now(),
            "command": command(),
            **checkout(),
            "pid": os.getpid(),
            "host": platform.node(),
        }
        if curve:
            place = {"grid": study.grid, **worker.wildcards}
            written["history"] = str(study.files.at(f"partial_{curve}", **place))
        write_json(running, written)
        begun = time.perf_counter()
        try:
            with vitals.watching() as watched:
                yield result
            watched.look()
            if missing := [str(p) for p in outputs.values() if not p.exists()]:
                raise RuntimeError(f"{name} ended without making {missing[0]}")
            collection = getattr(worker.module, "COLLECTION", None)
            certified = written | {
                "status": "done",
                "inputs": read,
                "outputs": {str(p): sha256(p) for p in outputs.values()},
                "collection": collection and (collection[0], str(outputs[collection[1]])),
                "device": result.device,
                "metrics": result.metrics | vitals.peak_gpu_memory_mb(),
                "notes": result.notes,
                "seconds": round(time.perf_counter() - begun, 3),
                "peak_memory_mb": vitals.peak_memory_mb(),
                "vitals": watched.csv(),
                "finished": _now(),
                "packages": _packages(),
                "python": platform.python_version(),
                # Last bits depend on both.
                "machine": machine(),
                "threads": threads(),
                **({"epoch_seconds": result.epoch_seconds} if result.epoch_seconds else {}),
            }
            json_checksum.write(record, certified | ({"history": str(outputs[curve])} if curve else {}))
            running.unlink(missing_ok=True)
        except BaseException as raised:
            error = _interruption(raised) or raised
            failed = {"status": "failed", "error": f"{type(error).__name__}: {error}", "finished": _now()}
            try:
                write_json(running, written | failed)
            except OSError:  # the disk may be full: the first error must reach the person, not this one
                running.unlink(missing_ok=True)
            if error is raised:
                raise
            raise error from None


def clear(study: Study, worker: Node) -> None:
    """Remove what a killed attempt at a node left, which nobody will repeat; nothing if somebody is at work on it."""
    with suppress(LockTimeout), hold_lock(_place(study, "locks", worker), seconds=0):
        _clear(study, worker)


def _clear(study: Study, worker: Node) -> None:
    for path in (*worker.outputs(study).values(), worker.record(study)):
        remove_leftovers(path)
    _place(study, "running", worker).unlink(missing_ok=True)


def _place(study: Study, kind: str, worker: Node) -> Path:
    """Where a node's lock or running record lies: named after its record, as datasets and masks are shared by all grids."""
    key = f"{worker.name}__{worker.record(study).with_suffix('')}".replace("/", "__")
    return study.files.at(kind, name=key)


def _interruption(error: BaseException) -> BaseException | None:
    """What asked a node to end, if an error came of that: torch's writer, interrupted, says that its file is too short."""
    while error.__context__ is not None:
        error = error.__context__
        if isinstance(error, KeyboardInterrupt | SystemExit):
            return error
    return None


def _remedy(study: Study, subject: dict[str, Any], path: Path) -> str:
    for owner in (f"maskers/{name}" for name in study.maskers):
        if study.files.at("weights", owner=owner) == path:
            return f"`python -m bgbias weights {owner}` fetches it."
    cell = next((c for c in subject.values() if isinstance(c, Cell) and c.name in str(path)), None)
    if cell is None or cell in plan.cells(study):
        return f"`snakemake --cores all --config grid={study.grid}` makes it."
    return (
        f"{cell.name} is no cell of the grid {study.grid}, so that Snakemake does not make it: add it to"
        f" grids.{study.grid}.cells in params.yaml, or run the nodes before this one by hand, as this one."
    )


def _refuse_others(study: Study, reader: Node, label: str, read: dict[str, str]) -> None:
    """Inputs (with their checksums) of other settings, or that no record of a node they come from certifies, are errors; a record
    that does not certify what lies there is set aside, so that the next run makes it again.
    """
    remedy = f"`snakemake --cores all --config grid={study.grid}` makes what is out of date."
    for upstream in graph.reads_from(study, reader):
        path = upstream.record(study)
        certified = read_current(study, upstream)
        if not certified:
            raise UserError(
                f"{reader.name} {label} would read from {upstream.label}, which was not made with the settings of now"
                f" ({path}); {remedy}"
            )
        for file in read.keys() & certified["outputs"].keys():
            if certified["outputs"][file] != read[file]:
                # Nothing but its content may say so: neither its times, nor what is remembered of them.
                forget(study.files.at("known_files"))
                with suppress(OSError):
                    path.rename(json_checksum.aside(path))
                raise UserError(
                    f"{reader.name} {label} would read {file}, which is not the file that {path} certified; {remedy}"
                )


def lock(path: Path, what: str) -> AbstractContextManager[None]:
    """Exclusive right to ``what``, released when the process ends however it ends."""
    wait = "at this moment. Wait for it, or, if it was left over by a killed run: make resume"
    return hold_lock(path, seconds=0, refusal=f"{what} is being made by process {{}} {wait}")


def command() -> str:
    """The line that repeats this process."""
    return shlex.join(["python", "-m", "bgbias", *sys.argv[1:]])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def checkout() -> dict[str, Any]:
    """The commit that is checked out, and whether files that git knows were edited since; None where there is no git."""
    command = ["git", "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    try:
        status = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {"git_commit": None, "git_dirty": None}
    head, *lines = status.splitlines()
    commit = head.rpartition(" ")[2]
    edited = any(not line.startswith("#") for line in lines)
    return {"git_commit": None if commit == "(initial)" else commit, "git_dirty": edited}


@cache
def machine() -> str:
    """The processor, as far as the system tells its name."""
    return ", ".join(filter(None, [platform.machine(), processor.fact("model name")]))


def _packages() -> dict[str, str]:
    versions = {}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions
