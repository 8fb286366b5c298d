"""Temporary folders that last as long as the process."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path


def scratch_folder() -> Path:
    """A new folder, deleted when the process ends; one that is killed leaves it to the system."""
    folder = Path(tempfile.mkdtemp(prefix="bgbias-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
