"""A device is the one that was asked for, or an error; never a silent CPU."""

from __future__ import annotations

import pytest
import torch

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
def test_device_is_the_one_that_was_asked_for(
    wanted: str, found: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1c4a")
    assert device.pick(wanted) == found
    told = "was given a GPU (GPU-1c4a), but torch sees none here" in capsys.readouterr().err
    assert told == (wanted == "auto" and found == "cpu")


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


def test_mixed_precision_only_where_it_is_asked_for() -> None:
    a = torch.ones(2, 2)
    for precision, kind in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        with device.autocast("cpu", precision):
            assert (a @ a).dtype == kind
