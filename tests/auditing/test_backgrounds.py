"""What an audit puts behind objects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import ExifTags, Image

from bgbias.auditing.backgrounds import find
from bgbias.backgrounds.draws import Draw
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
