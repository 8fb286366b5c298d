"""Captions of published tables told again: only where this code vouches for numbers, keeping what was said of earlier code."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from bgbias.engine.accept import EARLIER
from bgbias.report import retold
from bgbias.results import publication
from bgbias.results.publication import Publication
from bgbias.settings import read_yaml
from bgbias.study import params

ROOT = Path(__file__).resolve().parents[2]
FOR_MASKS = {"table1": {"mask_report": None}, "table2": {}}


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publication:
    """Two tables of whole rows, of which the first one's file counts photos that were left out."""

    def load(name: str) -> SimpleNamespace:
        said = lambda _, table, excluded: f"{len(table)} rows, {excluded}"  # noqa: E731
        return SimpleNamespace(caption=said, reads=lambda _: FOR_MASKS[name])

    monkeypatch.setattr(retold.tables, "load", load)
    for name in FOR_MASKS:
        pd.DataFrame({"seeds": [1, 2]}).to_csv(tmp_path / f"{name}.csv", index=False)
    captions = {"table1": f"old\n\n{EARLIER}, which was accepted.", "table2": "2 rows, {}"}
    return Publication(tmp_path, {"captions": captions, "excluded": {"toy": 3}, "files": {}})


def test_a_caption_keeps_what_it_said_of_earlier_code_and_counts_photos_where_its_table_does(
    published: Publication, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = params.load(ROOT / "params.yaml", "demo")
    monkeypatch.setattr(publication, "differing_settings", lambda *_: [])
    monkeypatch.setattr(publication, "edited", lambda *_: [])
    told = {"table1": f"2 rows, {{'toy': 3}}\n\n{EARLIER}, which was accepted."}
    assert retold.differing(published, study) == told
    # Of numbers that other code made, or settings, or of a damaged file, this code says nothing.
    for key, value in {"kept": [{"because": "x"}], "files": {"table1.csv": "another"}}.items():
        other = Publication(published.folder, published.made | {key: value})
        assert retold.differing(other, study) == {}
    for name in ("edited", "differing_settings"):
        with monkeypatch.context() as patch:
            patch.setattr(publication, name, lambda *_: ["something"])
            assert retold.differing(published, study) == {}
    assert retold.tell(published, study) == ["table1"]
    written = Publication(published.folder, read_yaml(published.folder / publication.MADE))
    assert retold.differing(written, study) == {}
