"""What is read of the processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from bgbias.compute import processor


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("flags\t\t: fpu avx2 avx512_bf16 amx_bf16", ("avx512_bf16", "amx_bf16")),
        ("flags\t\t: fpu avx2", ()),
        ("Features\t: fp asimd bf16", ("bf16",)),
        ("bogomips\t: 50.00", None),
    ],
)
def test_instructions_for_bf16(tmp_path: Path, said: str, known: tuple[str, ...] | None) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{said}\n\nprocessor\t: 1\n")
    assert processor.bf16(tmp_path / "cpuinfo") == known


def test_nothing_is_known_where_nothing_is_told(tmp_path: Path) -> None:
    assert processor.fact("model name", tmp_path / "missing") == ""
    assert processor.bf16(tmp_path / "missing") is None
