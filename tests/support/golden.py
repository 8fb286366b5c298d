"""Texts that somebody has read: what is written now is what lies in tests/<package>/golden.

After a change that is meant, ``BGBIAS_GOLDEN=1 pytest ...`` writes them anew; read the difference before it is committed.
"""

import os
from pathlib import Path


def check(path: Path, text: str) -> None:
    """Fails where a text is not that of its file."""
    if os.environ.get("BGBIAS_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, f"{path} differs; is the change meant? See {__file__}"
