"""A device is the one that was asked for, or an error; never a silent CPU."""

from __future__ import annotations

import pytest
import torch

from bgbias.compute import device
from bgbias.errors import UserError


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
