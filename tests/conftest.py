"""Fixtures that several tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real photos, hand-drawn masks and weights that stays outside the repository."""
    folder = Path(os.environ.get("BGBIAS_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the shared photos are absent: {folder} (set BGBIAS_SHARED_DATA)")
    return folder
