"""An audit as a dataset of FiftyOne. Only where FiftyOne and its database are; its wheel is no part of the lock."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import bgbias
from bgbias import seeds
from bgbias.auditing.fiftyone import dataset
from bgbias.errors import UserError
from tests.auditing.conftest import Audited

CLASSES = ("mug", "house", "car")


def colours(batch: list[np.ndarray]) -> list[np.ndarray]:
    return [photo.mean((0, 1)) for photo in batch]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four photos of noise a class in ``photos/``, and drawn masks of a square in ``masks/``."""
    pytest.importorskip("fiftyone", reason="fiftyone is not installed")
    folder, random = tmp_path_factory.mktemp("fiftyone"), seeds.generator("fiftyone")
    mask = np.zeros((40, 40), np.uint8)
    mask[8:30, 8:30] = 255
    for number in range(4):
        for place, name in enumerate(CLASSES):
            for kind in ("photos", "masks"):
                (folder / kind / name).mkdir(parents=True, exist_ok=True)
            picture = random.integers(0, 150, (40, 40, 3))
            picture[8:30, 8:30, place] += 80
            Image.fromarray(picture.astype(np.uint8)).save(folder / f"photos/{name}/{number}.png")
            Image.fromarray(mask).save(folder / f"masks/{name}/{number}.png")
    return folder


@pytest.fixture(scope="module")
def audit(photos: Path) -> bgbias.Audit:
    return bgbias.audit(
        photos / "photos", colours, masks=photos / "masks", size=32, resize=32, attribution=2, draws=1
    )


def test_without_the_library_its_extra_is_named(
    audited: Audited, toys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fiftyone", None)
    with pytest.raises(UserError, match=r"fiftyone is not installed: pip install 'bgbias\[fiftyone\]'"):
        dataset(bgbias.Audit.load(audited.out), toys / "photos")


@pytest.fixture
def fiftyone() -> Any:
    library = pytest.importorskip("fiftyone")
    before = set(library.list_datasets())
    yield library
    for name in set(library.list_datasets()) - before:
        library.delete_dataset(name)


def test_samples_have_what_the_audit_says(audit: bgbias.Audit, photos: Path, fiftyone: Any) -> None:
    made = dataset(audit, photos / "photos", photos / "masks")
    frame = audit.to_frame().set_index("image_id")
    assert made.info["verdict"] == audit.verdict
    assert len(made) == len(frame) == 12
    for sample in made:
        row = frame.loc[sample["image_id"]]
        assert Path(sample.filepath) == (photos / "photos" / sample["image_id"]).resolve()
        assert sample["ground_truth"].label == row["class_name"]
        assert sample["lost"] == pytest.approx(row["lost"])
        assert sample["object"].mask.shape == (40, 40)
        assert (sample["object"].mask[8:30, 8:30] == 255).all()
        assert sample["object"].mask.sum() == 255 * 22 * 22
    most = made.sort_by("lost", reverse=True).first()
    assert most["lost"] == pytest.approx(frame["lost"].max())


def test_a_name_keeps_it_and_is_not_taken_twice(audit: bgbias.Audit, photos: Path, fiftyone: Any) -> None:
    made = dataset(audit, photos / "photos", photos / "masks", name="test of bgbias")
    assert made.persistent
    with pytest.raises(UserError, match="has a dataset 'test of bgbias'; give another name"):
        dataset(audit, photos / "photos", photos / "masks", name="test of bgbias")


def test_the_folder_of_other_photos_is_refused(audit: bgbias.Audit, photos: Path, fiftyone: Any) -> None:
    with pytest.raises(UserError, match=r"has no file 'car/0\.png'; name the folder of the audited photos"):
        dataset(audit, photos / "photos" / "mug")


def test_a_samples_photos_are_found_beside_those_that_were_not_audited(
    audit: bgbias.Audit, photos: Path, fiftyone: Any
) -> None:
    some = bgbias.audit(
        photos / "photos", colours, masker="grabcut", size=32, resize=32, attribution=0, draws=1, sample=9
    )
    made = dataset(some, photos / "photos")
    assert sorted(made.values("image_id")) == sorted(some.to_frame()["image_id"])
    assert len(made) == len(some.to_frame()) == 8
    masks = [sample["object"].mask for sample in made]
    assert all(mask.shape == (40, 40) for mask in masks), "from the cache"
    without_masks = dataset(audit, photos / "photos")
    assert not without_masks.has_sample_field("object"), "nobody told where the drawn ones are"
