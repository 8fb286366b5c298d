"""What documents say of proposed backgrounds is what the command made of each photo."""

from __future__ import annotations

import io
import runpy
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bgbias import seeds
from bgbias.backgrounds import foregrounds
from bgbias.images import pixels

ROOT = Path(__file__).resolve().parents[2]
script = runpy.run_path(str(ROOT / "docs/results/backgrounds_from_proposal.py"))
ROWS = script["ROWS"]


def test_rows_were_judged_by_the_rule_of_now() -> None:
    rows = pd.read_csv(ROOT / ROWS)
    seen = rows[["confidence", "area", "sharpness", "border"]].itertuples(index=False)
    assert [not foregrounds.Foreground(*values).obvious for values in seen] == rows["kept"].tolist()


def test_the_table_has_rejected_backgrounds_the_sharpest_first() -> None:
    rows = pd.DataFrame(
        [
            ("val", "wall.jpg", True, 0.1, 0.2, 0.3),
            ("val", "door.jpg", False, 0.2, 0.6, 0.1),
            ("test", "twig.jpg", False, 0.3, 0.9, 0.0),
            ("cars", "car.jpg", False, 0.4, 0.9, 0.0),
        ],
        columns=["shows", "name", "kept", "area", "sharpness", "border"],
    )
    lines = script["rejected"](rows).splitlines()
    assert lines[2:] == [
        "| `twig.jpg` | test | 0.30 | 0.90 | 0.00 |",
        "| `door.jpg` | val | 0.20 | 0.60 | 0.10 |",
    ]


def test_the_command_looks_at_every_photo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, work = tmp_path / "shared", tmp_path / "work"
    work.mkdir()
    draw = seeds.generator("proposal page")

    def photo() -> bytes:
        return pixels.encode_png(draw.integers(0, 256, (40, 40, 3), dtype=np.uint8))

    for folder in script["HAND_MASKED"].values():
        (shared / "hand_masks" / folder).mkdir(parents=True)
        (shared / "hand_masks" / folder / "7_image.jpeg").write_bytes(photo())
        (shared / "hand_masks" / folder / "7_mask.png").write_bytes(photo())
    archives = [*(f"backgrounds_{pool}.zip" for pool in script["POOLS"]), *script["ARCHIVES"].values()]
    for archive in archives:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as into:
            for number in range(3):
                into.writestr(f"photos/{archive}-{number}.png", photo())
        (shared / archive).write_bytes(packed.getvalue())
    # The demo's small net, which lies in the project.
    monkeypatch.setitem(script["looked_at"].__globals__, "MASKER", "u2netp_toy")
    monkeypatch.chdir(ROOT)
    rows = script["looked_at"](shared, work)
    assert rows["shows"].value_counts().to_dict() == {
        "val": 3, "test": 3, "birds": 2, "groceries": 1, "cars": 1, "online": 1
    }  # fmt: skip
    assert {"kept", "area", "sharpness", "border"} <= set(rows.columns)
    assert not (ROOT / "data/work/backgrounds/looked_at").exists()
