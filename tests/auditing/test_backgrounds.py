"""What an audit puts behind objects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image

from bgbias.auditing import backgrounds
from bgbias.auditing.backgrounds import find
from bgbias.backgrounds import generated
from bgbias.backgrounds.draws import Draw
from bgbias.errors import UserError
from bgbias.images import pixels


def test_a_background_that_a_phone_turned_stands_as_a_person_sees_it(tmp_path: Path) -> None:
    half = np.zeros((40, 80, 3), np.uint8)
    half[:, 40:] = 250
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6  # a quarter turn clockwise
    Image.fromarray(half).save(tmp_path / "turned.png", exif=exif)
    Image.fromarray(half).save(tmp_path / "upright.png")
    pool = find(str(tmp_path)).pool(40)
    whole = pixels.RelativeBox(0, 0, 1, 1)
    turned, upright = (pool.picture(Draw(index, whole, flip=False), 40) for index in (0, 1))
    assert upright[:, 0].max() == turned[0].max() == 0
    assert upright[:, -1].min() == turned[-1].min() == 250


def test_one_picture_is_no_pool(tmp_path: Path) -> None:
    Image.new("RGB", (9, 9)).save(tmp_path / "wall.png")
    with pytest.raises(UserError, match=r"wall\.png is one picture; name the folder that holds it"):
        find(str(tmp_path / "wall.png"))


def test_drawn_ones_are_drawn_once_on_a_computer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BGBIAS_CACHE", str(tmp_path))
    monkeypatch.setattr(backgrounds, "DRAWN", {"gradients": 2, "colours": 1})
    real, times = generated.pictures, list[str]()

    def counted(kind: str, *rest: object) -> object:
        times.append(kind)
        return real(kind, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(generated, "pictures", counted)
    first = find(None)
    assert find(None) == first
    assert times == ["gradients", "colours"]
    # A damaged file, and a place where nothing can be kept, cost the drawing, and nothing else.
    [kept] = tmp_path.rglob("*.zip")
    data = kept.read_bytes()
    for damaged in (data[:-30], data.replace(b"IDAT", b"TADI")):
        kept.write_bytes(damaged)
        assert find(None) == first
    (tmp_path / "file").touch()
    monkeypatch.setenv("BGBIAS_CACHE", str(tmp_path / "file"))
    assert find(None) == first
    assert len(times) == 8
