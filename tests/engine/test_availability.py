"""The table of what a study's datasets still need tells the truth about the disk, and touches nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from miniatures import as_folder, jpeg
from small_study import load

from bgbias.engine import availability
from bgbias.engine.availability import Arrival
from bgbias.files.fetch import partial_download
from bgbias.nodes import fetch, index
from bgbias.study.params import Study
from bgbias.study.sources import sources_of

pytestmark = pytest.mark.usefixtures("small_plugins")
COMMON = {"masker": "ground_truth", "backgrounds": "noise"}


@pytest.fixture
def study(raw: dict[str, Any], tmp_path: Path) -> Study:
    as_folder(tmp_path / "photos", {f"{c}/1.jpg": jpeg(c) for c in range(6)})
    raw["datasets"] |= {
        "birds": {"kind": "cub200", "options": {"segmentations": True}, **COMMON},
        "cars": {"kind": "cars196", "options": {"files": "car_ims.tgz"}, **COMMON},
        "products": {"kind": "sop", **COMMON},
        "mine": {"kind": "folder", "options": {"source": f"{tmp_path}/photos"}, **COMMON},
        "yours": {"kind": "folder", "options": {"source": f"{tmp_path}/nowhere"}, **COMMON},
        "later": {"kind": "in_shop", **COMMON},
    }
    return load(tmp_path, raw)


def seen(study: Study) -> dict[tuple[str, str], Arrival]:
    return {(a.dataset, a.part): a for a in availability.arrivals(study)}


def test_nothing_is_here_yet(study: Study, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    found = seen(study)
    assert {key: a.state for key, a in found.items()} == {
        ("squares", ""): "rendered",
        ("birds", "photos"): "to fetch",
        ("birds", "segmentations"): "to fetch",
        ("cars", "photos"): "by hand",
        ("cars", "annotations"): "by hand",
        ("products", "photos"): "to fetch",
        ("mine", "photos"): "to fetch",
        ("yours", "photos"): "missing file",
        ("later", ""): "no kind 'in_shop'",
    }
    assert found["birds", "photos"].size == 1_150_585_339
    assert found["birds", "photos"].step == "python -m bgbias fetch birds photos"
    assert found["cars", "annotations"].step.startswith("put cars_annos.mat (md5 b407c6086d669747186bd1d764")
    assert found["cars", "annotations"].step.endswith(f") into {study.paths.downloads}/")
    assert f"{tmp_path}/nowhere" in found["yours", "photos"].step
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_on_the_disk_is_told(study: Study) -> None:
    downloads = Path(study.paths.downloads)
    downloads.mkdir()
    (downloads / "cars_annos.mat").write_bytes(b"x" * 2_000_000)
    target = study.files.at("part", dataset="birds", part="photos")
    partial = partial_download(target, sources_of(study, "birds", "photos")[1])
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"x" * 1_500_000)
    fetch.fetch(study, "mine", "photos")
    found = seen(study)
    assert found["cars", "annotations"].state == f"in {downloads}"
    assert found["cars", "annotations"].step == "python -m bgbias fetch cars annotations"
    assert found["birds", "photos"].state == "partly downloaded, 1.5 of 1,150.6 MB"
    assert found["mine", "photos"].state == "there"
    assert found["mine", "photos"].step == "python -m bgbias index mine"
    index.index(study, "mine")
    assert seen(study)["mine", "photos"].step == ""
    study.files.at("fetch_record", dataset="mine", part="photos").write_text("{")
    assert seen(study)["mine", "photos"].state == "to fetch"


def test_the_table_of_all_or_of_the_grid_alone_fits_a_hundred_columns(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    availability.show(study)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert {line.split()[0] for line in lines if not line.startswith(" ")} >= set(study.datasets)
    assert "".join("".join(lines).split()).endswith("grid=small--data")
    assert [a.dataset for a in availability.arrivals(study, only_grid=True)] == ["squares"]
