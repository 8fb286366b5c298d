"""An audit as a dataset of FiftyOne. Only where FiftyOne and its database are; its wheel is no part of the lock."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import bgbias
from bgbias.auditing.fiftyone import dataset
from bgbias.errors import UserError
from tests.auditing.conftest import Audited


def test_the_missing_extra_is_named(audited: Audited, toys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fiftyone", None)
    with pytest.raises(UserError, match=r"fiftyone is not installed: pip install 'bgbias\[fiftyone\]'"):
        dataset(bgbias.Audit.load(audited.out), toys / "photos")


def test_samples_have_what_the_audit_says(audited: Audited, toys: Path) -> None:
    library = pytest.importorskip("fiftyone", reason="fiftyone is not installed")
    audit, photos, name = bgbias.Audit.load(audited.out), toys / "photos", "test of bgbias"
    made = dataset(audit, photos, toys / "masks", name=name)
    try:
        frame = audit.to_frame().set_index("image_id")
        assert made.info["verdict"] == audit.verdict
        assert len(made) == len(frame) == 30
        for sample in made:
            row = frame.loc[sample["image_id"]]
            assert Path(sample.filepath) == (photos / sample["image_id"]).resolve()
            assert sample["ground_truth"].label == row["class_name"]
            assert sample["lost"] == pytest.approx(row["lost"])
            drawn = np.asarray(Image.open(toys / "masks" / sample["image_id"]))
            np.testing.assert_array_equal(sample["object"].mask == 255, drawn > 127)
        assert made.persistent
        with pytest.raises(UserError, match="has a dataset 'test of bgbias'; give another name"):
            dataset(audit, photos, name=name)
        assert not dataset(audit, photos).has_sample_field("object"), "nobody told where the drawn ones are"
        with pytest.raises(UserError, match=r"has no file '.*'; name the folder of the audited photos"):
            dataset(audit, toys)
    finally:
        library.delete_dataset(name)
