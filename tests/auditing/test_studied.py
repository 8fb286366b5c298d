"""A dataset of params.yaml is audited on its test photos, under the keys by which the study draws their backgrounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from miniatures import as_folder
from small_study import described, load

from bgbias.errors import UserError
from bgbias.files.store import ImageStore
from bgbias.nodes import index
from bgbias.photos.table import read_table
from tests.support.collected import collect

pytestmark = pytest.mark.usefixtures("small_plugins")


def test_datasets_test_photos_keep_their_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = load(tmp_path, described(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UserError, match=r"photos of squares are not at hand .* python -m bgbias index squares"
    ):
        collect("squares")
    index.index(study, "squares")
    photos = collect("squares")
    there = read_table(study.files.at("table", dataset="squares")).split("test")
    store, masks = (ImageStore(study.files.at(part, dataset="squares")) for part in ("photos", "truth"))
    assert photos.labelled
    assert photos.table.frame.equals(there.frame)
    first = there.ids[0]
    assert (photos.read(first), photos.truth(first)) == (store.read(first), masks.read(first))
    assert "photos of its other splits are not looked at" in next(photos.told())


def test_name_that_means_two_things_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(tmp_path, described(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"called square\. Did you mean 'squares'\?"):
        collect("square")
    as_folder(tmp_path / "squares", {"1.jpg": b""})
    with pytest.raises(UserError, match=r"a dataset of .*params\.yaml, and a folder here; .* \./squares"):
        collect("squares")
    with pytest.raises(UserError, match="none of 1 photos can be read"):
        collect("./squares")
