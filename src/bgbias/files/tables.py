"""Tables that people keep, as text: CSV and Parquet, told apart by what is in them."""

from io import StringIO
from pathlib import Path
from typing import IO, Any

import pandas as pd

from bgbias.errors import UserError
from bgbias.files.pictures import compose

PARQUET = b"PAR1"
CALLED_PARQUET = (".parquet", ".pq")
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # the marks at its beginning
SEPARATORS = ",;\t"


def read_text(path: Path, source: str) -> tuple[pd.DataFrame, int]:
    """The table of a file, as ``parse`` has it."""
    with path.open("rb") as file:
        return parse(file, path.name, source)


def parse(file: IO[bytes], called: str, source: str) -> tuple[pd.DataFrame, int]:
    """The table with every cell as composed text without spaces around it, empty where there is nothing; and the number of its
    first row: as a spreadsheet shows it, or counted from 1 in a Parquet file. An unreadable file is an error that names
    ``source``.

    Cells of Parquet that hold bytes, or Hugging Face's ``{bytes, path}``, stay as they are. CSV is
    UTF-8, or UTF-16 with its mark; columns are parted by commas, semicolons or tabs.
    """
    is_parquet = file.read(len(PARQUET)) == PARQUET
    file.seek(0)
    if called.lower().endswith(CALLED_PARQUET) and not is_parquet:
        raise UserError(
            f"{source} is called Parquet and is none: write it anew, or call it .csv if it is one."
        )
    try:
        if is_parquet:
            frame = pd.read_parquet(file)
        else:
            data = file.read()
            text = data.decode("utf-16" if data.startswith(UTF_16) else "utf-8-sig")
            separator = max(SEPARATORS, key=text.partition("\n")[0].count)
            frame = pd.read_csv(StringIO(text), sep=separator, dtype=str, keep_default_na=False)
    except UnicodeDecodeError as error:
        raise UserError(
            f"{source} cannot be read as CSV or Parquet (its letters are not UTF-8: {error.reason}). Save it anew as UTF-8; of a"
            " spreadsheet, as 'CSV UTF-8'."
        ) from error
    except (ValueError, OSError) as error:  # pandas and pyarrow raise their own kinds of these
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"{source} cannot be read as CSV or Parquet ({reason}). Save it anew, with a row of columns' names first."
        ) from error
    frame.columns = pd.Index([str(c).strip() for c in frame.columns])
    return frame.astype(object).where(frame.notna(), "").map(_clean), 1 if is_parquet else 2


def _clean(value: Any) -> Any:
    return value if isinstance(value, (bytes, dict)) else compose(str(value).strip())
