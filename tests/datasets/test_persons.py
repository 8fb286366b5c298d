"""Market-1501 and CUHK03: persons, cameras, queries and gallery are those of the official layouts."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from miniatures import Files, as_folder, as_tar, as_zip
from scipy.io import savemat

from bgbias.datasets import cuhk03, market1501
from bgbias.errors import UserError
from bgbias.files.fetch import fetch
from bgbias.images import pixels
from bgbias.photos.table import Item


def box(number: int) -> bytes:
    """An upright box, eight pixels high and four wide."""
    return pixels.encode_png(np.full((8, 4, 3), number % 256, np.uint8))


def market_files() -> Files:
    """Four persons to train by two cameras, two to test, a distractor and a junk box, and what lies beside them."""
    names = [f"bounding_box_train/{p:04d}_c{c}s1_{p}{c}_00.jpg" for p in (2, 7, 10, 11) for c in (1, 2)]
    names += [f"query/{p:04d}_c1s1_{p}_00.jpg" for p in (1, 3)]
    names += [f"bounding_box_test/{p:04d}_c{c}s1_{p}{c}_01.jpg" for p in (1, 3) for c in (1, 4)]
    names += ["bounding_box_test/0000_c3s1_5_01.jpg", "bounding_box_test/-1_c3s1_6_01.jpg"]
    names += ["gt_bbox/0001_c1s1_1_00.jpg"]
    files = {f"Market-1501-v15.09.15/{name}": box(n) for n, name in enumerate(names)}
    return files | {"Market-1501-v15.09.15/bounding_box_train/Thumbs.db": b"junk"}


@pytest.fixture(autouse=True)
def counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(market1501, "TRAIN", 8)
    monkeypatch.setattr(market1501, "QUERIES", 2)
    monkeypatch.setattr(market1501, "GALLERY", 5)
    monkeypatch.setattr(cuhk03, "NEW", {"detected": (6, 2, 3), "labeled": (6, 2, 3)})
    monkeypatch.setattr(cuhk03, "TESTED", 2)


def market(archive: Path, **options: Any) -> dict[str, Item]:
    params = market1501.Params(val_persons=2, **options)
    return {i.image_id: i for i in market1501.items(params, {"photos": archive}, "market")}


@pytest.mark.parametrize("packed", [as_zip, as_tar, as_folder])
def test_market_says_who_is_asked_among_whom(packed: Callable[[Path, Files], Path], tmp_path: Path) -> None:
    found = market(packed(tmp_path / "market", market_files()))
    assert Counter(i.split for i in found.values()) == {"train": 4, "val": 4, "test": 7}
    assert {i.class_name for i in found.values() if i.split == "val"} == {"0010", "0011"}
    test = [i for i in found.values() if i.split == "test"]
    assert {i.image_id for i in test if i.query} == {"query/0001_c1s1_1_00.jpg", "query/0003_c1s1_3_00.jpg"}
    assert [i for i in test if i.query and i.gallery] == []
    distractor = found["bounding_box_test/0000_c3s1_5_01.jpg"]
    assert (distractor.query, distractor.gallery, distractor.camera) == (False, True, "3")
    assert all(i.query and i.gallery for i in found.values() if i.split != "test")
    assert not any("-1_" in name for name in found)  # junk
    labels = {i.class_name: i.label for i in found.values()}
    assert sorted(labels.values()) == list(range(7)) == [labels[p] for p in sorted(labels)]
    assert found["query/0001_c1s1_1_00.jpg"].key_set == "market1501|test"


def test_photos_are_whole_persons_in_squares(tmp_path: Path) -> None:
    archive = as_zip(tmp_path / "market.zip", market_files())
    (name,) = (n for n in market(archive) if n.startswith("query/0001"))
    assert pixels.decode(market(archive)[name].data, name).shape == (8, 8, 3)
    assert market(archive, square=False)[name].data == market_files()[f"Market-1501-v15.09.15/{name}"]


def test_another_layout_and_other_counts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not in the layout of Market-1501"):
        market(as_zip(tmp_path / "other.zip", {"photos/a.jpg": box(0)}))
    fewer = dict(list(market_files().items())[1:])
    with pytest.raises(UserError, match="7 photos to train, 2 queries and 5 in the gallery, not 8, 2, 5"):
        market(as_zip(tmp_path / "fewer.zip", fewer))
    params, parts = market1501.Params(val_persons=3), {"photos": as_zip(tmp_path / "m.zip", market_files())}
    with pytest.raises(UserError, match="4 training persons, too few for 3"):
        list(market1501.items(params, parts, "market"))
    strange = market_files() | {"Market-1501-v15.09.15/query/who.jpg": box(1)}
    with pytest.raises(UserError, match="does not begin with a person and a camera"):
        market(as_zip(tmp_path / "strange.zip", strange))


# Pair, person in it, view, number; the first four persons train by the new protocol.
CUHK = [
    *((1, 1, 1, 1), (1, 1, 2, 6), (1, 2, 1, 1), (1, 3, 2, 6), (2, 1, 1, 1), (2, 1, 2, 6)),
    *((1, 4, 1, 1), (1, 4, 2, 6), (2, 2, 1, 1), (2, 2, 2, 6), (2, 2, 2, 7)),
]
PERSONS = [1, 1, 2, 3, 844, 844, 4, 4, 845, 845, 845]


def named(photo: tuple[int, int, int, int]) -> str:
    pair, person, view, number = photo
    return f"{pair}_{person:03d}_{view}_{number:02d}.png"


def extracted() -> Files:
    """Pictures of both kinds of boxes as toolboxes write them, the new protocol's configuration, and two classic splits."""
    files = {
        f"cuhk03/images_{b}/{named(p)}": box(n) for b in ("detected", "labeled") for n, p in enumerate(CUHK)
    }
    cells = np.empty((len(CUHK), 1), object)
    cells[:, 0] = [np.array([named(p)]) for p in CUHK]
    config = {
        "filelist": cells,
        "labels": np.array(PERSONS, float)[:, None],
        "train_idx": np.arange(1, 7)[:, None],
        "query_idx": np.array([[7], [9]]),
        "gallery_idx": np.array([[8], [10], [11]]),
    }
    written = io.BytesIO()
    savemat(written, config)
    tested = [[(1, 1), (1, 4)], [(1, 2), (2, 2)]]
    splits = [
        {"query": [[f"C:\\data\\images_detected\\{named(p)}", 0, p[2] - 1] for p in CUHK if p[:2] in split]}
        for split in tested
    ]
    return files | {
        "cuhk03/cuhk03_new_protocol_config_detected.mat": written.getvalue(),
        "cuhk03/splits_classic_detected.json": json.dumps(splits).encode(),
    }


def cuhk(archive: Path, **options: Any) -> dict[str, Item]:
    params = cuhk03.Params(val_persons=2, **options)
    return {i.image_id: i for i in cuhk03.items(params, {"photos": archive}, "cuhk")}


def test_new_protocol_by_its_configuration(tmp_path: Path) -> None:
    # As a folder, through `fetch`, which has to pack the lists, too.
    params = cuhk03.Params(source=str(as_folder(tmp_path / "folder", extracted())))
    fetch(cuhk03.parts(params)["photos"], tmp_path / "photos.zip", "cuhk", part="photos")
    found = cuhk(tmp_path / "photos.zip")
    assert {i.class_name: i.split for i in found.values()} == {
        **{"0001": "train", "0002": "train", "0003": "val", "0844": "val"},
        **{"0004": "test", "0845": "test"},
    }
    by_name = {name.rpartition("/")[2]: i for name, i in found.items()}
    asked = [(by_name[named(p)].query, by_name[named(p)].gallery) for p in CUHK[6:]]
    assert asked == [(True, False), (False, True), (True, False), (False, True), (False, True)]
    assert [by_name[named(p)].camera for p in CUHK] == [str(p[2]) for p in CUHK]


@pytest.mark.parametrize("split", [0, 1])
def test_classic_protocol_by_its_split(tmp_path: Path, split: int) -> None:
    found = cuhk(as_zip(tmp_path / "cuhk.zip", extracted()), protocol="classic", split=split)
    test = {i.class_name for i in found.values() if i.split == "test"}
    assert test == [{"1_001", "1_004"}, {"1_002", "2_002"}][split]
    assert all(i.query and i.gallery for i in found.values())
    assert len(found) == len(CUHK)


def test_new_protocol_in_folders_like_markets(tmp_path: Path) -> None:
    folders = ["bounding_box_train"] * 6 + ["query", "bounding_box_test"] * 2 + ["bounding_box_test"]
    files = {
        f"cuhk03-np/{boxes}/{folder}/{person:04d}_c{view}_{number}.png": box(number)
        for boxes in ("detected", "labeled")
        for folder, person, (_, _, view, number) in zip(folders, PERSONS, CUHK, strict=True)
    }
    archive = as_zip(tmp_path / "np.zip", files)
    found = cuhk(archive, boxes="labeled")
    assert Counter((i.split, i.query, i.gallery) for i in found.values() if i.split == "test") == {
        ("test", True, False): 2,
        ("test", False, True): 3,
    }
    with pytest.raises(UserError, match=r"no splits_classic_labeled\.json.*torchreid"):
        cuhk(archive, boxes="labeled", protocol="classic")


def test_the_release_as_it_is_is_told_how_to_be_read(tmp_path: Path) -> None:
    archive = as_zip(tmp_path / "release.zip", {"cuhk03_release/cuhk-03.mat": b"hdf", "README.png": box(0)})
    with pytest.raises(UserError, match=r"cuhk-03\.mat is not read as it is"):
        cuhk(archive)
    files = extracted()
    del files["cuhk03/images_detected/1_001_1_01.png"]
    less = as_zip(tmp_path / "less.zip", files)
    with pytest.raises(UserError, match=r"lacks 1 of the photos .* e\.g\. '1_001_1_01\.png'"):
        cuhk(less)
    splits = json.loads(files["cuhk03/splits_classic_detected.json"])
    splits[1]["query"].append(["1_001_1_01.png", 0, 0])
    files["cuhk03/splits_classic_detected.json"] = json.dumps(splits).encode()
    more = as_zip(tmp_path / "more.zip", files)
    with pytest.raises(UserError, match="split 1 tests 3 persons"):
        cuhk(more, protocol="classic", split=1)
