"""Arrays in files that outlive a kill."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bgbias.auditing.prepared_photos import ResumableRows


def test_rows_that_are_there_are_there_for_the_next_process(tmp_path: Path) -> None:
    rows = ResumableRows(tmp_path, "vectors", np.float32, (4, 2))
    assert rows.missing == [0, 1, 2, 3]
    rows[2] = [1, -2]
    again = ResumableRows(tmp_path, "vectors", np.float32, (4, 2))
    assert again.missing == [0, 1, 3]
    np.testing.assert_array_equal(again.values, [[0, 0], [0, 0], [1, -2], [0, 0]])


def test_a_row_that_could_not_be_filled_is_missing(tmp_path: Path) -> None:
    rows = ResumableRows(tmp_path, "vectors", np.float32, (2, 2))
    with pytest.raises(ValueError, match="shape"):
        rows[0] = [1, 2, 3]
    assert rows.missing == [0, 1]
