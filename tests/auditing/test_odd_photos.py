"""Photos as people have them: few, broken, of two classes, of classes of every size. Each ends in a verdict or a clear reason."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from rankings import map_at_r, order, unit

import bgbias
from bgbias.errors import UserError


def colours(batch: list[np.ndarray]) -> list[np.ndarray]:
    return [photo.reshape(4, 16, 4, 16, 3).mean((1, 3)).ravel() for photo in batch]


def audited(place: Path, photos: object = None, **how: object) -> bgbias.Audit:
    """Of the photos as they lie there, unless others are named."""
    source = {"photos": place / "photos", "masks": place / "masks"} if photos is None else {"photos": photos}
    asked = {"size": 64, "resize": 64, "attribution": 0, "draws": 1, "backgrounds": place / "walls"}
    return bgbias.audit(model=colours, **source | asked | how)  # type: ignore[call-overload, no-any-return]


def test_two_classes_one_of_whose_photos_is_broken_say_that_they_say_little(place: Path) -> None:
    """There are no intervals: no field is marked, and nothing is called chance. Nor does a masker that knows no doubt, as
    GrabCut, vouch for anything.
    """
    for folder in sorted((place / "photos").iterdir())[2:]:
        shutil.rmtree(folder)
    broken = min((place / "photos").rglob("*.png"))
    broken.write_bytes(broken.read_bytes()[:60])
    found = audited(place, masks=None, masker="grabcut", out=place / "out")
    assert (found.numbers["photos"]["photos"], found.numbers["photos"]["left_out"]) == (9, 1)
    assert math.isfinite(found.drop.value)
    assert math.isnan(found.drop.low)
    page = (place / "out/audit.html").read_text(encoding="utf-8")
    for said in ("neither can be tested", "the drop cannot be tested", "is in doubt of no pixel"):
        assert said in page
    for unsaid in ('class="here"', "Significant where", "jackknife", "have a clear mask"):
        assert unsaid not in page


def test_masks_that_show_nothing_are_a_reason(place: Path) -> None:
    for mask in (place / "masks").rglob("*.png"):
        Image.fromarray(np.zeros_like(np.asarray(Image.open(mask)))).save(mask)
    with pytest.raises(UserError, match=r"empty mask: 30.*by masker=.*by masks="):
        audited(place)


def test_a_model_that_is_none_is_told_before_masks_are_made(
    toys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BGBIAS_CACHE", str(tmp_path / "cache"))
    how = {"size": 64, "resize": 64, "masker": "grabcut", "backgrounds": toys / "walls"}
    with pytest.raises(UserError, match="same vector"):
        bgbias.audit(toys / "photos", lambda batch: [np.zeros(3) for _ in batch], **how)
    assert not (tmp_path / "cache").exists()


def test_queries_are_asked_among_the_gallery_alone(toys: Path) -> None:
    files = sorted((toys / "photos").rglob("*.png"))
    masks = [toys / "masks" / file.relative_to(toys / "photos") for file in files]
    rows = pd.DataFrame({"path": files, "class": [file.parent.name for file in files], "mask": masks})
    rows["part"] = ["query" if path.name < "001" else "gallery" for path in rows["path"]]
    found = audited(toys, rows)
    vectors = unit(np.array(colours([np.asarray(Image.open(path)) for path in files])))
    names, gallery = rows["class"].to_numpy(), np.flatnonzero(rows["part"] == "gallery")
    expected = {}
    for query in np.flatnonzero(rows["part"] == "query"):
        ranked = gallery[order(vectors[query], vectors[gallery])]
        expected[names[query]] = map_at_r((names[ranked] == names[query]).tolist())
    of_photos = found.to_frame().set_index("class_name")["map_at_r_clean"].dropna()
    assert of_photos.to_dict() == pytest.approx(expected, abs=1e-6)
