"""A device is the one that was asked for, or an error, never a silent CPU; of several GPUs each process has one of its own: real
processes, real locks, a stand-in for nvidia-smi.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from project import ROOT, copy_settings, wait_for

from bgbias.compute import device, gpu_slots
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
time.sleep(3600)
"""
Start = Callable[..., "Holder"]


def environment(folder: Path, listed: str | None, status: int = 0) -> dict[str, str]:
    """Surroundings in which nvidia-smi lists these GPUs (None: there is no nvidia-smi)."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    if listed is not None:
        (tools / "listed").write_text(listed + "\n", encoding="utf-8")
        smi = tools / "nvidia-smi"
        smi.write_text(f'#!/bin/sh\n[ "$*" = -L ] && /bin/cat {tools}/listed; exit {status}\n')
        smi.chmod(0o755)
    plain = {k: v for k, v in os.environ.items() if k != gpu_slots.VISIBLE}
    return plain | {"PATH": str(tools), "PYTHONPATH": str(ROOT / "src")}


class Holder:
    """A process that asks for a GPU and then lives until it is killed."""

    def __init__(self, folder: Path, number: int, wanted: str, environment: dict[str, str]) -> None:
        self.out, self.err = folder / f"{number}.out", folder / f"{number}.err"
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-c", HOLDER, wanted], cwd=folder, env=environment, stdout=out, stderr=err
            )

    def gpu(self) -> str:
        """What it shows CUDA, once it has its GPU, or none."""
        wait_for(lambda: self.out.read_text().endswith("\n") or self.process.poll() is not None, "a GPU")
        return self.out.read_text().strip()

    def waits(self) -> None:
        """It has said that it waits, and goes on waiting."""
        wait_for(lambda: "waits: all" in self.err.read_text(encoding="utf-8"), "a process to wait")
        assert not self.out.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start processes in a folder with a study; all are killed in the end."""
    copy_settings(tmp_path)
    numbers = iter(range(100))
    with ExitStack() as stack:

        def begin(gpus: str, wanted: str = "auto", **changed: str) -> Holder:
            holder = Holder(tmp_path, next(numbers), wanted, environment(tmp_path, gpus) | changed)
            stack.callback(holder.kill)
            return holder

        yield begin


def test_the_second_process_waits_until_the_first_is_killed_whose_forked_child_keeps_no_gpu(
    start: Start, tmp_path: Path
) -> None:
    gpus = H200.format(n=0)
    first = start(gpus, FORKS="1")
    assert first.gpu() == "GPU-0000-aa"
    second = start(gpus)
    second.waits()
    first.kill()
    child = int((tmp_path / "child").read_text())
    try:
        assert second.gpu() == "GPU-0000-aa"
        os.kill(child, 0)  # it is still there
    finally:
        os.kill(child, signal.SIGKILL)


def test_small_cells_share_a_gpu_once_every_gpu_has_one(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = f"{H200.format(n=0)}\n{H200.format(n=1)}"
    first = [start(gpus, BGBIAS_CELLS_PER_GPU="2").gpu() for _ in range(4)]
    assert set(first[:2]) == set(first[2:]) == {"GPU-0000-aa", "GPU-1111-aa"}
    start(gpus, BGBIAS_CELLS_PER_GPU="2").waits()
    for text in ("0", "two"):
        monkeypatch.setenv("BGBIAS_CELLS_PER_GPU", text)
        with pytest.raises(UserError, match=f"BGBIAS_CELLS_PER_GPU is '{text}'; set it to how many"):
            device.shares()


def test_who_chose_a_gpu_or_the_cpu_neither_waits_nor_takes_one(start: Start) -> None:
    gpus = H200.format(n=0)
    assert start(gpus, CUDA_VISIBLE_DEVICES="5").gpu() == "5"
    assert start(gpus, "cpu").gpu() == "None"
    assert start(gpus, "cuda:0").gpu() == "None"
    assert start(gpus, "cuda").gpu() == "GPU-0000-aa"


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
        (1, "cuda:x", "is unknown"),
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
        with pytest.raises(UserError) as error:
            device.pick(wanted)
        assert found in str(error.value)
        return
    assert device.pick(wanted) == found
    warned = "was given a GPU (GPU-1c4a), but torch sees none here" in capsys.readouterr().err
    assert warned == (wanted == "auto" and found == "cpu")


def test_mixed_precision_only_where_it_is_asked_for() -> None:
    a = torch.ones(2, 2)
    for precision, kind in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        with device.autocast("cpu", precision):
            assert (a @ a).dtype == kind
