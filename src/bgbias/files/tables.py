"""Tables that people keep, as text: CSV and Parquet, told apart by what is in them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from bgbias.errors import UserError
from bgbias.files.pictures import compose

PARQUET = b"PAR1"
CALLED_PARQUET = (".parquet", ".pq")


def read_text(path: Path, source: str) -> tuple[pd.DataFrame, int]:
    """The table with every cell as composed text without spaces around it, empty where there is nothing; and the number of its
    first row: as a spreadsheet shows it, or counted from 1 in a Parquet file. An unreadable file is an error that names
    ``source``.
    """
    with path.open("rb") as file:
        parquet = file.read(len(PARQUET)) == PARQUET
    if path.suffix.lower() in CALLED_PARQUET and not parquet:
        raise UserError(
            f"{source} is called Parquet and is none: write it anew, or call it .csv if it is one."
        )
    try:
        frame = pd.read_parquet(path) if parquet else pd.read_csv(path, dtype=str, keep_default_na=False)
    except (ValueError, OSError) as error:  # pandas and pyarrow raise their own kinds of these
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"{source} cannot be read as CSV or Parquet ({said}). Save it anew, with a row of columns' names first."
        ) from error
    frame.columns = pd.Index([str(c).strip() for c in frame.columns])
    text = frame.astype(object).where(frame.notna(), "").map(lambda v: compose(str(v).strip()))
    return text, 1 if parquet else 2
