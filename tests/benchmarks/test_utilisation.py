"""How busy a GPU is, as nvidia-smi tells it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from project import wait_for

from benchmarks import Measured, _training


def test_a_busy_gpu_is_told_by_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        '#!/bin/sh\n[ "$1" = --id=GPU-b ] || exit 6\necho 10; sleep 1.5; echo 90; echo "[N/A]"; echo 95; exec sleep 60\n'
    )
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    monkeypatch.setattr(_training, "LOOKS_BACK", 0.2)
    watch = _training.Utilisation("cuda:1")
    wait_for(lambda: len(watch._samples) == 1, "the first sample")
    begin = time.perf_counter()
    wait_for(lambda: len(watch._samples) == 3, "the last sample")
    # What lies before the work, or just after its beginning, is not of the work.
    assert watch.between(begin, time.perf_counter()) == [90.0, 95.0]
    assert watch.between(begin - 5, begin) == [10.0]


def test_without_nvidia_smi_it_is_said_that_nothing_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "nvidia-smi, which tells it, is not found" in _training.Utilisation("cuda").missing
    assert _training.Utilisation("cpu").missing == "a GPU is needed"


def test_an_nvidia_smi_that_fails_is_named_with_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho NVML has failed; exit 9\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    watch = _training.Utilisation("cuda")
    wait_for(lambda: bool(watch.missing), "its end")
    assert watch.missing == "nvidia-smi, which tells it, ended with code 9"
    measured = Measured(
        "cuda", True, {}, {_training.on_photos(size): ([], watch.missing) for size in _training.GPU_STEPS}
    )
    busy = [f for f in _training._judge_gpu(measured) if f.what.startswith("GPU busy")]
    assert {f.missing for f in busy} == {watch.missing}
