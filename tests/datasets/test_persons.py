"""Market-1501 and CUHK03: persons, cameras, queries and gallery are those of the official layouts."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from miniatures import Files, as_folder, as_tar, as_zip
from scipy.io import savemat

from bgbias.datasets import cuhk03, market1501
from bgbias.errors import UserError
from bgbias.files.fetch import Desk, fetch
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


SPLITS = [[(1, 1), (1, 4)], [(1, 2), (2, 2)]]  # persons to test


def configured() -> bytes:
    """The new protocol's configuration."""
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
    return written.getvalue()


def extracted() -> Files:
    """Pictures of both kinds of boxes as toolboxes write them, the new protocol's configuration, and two classic splits."""
    files = {
        f"cuhk03/images_{b}/{named(p)}": box(n) for b in ("detected", "labeled") for n, p in enumerate(CUHK)
    }
    splits = [
        {"query": [[f"C:\\data\\images_detected\\{named(p)}", 0, p[2] - 1] for p in CUHK if p[:2] in split]}
        for split in SPLITS
    ]
    return files | {
        "cuhk03/cuhk03_new_protocol_config_detected.mat": configured(),
        "cuhk03/splits_classic_detected.json": json.dumps(splits).encode(),
    }


def cuhk(archive: Path, protocol_list: Path | None = None, **options: Any) -> dict[str, Item]:
    params = cuhk03.Params(val_persons=2, **options)
    parts = {"photos": archive} | ({"protocol": protocol_list} if protocol_list else {})
    return {i.image_id: i for i in cuhk03.items(params, parts, "cuhk")}


def released(path: Path) -> Path:
    """cuhk-03.mat as MATLAB writes it: 512 bytes of its own, axes reversed, cells as references, no photo as a list of sizes.

    Two pairs of cameras; a person's ten places hold photos 1 to 5 of the first camera and 6 to 10 of the second.
    """
    with h5py.File(path, "w", userblock_size=512) as file:
        kept = file.create_group("#refs#")

        def cell(content: Any) -> h5py.Reference:
            return kept.create_dataset(str(len(kept)), data=content).ref

        for boxes in ("detected", "labeled"):
            pairs = []
            for pair in (1, 2):
                persons = max(p[1] for p in CUHK if p[0] == pair)
                places = np.empty((10, persons), h5py.ref_dtype)
                for person, number in np.ndindex(persons, 10):
                    view = 1 if number < 5 else 2
                    photo = (pair, person + 1, view, number + 1)
                    shown = pixels.decode(box(CUHK.index(photo)), "box") if photo in CUHK else None
                    places[number, person] = cell(
                        np.zeros(2, np.uint64) if shown is None else shown.transpose(2, 1, 0)
                    )
                pairs.append(cell(places))
            file[boxes] = np.array([pairs], h5py.ref_dtype)
        file["testsets"] = np.array([[cell(np.array(split, float).T) for split in SPLITS]], h5py.ref_dtype)
    data = path.read_bytes()
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(512) + data[512:])
    return path


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


@pytest.mark.parametrize(
    "options", [{"protocol": "classic", "split": 1}, {"protocol": "new"}, {"square": False}]
)
def test_the_release_holds_what_a_toolbox_makes_of_it(tmp_path: Path, options: dict[str, Any]) -> None:
    release, listed = released(tmp_path / "cuhk-03.mat"), tmp_path / "list.mat"
    listed.write_bytes(configured())
    own = cuhk(release, None if options.get("protocol") == "classic" else listed, **options)
    made = cuhk(as_folder(tmp_path / "cuhk", extracted()), **options)
    # A list is in its own order, a folder in its names'.
    assert sorted(own) == list(own)
    assert own == {name: made[name] for name in own}
    assert own.keys() == made.keys()


def test_the_release_brings_its_list_from_beside_it_or_from_its_authors(tmp_path: Path) -> None:
    release = released(tmp_path / "cuhk-03.mat")
    name = "cuhk03_new_protocol_config_labeled.mat"
    (tmp_path / name).write_bytes(b"a list")
    wanted = cuhk03.parts(cuhk03.Params(source=str(release), boxes="labeled"))
    assert list(wanted) == ["photos", "protocol"]
    fetch(wanted["protocol"], tmp_path / "fetched", "cuhk", part="protocol")
    assert (tmp_path / "fetched").read_bytes() == b"a list"
    for source, found in {
        "https://host/d/cuhk-03.mat?dl=1": f"https://host/d/{name}",
        "shared:CUHK-03.MAT": f"shared:{name}",
        "cuhk-03.mat": name,
    }.items():
        parts = cuhk03.parts(cuhk03.Params(source=source, boxes="labeled"))
        assert next(s.place for s in parts["protocol"]) == found
    with pytest.raises(UserError, match=r"list is not beside .*/photos: rename that file to cuhk-03\.mat"):
        cuhk(release.rename(tmp_path / "photos"), source=str(tmp_path / "photos"))
    (by_network,) = cuhk03.parts(cuhk03.Params(boxes="labeled"))["protocol"]
    assert str(by_network.place).endswith(f"/evaluation/data/CUHK03/{name}")
    assert list(cuhk03.parts(cuhk03.Params(source=str(release), protocol="classic"))) == ["photos"]
    desk = Desk(tmp_path / "downloads", tmp_path / "checksums.csv", tmp_path / "lock")
    with pytest.raises(UserError, match=r"Get cuhk-03\.mat .*\n.*given to researchers"):
        fetch(cuhk03.parts(cuhk03.Params())["photos"], tmp_path / "none", "cuhk", part="photos", desk=desk)


def test_a_release_that_is_damaged_or_another_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, listed = released(tmp_path / "cuhk-03.mat"), tmp_path / "list.mat"
    listed.write_bytes(b"no list")
    with pytest.raises(UserError, match=r"list\.mat: the new protocol's list cannot be read"):
        cuhk(release, listed)
    for length in (200, 700, len(configured()) - 10):
        listed.write_bytes(configured()[:length])
        with pytest.raises(UserError, match=r"list\.mat: the new protocol's list cannot be read"):
            cuhk(release, listed)
    listed.write_bytes(configured())
    monkeypatch.setattr(cuhk03, "TESTED", 3)
    with pytest.raises(UserError, match="a split tests 2 persons, not 3"):
        cuhk(release, protocol="classic")
    monkeypatch.setattr(cuhk03, "TESTED", 2)
    with h5py.File(release, "r+") as file:
        photo = file[file[file["labeled"][0, 0]][0, 0]]
        file[file["labeled"][0, 0]][0, 0] = file["#refs#"].create_dataset("odd", data=photo[()] / 2).ref
    with pytest.raises(UserError, match=r"images_labeled/1_001_1_01\.png cannot be read \(float64 of"):
        cuhk(release, protocol="classic", boxes="labeled")
    release.write_bytes(release.read_bytes()[:-1000])
    with pytest.raises(UserError, match=r"is not the cuhk-03\.mat .* or not all of it .*get it again"):
        cuhk(release, listed)
    with h5py.File(release, "w") as other:
        other["photos"] = np.zeros(3)
    with pytest.raises(UserError, match=r"is not the cuhk-03\.mat that its authors give"):
        cuhk(release, protocol="classic")


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


def test_a_picture_of_another_name_is_named(tmp_path: Path) -> None:
    files = extracted() | {"cuhk03/logo.png": box(0)}
    with pytest.raises(UserError, match=r"'cuhk03/logo\.png' is not named pair_person_view_number\.png"):
        cuhk(as_zip(tmp_path / "cuhk.zip", files), protocol="classic")


def test_other_layouts_and_lists_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    archive = as_zip(tmp_path / "release.zip", {"cuhk03_release/cuhk-03.mat": b"hdf", "README.png": box(0)})
    with pytest.raises(UserError, match=r"cuhk-03\.mat itself is read, too, if source names the file"):
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
    with pytest.raises(UserError, match="a split tests 3 persons, not 2"):
        cuhk(more, protocol="classic", split=1)
