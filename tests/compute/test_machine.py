"""What a process takes of its machine: its device or an error, a GPU of its own, threads, and samples of all that."""

import csv
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from handmade_records import TRAIN, Project
from project import ROOT, copy_settings, wait_for

from bgbias.compute import device, gpu_slots, processor, vitals
from bgbias.errors import UserError

H200 = "GPU {n}: NVIDIA H200 (UUID: GPU-{n}{n}{n}{n}-aa)"
HOLDER = """
import os, sys, time
from pathlib import Path
from bgbias.compute import gpu_slots
gpu_slots.take(Path("data/work/gpu-slots"), sys.argv[1])
if "FORKS" in os.environ:
    if child := os.fork():
        Path("child").write_text(str(child))
    else:
        time.sleep(60)
        os._exit(0)
print(os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
time.sleep(600)
"""
Start = Callable[..., "subprocess.Popen[str]"]


def environment(folder: Path, listed: str | None, status: int = 0) -> dict[str, str]:
    """Surroundings in which nvidia-smi lists these GPUs (None: there is no nvidia-smi)."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    if listed is not None:
        smi = tools / "nvidia-smi"
        smi.write_text(f'#!/bin/sh\n[ "$*" = -L ] && echo "{listed}"; exit {status}\n')
        smi.chmod(0o755)
    plain = {k: v for k, v in os.environ.items() if k != gpu_slots.VISIBLE}
    return plain | {"PATH": str(tools), "PYTHONPATH": str(ROOT / "src")}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start processes, in a folder with a study, that ask for a GPU and then live until they are killed."""
    copy_settings(tmp_path)
    with ExitStack() as stack:

        def begin(gpus: str, wanted: str = "auto", **changed: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, "-c", HOLDER, wanted],
                cwd=tmp_path,
                env=environment(tmp_path, gpus) | changed,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield begin


def gpu(process: subprocess.Popen[str]) -> str:
    """What it shows CUDA, once it has its GPU, or none."""
    assert process.stdout
    return process.stdout.readline().strip()


def waits(process: subprocess.Popen[str]) -> bool:
    return any("waits: all" in line for line in process.stderr or ())


def test_the_second_process_waits_until_the_first_is_killed(start: Start, tmp_path: Path) -> None:
    gpus = H200.format(n=0)
    first = start(gpus, FORKS="1")
    assert gpu(first) == "GPU-0000-aa"
    second = start(gpus)
    assert waits(second)
    first.kill()
    child = int((tmp_path / "child").read_text())
    try:
        assert gpu(second) == "GPU-0000-aa"
        os.kill(child, 0)  # it is still there
    finally:
        os.kill(child, signal.SIGKILL)


def test_small_cells_share_a_gpu_once_each_has_one(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = f"{H200.format(n=0)}\n{H200.format(n=1)}"
    first = [gpu(start(gpus, BGBIAS_CELLS_PER_GPU="2")) for _ in range(4)]
    assert set(first[:2]) == set(first[2:]) == {"GPU-0000-aa", "GPU-1111-aa"}
    assert waits(start(gpus, BGBIAS_CELLS_PER_GPU="2"))
    for text in ("0", "two"):
        monkeypatch.setenv("BGBIAS_CELLS_PER_GPU", text)
        with pytest.raises(UserError, match=f"BGBIAS_CELLS_PER_GPU is '{text}'; set it to how many"):
            device.shares()


def test_who_chose_a_gpu_or_the_cpu_neither_waits_nor_takes_one(start: Start) -> None:
    gpus = H200.format(n=0)
    assert gpu(start(gpus, CUDA_VISIBLE_DEVICES="5")) == "5"
    assert gpu(start(gpus, "cpu")) == "None"
    assert gpu(start(gpus, "cuda:0")) == "None"
    assert gpu(start(gpus, "cuda")) == "GPU-0000-aa"


@pytest.mark.parametrize(
    ("listed", "status", "found"),
    [
        (None, 0, []),
        ("No devices were found", 6, []),
        (H200.format(n=0), 0, ["GPU-0000-aa"]),
        # A GPU that was split is used by its parts only.
        (f"{H200.format(n=0)}\n  MIG 1g.18gb     Device  0: (UUID: MIG-1-b)\n"
         f"  MIG 1g.18gb     Device  1: (UUID: MIG-2-b)\n{H200.format(n=1)}", 0, ["MIG-1-b", "MIG-2-b", "GPU-1111-aa"]),
    ],
)  # fmt: skip
def test_gpus_are_those_that_nvidia_smi_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: str | None, status: int, found: list[str]
) -> None:
    monkeypatch.setenv("PATH", environment(tmp_path, listed, status)["PATH"])
    assert gpu_slots.list_gpus() == found


def test_node_takes_its_gpu_before_torch_is_imported(tmp_path: Path) -> None:
    copy_settings(tmp_path)
    words = ("train", "toy_smoke", "tiny", "contrastive", "plain", "--seed", "0", "--grid", "smoke")
    # The device that is asked for, and whether torch was there, as the exit status.
    probe = "import sys; from bgbias import cli; from bgbias.compute import gpu_slots;" + (
        "gpu_slots.take = lambda study, wanted: sys.exit(40 + 2 * (wanted != 'cuda') + ('torch' in sys.modules));"
        "cli.main()"
    )
    command = [sys.executable, "-c", probe, *words, "--device", "cuda"]
    around = environment(tmp_path, None)
    run = subprocess.run(command, cwd=tmp_path, env=around, capture_output=True, text=True, check=False)
    assert run.returncode == 40, run.stderr


# Which device.


@pytest.mark.parametrize(
    ("gpus", "wanted", "found"),
    [
        *((0, "auto", "cpu"), (0, "cpu", "cpu"), (1, "auto", "cuda"), (2, "cuda:1", "cuda:1")),
        (0, "cuda", "torch sees no GPU here; use --device cpu or auto"),
        (2, "cuda:2", "torch sees 2 GPU(s), counted from 0"),
        (1, "gpu", "--device gpu is unknown; there are auto, cpu, cuda"),
        *((1, f"cuda:{number}", "is unknown") for number in ("x", "")),
    ],
)
def test_device_is_the_one_that_was_asked_for_or_an_error(
    gpus: int, wanted: str, found: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1c4a")
    if " " in found:
        with pytest.raises(UserError, match=re.escape(found)):
            device.pick(wanted)
        return
    assert device.pick(wanted) == found
    warned = "was given a GPU (GPU-1c4a), but torch sees none here" in capsys.readouterr().err
    assert warned == (wanted == "auto" and found == "cpu")


# Threads.

# `python -m bgbias`, and then what OpenMP says that it was told, and how many threads the libraries have.
COMMAND = """
import runpy, sys
from bgbias.compute import processor
processor.quota = lambda: 1
sys.argv[1:] = ["--version"]
try:
    runpy.run_module("bgbias", run_name="__main__")
finally:
    import torch
    from threadpoolctl import threadpool_info
    print("threads", *{pool["num_threads"] for pool in threadpool_info()}, torch.get_num_threads())
"""


def test_libraries_have_no_more_threads_than_the_container_has_cores_and_know_how_to_wait() -> None:
    """Also those that read the environment when numpy is imported."""
    own = "GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_NUM_THREADS"
    around = {k: v for k, v in os.environ.items() if k not in own} | {"OMP_DISPLAY_ENV": "VERBOSE"}
    done = subprocess.run([sys.executable, "-c", COMMAND], env=around, capture_output=True, text=True)
    assert "threads 1 1\n" in done.stdout, done.stderr
    assert f"GOMP_SPINCOUNT = '{processor.SPINS}'" in done.stderr


@pytest.mark.parametrize(
    ("granted", "given", "expected"),
    [
        (None, {}, (processor.SPINS, None)),
        (8, {"GOMP_SPINCOUNT": "77"}, ("77", None)),
        (2, {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "3"}, (None, "3")),
    ],
)
def test_what_a_person_set_stays_and_a_wide_quota_sets_no_threads(
    monkeypatch: pytest.MonkeyPatch,
    granted: int | None,
    given: dict[str, str],
    expected: tuple[str | None, ...],
) -> None:
    monkeypatch.setattr(os, "environ", given)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(processor, "quota", lambda: granted)
    processor.share()
    assert (given.get("GOMP_SPINCOUNT"), given.get("OMP_NUM_THREADS")) == expected


@pytest.mark.parametrize(
    ("files", "granted"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_both_forms_of_a_quota_are_read(tmp_path: Path, files: dict[str, str], granted: int | None) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert processor.quota(tmp_path) == granted


def test_instructions_for_bf16(tmp_path: Path) -> None:
    for said, known in (
        ("flags\t\t: fpu avx2 avx512_bf16 amx_bf16", ("avx512_bf16", "amx_bf16")),
        ("Features\t: fp asimd bf16", ("bf16",)),
        ("Features\t: fp asimd", ()),
        ("bogomips\t: 50.00", None),
    ):
        (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{said}\n\nprocessor\t: 1\n")
        assert processor.bf16(tmp_path / "cpuinfo") == known
        assert processor.bf16(tmp_path / "missing") is None


# What it takes.


def test_a_busy_process_is_seen_busy_and_an_idle_one_idle() -> None:
    with vitals.watching() as watched:
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass
        watched.look()
        time.sleep(0.3)
        watched.look()
    busy, idle = csv.DictReader(watched.csv().splitlines())
    assert float(busy["cpu_percent"]) > 2 * float(idle["cpu_percent"])
    assert 5 < float(busy["memory_mb"]) < 100_000
    assert busy["gpu_percent"] == busy["gpu_memory_mb"] == ""
    with vitals.watching(0.02) as watched:
        wait_for(lambda: len(watched.rows) >= 3, "three samples")


def test_the_peak_is_the_own_one_and_not_that_of_who_started_the_process() -> None:
    held = bytearray(400 << 20)
    held[::4096] = bytes(len(held[::4096])).replace(b"\0", b"\1")
    script = "from bgbias.compute import vitals; print(vitals.peak_memory_mb())"
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert 5 < float(child.stdout) < 200 < len(held) / 2**20 < vitals.peak_memory_mb()


def test_a_gpu_is_told_where_the_process_uses_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 2)
    cuda.memory_reserved = cuda.max_memory_allocated = [0, 3 * 2**30].__getitem__
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    told = tmp_path / "nvidia-smi"
    told.write_text('#!/bin/sh\n[ "$1" = "--id=GPU-b" ] && echo 87\n')
    told.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    with vitals.watching() as watched:
        watched.look()
    (row,) = csv.DictReader(watched.csv().splitlines())
    assert (row["gpu_percent"], row["gpu_memory_mb"]) == ("87.0", "3072.0")
    assert vitals.peak_gpu_memory_mb() == {"peak_gpu_memory_mb": 3072}


def test_mlflow_shows_them_when_the_node_has_ended(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.training(vitals=",".join(vitals.COLUMNS) + "\n5.0,101.5,700.0,,\n10.0,99.0,720.5,,\n")
    project.sync()
    cpu = project.curve(project.runs()[TRAIN], "system/cpu_utilization_percentage")
    assert cpu == [(1, 101.5), (2, 99.0)]
