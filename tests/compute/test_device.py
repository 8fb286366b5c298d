"""A device is the one that was asked for, or an error; never a silent CPU."""

from __future__ import annotations

import pytest
import torch

from bgbias import progress
from bgbias.compute import device
from bgbias.errors import UserError


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """So many GPUs that torch believes to see."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: request.param > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: request.param)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("gpus", "wanted", "found"),
    [(0, "auto", "cpu"), (0, "cpu", "cpu"), (1, "auto", "cuda"), (1, "cpu", "cpu"), (2, "cuda:1", "cuda:1")],
    indirect=["gpus"],
)
def test_device_is_the_one_that_was_asked_for(wanted: str, found: str) -> None:
    assert device.pick(wanted) == found


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("gpus", "wanted", "words"),
    [
        (0, "cuda", "torch sees no GPU here; use --device cpu or auto"),
        (2, "cuda:2", r"torch sees 2 GPU\(s\), counted from 0"),
        (1, "gpu", "--device gpu is unknown; there are auto, cpu, cuda"),
        (1, "cuda:x", "is unknown"),
    ],
    indirect=["gpus"],
)
def test_absent_or_unknown_device_is_an_error(wanted: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        device.pick(wanted)


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize("gpus", [0], indirect=True)
def test_who_was_given_a_gpu_and_finds_none_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1c4a")
    assert device.pick("auto") == "cpu"
    assert "was given a GPU (GPU-1c4a), but torch sees none here" in capsys.readouterr().err


def test_mixed_precision_only_where_it_is_asked_for() -> None:
    a = torch.ones(2, 2)
    for precision, kind in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        with device.autocast("cpu", precision):
            assert (a @ a).dtype == kind


def test_long_work_says_a_line_now_and_then_in_a_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 1000, 8))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    assert list(progress.track("abcdefg", 7, "letters")) == list("abcdefg")
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["letters: 3 of 7, about 32 s left (0.1/s)", "letters: 6 of 7, about 8 s left (0.1/s)"]
    assert list(progress.track(iter("abc"), None, "letters")) == list("abc")
    assert capsys.readouterr().err == "letters: 3 (0.1/s)\n"
