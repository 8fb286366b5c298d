"""What a grid's cells are brought together to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bgbias.nodes import collect
from bgbias.results.rows import together


@pytest.mark.parametrize("seeds", [(0, 1, 2), (0, "1.fold2", 2)])
def test_tables_are_brought_together_piece_by_piece_as_pandas_would_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: tuple[int | str, ...]
) -> None:
    """Byte for byte, also where pieces end within a cell and where some seeds are words."""
    monkeypatch.setattr(collect, "ROWS_A_GROUP", 1000)
    files = []
    for number, (seed, rows) in enumerate(zip(seeds, (700, 1300, 2000), strict=True)):
        values = np.random.default_rng(number).random(rows)
        names = [f"birds/{n:03d}.jpg" for n in range(rows)]
        made = pd.DataFrame({"dataset": "birds", "seed": seed, "image_id": names, "map_at_r": values})
        made.loc[::7, "map_at_r"] = np.nan
        files.append(tmp_path / f"{number}.parquet")
        pd.concat([made[:300], made[300:]], ignore_index=True).to_parquet(files[-1], index=False)
    collect.write_together(files, tmp_path / "pieces.parquet")
    at_once = together([pd.read_parquet(file) for file in files])
    at_once.to_parquet(tmp_path / "once.parquet", index=False, row_group_size=1000)
    assert (tmp_path / "pieces.parquet").read_bytes() == (tmp_path / "once.parquet").read_bytes()
